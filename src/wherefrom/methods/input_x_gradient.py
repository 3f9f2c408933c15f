"""Input times gradient: what each token's word embedding adds to the score, to first order.

The sum over e * dy/de, or its l2 norm, or the mean of its absolute values.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from wherefrom.case.case import Attribution, Case
from wherefrom.registry import method

Reduce = Literal["sum", "l2", "mean"]


@method(family="gradient", signed=True, per_class=True, reads="embeddings", paper="Denil et al. 2015, arXiv:1412.6815")
def input_x_gradient(case: Case, *, reduce: Reduce = "sum") -> Attribution:
    return Attribution(reduced(case.embeddings * case.embedding_gradient, reduce), signed=reduce == "sum")


def reduced(parts: Tensor, reduce: Reduce) -> Tensor:
    """(token, size) -> (token,)"""
    return parts.sum(-1) if reduce == "sum" else parts.norm(dim=-1) if reduce == "l2" else parts.abs().mean(-1)
