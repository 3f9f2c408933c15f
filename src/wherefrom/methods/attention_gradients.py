"""Attention gradients: how the score would change if the deciding position looked more at a token, in the last layer.

The deciding position's row of mean_h dy/dA^L.
"""

from __future__ import annotations

from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.registry import method


@method(
    family="attention",
    signed=True,
    per_class=True,
    reads="last_attention_gradient",
    paper="Qiang et al. 2022 (AttCAT), 'Grads'",
)
def attention_gradients(case: Case) -> Tensor:
    return case.read(case.last_attention_gradient.mean(0))
