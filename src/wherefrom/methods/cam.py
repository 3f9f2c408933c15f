"""CAM: how the score would rise if every position looked more at a token, in the last layer.

relu(mean over heads and queries of dy/dA^L).
"""

from __future__ import annotations

from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.registry import method


@method(
    family="attention",
    signed=False,
    per_class=True,
    reads="last_attention_gradient",
    paper="Zhou et al. 2016, arXiv:1512.04150",
)
def cam(case: Case) -> Tensor:
    return case.last_attention_gradient.mean((0, 1)).relu()
