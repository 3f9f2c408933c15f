"""CP-LRP: what each token's word embedding adds to the logit, with attention, norms and activations taken as fixed
factors.

As `attn_lrp`, but nothing goes through the softmax. Where a model has neither biases nor positions beside its words,
the scores add up to the logit exactly.
"""

from __future__ import annotations

from wherefrom.case.case import Attribution, Case
from wherefrom.methods.attn_lrp import input_times
from wherefrom.registry import method


@method(
    family="relevance",
    signed=True,
    per_class=True,
    reads="modified_gradient",
    paper="Ali et al. 2022, arXiv:2202.07304",
    one_pass=True,
    scale="logit",
    sets={"candidates": 6},
)
def cp_lrp(case: Case) -> Attribution:
    return input_times(case, "cplrp")
