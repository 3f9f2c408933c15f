"""GAE: how much of each token reaches the deciding position, each head's attention counted by its gradient.

R <- R + E_h (dy/dA^l * A^l)+ R, from R = I, the deciding position's row. (What the Mask-LRP paper's code calls GAE is
`transatt`.)
"""

from __future__ import annotations

from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.registry import method


@method(
    family="relevance",
    signed=False,
    per_class=True,
    reads="attention_x_gradients",
    paper="Chefer et al. 2021, arXiv:2103.15679",
)
def gae(case: Case) -> Tensor:
    row = case.row_read
    for weighted in reversed(case.attention_x_gradients(positive=True)):  # attention is never negative
        row = row + row.to(weighted.dtype) @ weighted
    return row
