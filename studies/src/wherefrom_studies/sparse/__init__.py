"""Attention classifiers with sparse projections: their training, their adversary, and what is measured on them."""
