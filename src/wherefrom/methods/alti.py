"""ALTI: how much of each token is in the deciding position, if what comes nearest to the whole counts most.

In each attention block y_i = sum_j T_i(x_j) + biases; C_ij is max(0, ||y_i|| - ||y_i - T_i(x_j)||), rows scaled to sum
to one. The scores are the deciding position's row of C^L ... C^1, whatever the class. With ln2=True also through the
second norm.
"""

from __future__ import annotations

from wherefrom.case.case import Attribution, Case
from wherefrom.methods.contributions import carried
from wherefrom.model.decomposition import Distance
from wherefrom.registry import method


@method(
    family="decomposition",
    signed=False,
    per_class=False,
    reads="attention",
    paper="Ferrando et al. 2022, arXiv:2203.04212",
    one_pass=True,
    sets={"compare": 4, "candidates": 4},
)
def alti(case: Case, *, norm: Distance = "l1", ln2: bool = False) -> Attribution:
    layers = case.parts(second_norm=ln2)
    return carried(case, len(layers), lambda layer, rows: layers[layer].proximity(rows, norm))
