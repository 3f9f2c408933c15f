"""GradCAM: the last layer's attention, each head weighted by how much the score rises with it.

The deciding position's row of relu(mean_h (A^L * mean over queries and keys of dy/dA^L)). Of a model with an encoder
and a decoder, L is the decoder's last layer; the heads of its cross-attention and of its self-attention have weights of
their own, over the output up to the deciding position.
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
    paper="Selvaraju et al. 2017, arXiv:1610.02391",
)
def gradcam(case: Case) -> Tensor:
    slope = case.last_attention_gradient  # (head, query, key)
    weight = slope.new_zeros(len(slope), 1, slope.shape[-1])  # (head, 1, key)
    for sublayer in case.last_sublayers:
        part = slope[:, sublayer.queries, sublayer.keys].mean((1, 2), keepdim=True)
        weight[:, :, sublayer.keys] = part
    return case.read((case.by_layer(case.head_attention)[-1] * weight).mean(0).relu())
