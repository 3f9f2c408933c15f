"""GlobEnc: how much of each token is in the deciding position, by the lengths of what is handed on, through both norms
of a block.

N_ij = ||T_i(x_j)||_2 after the second norm. The scores are the deciding position's row of N^L ... N^1, its rows scaled
to sum to one, whatever the class. The N are not scaled before they are multiplied: a position that was handed much
hands on much.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from wherefrom.case.case import Attribution, Case
from wherefrom.methods.contributions import carried
from wherefrom.registry import method

NEARLY_ALL = 0.99
# Decoders give their first position states of a size that no other has, and attend to it when they attend to nothing.
ALL_IN_ONE = (
    "{share:.1%} of the scores is at token {place} ({token}): its vectors are so much longer than all others that"
    " lengths mean little for the rest, as in many causal models. Take alti, or a method that reads gradients or"
    " hides words."
)


@method(
    family="decomposition",
    signed=False,
    per_class=False,
    reads="attention",
    paper="Modarressi et al. 2022, arXiv:2205.03286",
    one_pass=True,
)
def globenc(case: Case) -> Attribution:
    layers = case.parts(second_norm=True)
    # With D^l the row sums of N^l ... N^1, the rows of (D^l)^-1 N^l D^(l-1) sum to one, and their product is that of
    # the N, scaled.
    holdings = [torch.ones_like(layers[0].scale[:, 0])]  # what each position was handed before each layer: (key,)
    lengths: list[Tensor] = []  # of all layers but the last, of which only a row or two will be read
    for layer in layers[:-1]:
        lengths.append(layer.lengths(layer.everywhere))
        handed = lengths[-1] @ holdings[-1]
        holdings.append(handed / handed.mean())

    def measure(layer: int, rows: Tensor) -> Tensor:
        rows_of_layer = lengths[layer][rows] if layer < len(lengths) else layers[layer].lengths(rows)
        return rows_of_layer * holdings[layer]

    attribution = carried(case, len(layers), measure)
    scores = attribution.scores.sum(0) if attribution.scores.ndim == 2 else attribution.scores
    share = (scores.max() / scores.sum()).item()
    if len(scores) > 1 and share > NEARLY_ALL:
        place = int(scores.argmax())
        note = ALL_IN_ONE.format(share=share, place=place + 1, token=case.encoding.tokens[place])
        return replace(attribution, notes=(*attribution.notes, note))
    return attribution
