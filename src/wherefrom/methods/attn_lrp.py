"""AttnLRP: what each token's word embedding adds to the logit, with norms and activations as fixed factors and products
shared evenly.

The sum over e * g, with g the gradient by the rules of AttnLRP: the softmax has its own gradient. What biases and
positions add to the logit goes to no token and is reported as unassigned.
"""

from __future__ import annotations

from wherefrom.case.case import Attribution, Case
from wherefrom.model.relevance.propagation import RuleSet
from wherefrom.registry import method


@method(
    family="relevance",
    signed=True,
    per_class=True,
    reads="modified_gradient",
    paper="Achtibat et al. 2024, arXiv:2402.05602",
    one_pass=True,
    scale="logit",
    sets={"auto": 1, "compare": 6, "candidates": 7, "light": 3},
)
def attn_lrp(case: Case) -> Attribution:
    return input_times(case, "attnlrp")


def input_times(case: Case, rules: RuleSet) -> Attribution:
    """Word embeddings times what the gradient rules carry there."""
    scores = (case.embeddings * case.relevance(rules, "words")[0]).sum(-1)
    return Attribution(scores, unassigned=(case.target.score(case.logits[None]) - scores.sum()).item())
