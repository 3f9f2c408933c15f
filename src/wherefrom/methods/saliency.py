"""Saliency: how strongly the score reacts to a small change of each token's word embedding.

A norm of the gradient at the word embedding: l2, l1, or the mean of its absolute values. With `noise` (0.1 is usual) it
is the mean gradient at embeddings with noise: SmoothGrad, see `smoothing`.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.methods.smoothing import embedding_gradient
from wherefrom.registry import method


@method(
    family="gradient",
    signed=False,
    per_class=True,
    reads="embeddings",
    paper="Simonyan et al. 2014, arXiv:1312.6034",
    one_pass=True,
    sets={"auto:seq2seq": 1, "light": 1},
)
def saliency(
    case: Case, *, norm: Literal["l2", "l1", "mean"] = "l2", noise: float = 0.0, samples: int = 25, seed: int = 0
) -> Tensor:
    gradient = embedding_gradient(case, noise, samples, seed)  # (token, size)
    return (
        gradient.norm(dim=-1) if norm == "l2" else gradient.abs().sum(-1) if norm == "l1" else gradient.abs().mean(-1)
    )
