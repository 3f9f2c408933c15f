"""Relevance by rules that wrap torch functions.

- rules: the table of rules
- zplus: the formulas of z+
- steps, attention: the autograd functions that look a rule up and apply it
- mode: puts these into the autograd graph of a forward pass
- double: double precision beside the graph
- propagation: which rules and heads are in force
"""
