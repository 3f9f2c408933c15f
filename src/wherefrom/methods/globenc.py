"""GlobEnc: how much of each token is in the deciding position, by the lengths of what is handed on, through both norms
of a block.

N_ij = ||T_i(x_j)||_2 behind the second norm. The scores are the deciding position's row of N^L ... N^1, its rows scaled
to sum to one, whatever the class. The N are not scaled before they are multiplied: a position that was handed much
hands on much.
"""

from __future__ import annotations

import torch
from torch import Tensor

from wherefrom.case.case import Attribution, Case
from wherefrom.methods.contributions import carried
from wherefrom.registry import method


@method(
    family="decomposition",
    signed=False,
    per_class=False,
    reads="attention",
    paper="Modarressi et al. 2022, arXiv:2205.03286",
)
def globenc(case: Case) -> Attribution:
    layers = case.parts(second_norm=True)
    # With D^l the row sums of N^l ... N^1, the rows of (D^l)^-1 N^l D^(l-1) sum to one, and their product is that of
    # the N, scaled.
    holdings = [torch.ones_like(layers[0].scale[:, 0])]  # what each position was handed before each layer: (key,)
    for layer in layers[:-1]:
        handed = layer.lengths(layer.everywhere) @ holdings[-1]
        holdings.append(handed / handed.mean())

    def measure(layer: int, rows: Tensor) -> Tensor:
        return layers[layer].lengths(rows) * holdings[layer]

    return carried(case, len(layers), measure)
