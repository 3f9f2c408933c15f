"""Attention rollout: how much of each token reaches the deciding position if attention and residual mix half and half.

R = prod_l (0.5 I + 0.5 mean_h A^l), the deciding position's row. Only that row is carried, from the top layer down.
"""

from __future__ import annotations

from torch import Tensor

from whence.core.case import Case
from whence.registry import method


@method(family="attention", signed=False, per_class=False, reads="attention", paper="Abnar & Zuidema 2020, arXiv:2005.00928")
def attention_rollout(case: Case) -> Tensor:
    layers = case.capture.attention
    row = case.model.row_read(case.encoding).to(layers[0].probs.dtype)  # (token,)
    for layer in reversed(layers):
        row = 0.5 * row + 0.5 * row @ layer.probs.mean(0)
    return row
