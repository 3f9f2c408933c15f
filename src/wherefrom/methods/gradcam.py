"""GradCAM: the last layer's attention, each head weighted by how much the score rises with it.

The deciding position's row of relu(mean_h (A^L * mean over queries and keys of dy/dA^L)).
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
    weight = case.last_attention_gradient.mean((1, 2), keepdim=True)  # (head, 1, 1)
    return case.read((case.capture.attention[-1].probs * weight).mean(0).relu())
