"""CAM: how the score would rise if every position looked more at a token, in the last layer.

relu(mean over heads and queries of dy/dA^L). Of a model with an encoder and a decoder, L is the decoder's last layer,
its cross-attention beside its self-attention, and the queries are the output up to the deciding position.
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
    slope = case.last_attention_gradient  # (head, query, key)
    return slope[:, case.last_sublayers[0].queries].mean((0, 1)).relu()
