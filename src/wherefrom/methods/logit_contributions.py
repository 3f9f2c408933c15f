"""Logit contributions: what each token's vector adds to the logit, with attention and norms held fixed and MLPs by
their local linear map.

ALTI asks how much of each token is in the deciding position's vector, whatever the class. Here the vectors are followed
on to one logit. With the attention probabilities and the norms' deviations as fixed numbers, a block is linear but for
its MLP, and that is replaced by its own derivative at this text; so is the head. Then logit = sum_j <g_j, x_j> + what
is unassigned, with x_j the vector of position j where block `layer` begins and g_j what the maps after it make of the
logit. What biases add, and what the curves of MLPs and head add to their local linear maps, belongs to no token.
"""

from __future__ import annotations

from wherefrom.case.case import Attribution, Case
from wherefrom.errors import BadOption
from wherefrom.registry import method


@method(
    family="decomposition",
    signed=True,
    per_class=True,
    reads="modified_gradient",
    paper="Wherefrom, after Ferrando et al. 2022, arXiv:2203.04212",
    one_pass=True,
    scale="logit",
)
def logit_contributions(case: Case, *, layer: int = 0) -> Attribution:
    maps = case.relevance("local_linear", "blocks")  # before every block, and after the last
    if not -len(maps) <= layer < len(maps):
        raise BadOption(
            f"There is no block {layer}: the model has {len(maps) - 1}, numbered from 0; {len(maps) - 1} is behind the"
            " last."
        )
    scores = (case.block_inputs[layer] * maps[layer]).sum(-1)
    return Attribution(scores, unassigned=(case.target.score(case.logits[None]) - scores.sum()).item())
