"""Metrics, one file each. A metric maps data to a number and never sees a model. Its options are its class's fields.

A metric that needs no model has `score(evidence)`. One that hides words has `questions(evidence)`, which returns
rows of the units that are kept, and `score(evidence, answers)`. See docs/add-a-metric.md.
"""
