"""Norms: how much of each token is in the deciding position, if what is longest counts most.

In each attention block y_i = sum_j T_i(x_j) + biases; C_ij is ||T_i(x_j)||_2, rows scaled to sum to one. The scores are
the deciding position's row of C^L ... C^1, whatever the class.
"""

from __future__ import annotations

from wherefrom.case.case import Attribution, Case
from wherefrom.methods.contributions import carried
from wherefrom.registry import method


@method(
    family="decomposition",
    signed=False,
    per_class=False,
    reads="attention",
    paper="Kobayashi et al. 2021, arXiv:2109.07152",
    one_pass=True,
)
def norms(case: Case) -> Attribution:
    layers = case.parts()
    return carried(case, len(layers), lambda layer, rows: layers[layer].lengths(rows))
