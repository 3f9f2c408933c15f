"""Attention rollout: how much of each token reaches the deciding position if attention and residual mix half and half.

R = prod_l (0.5 I + 0.5 mean_h A^l), the deciding position's row. Only that row is carried, from the top layer down.
"""

from __future__ import annotations

import torch
from torch import Tensor

from wherefrom.case.case import Attribution, Case
from wherefrom.methods.contributions import carried
from wherefrom.registry import method


@method(
    family="attention", signed=False, per_class=False, reads="attention", paper="Abnar & Zuidema 2020, arXiv:2005.00928"
)
def attention_rollout(case: Case) -> Attribution:
    layers = case.attention(scores=False)
    residual = torch.eye(len(case.encoding)).to(case.embeddings)

    def measure(layer: int, rows: Tensor) -> Tensor:
        return 0.5 * residual[rows] + 0.5 * layers[layer][:, rows].to(residual).mean(0)

    return carried(case, len(layers), measure)
