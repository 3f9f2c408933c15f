"""Judging explanations: what a metric sees, how explanations are graded, and how methods are compared."""
