"""Metrics, one file each. A metric is data in, number out: it never sees a model.

`questions(evidence)` says what to ask: rows of what is kept, over the units of the text. `score(evidence, whole,
answers)` is given the target's probability with the whole text and in every row. Options are the fields of the class.
"""
