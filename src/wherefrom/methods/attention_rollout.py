"""Attention rollout: how much of each token reaches the deciding position if attention and residual mix half and half.

R = prod_l (0.5 I + 0.5 mean_h A^l), the deciding position's row. Only that row is carried, from the top layer down.

Of a model with an encoder and a decoder every attention is a factor: the encoder's, which mix the source, and of every
decoder layer first its self-attention, which mixes the output, then its cross-attention, which brings the source in.
"""

from __future__ import annotations

import torch
from torch import Tensor

from wherefrom.case.case import Attribution, Case
from wherefrom.methods.contributions import carried
from wherefrom.registry import method


@method(
    family="attention",
    signed=False,
    per_class=False,
    reads="mean_attention",
    paper="Abnar & Zuidema 2020, arXiv:2005.00928",
    one_pass=True,
    sets={"compare": 1},
)
def attention_rollout(case: Case) -> Attribution:
    layers = case.mean_attention

    def measure(layer: int, rows: Tensor) -> Tensor:
        mixed = 0.5 * layers[layer][rows].to(case.embeddings)
        # The residual. A token that does not attend in a sublayer keeps what it has: rows are divided by their sums.
        mixed[torch.arange(len(rows), device=rows.device), rows] += 0.5
        return mixed

    return carried(case, len(layers), measure)
