"""Saliency: how strongly the score reacts to a small change of each token's word embedding.

A norm of the gradient at the word embedding: l2, l1, or the mean of its absolute values.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from wherefrom.case.case import Case
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
def saliency(case: Case, *, norm: Literal["l2", "l1", "mean"] = "l2") -> Tensor:
    gradient = case.embedding_gradient  # (token, size)
    return (
        gradient.norm(dim=-1) if norm == "l2" else gradient.abs().sum(-1) if norm == "l1" else gradient.abs().mean(-1)
    )
