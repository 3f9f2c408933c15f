"""Metrics, one file each. A metric maps data to a number and never sees a model. Its options are its class's fields.

A metric that needs no model has `score(evidence)`. One that asks the model has `questions(evidence)`, which returns
rows of the units that are kept, and `score(evidence, answers)`, which is given the answers. See docs/add-a-metric.md.
"""
