"""Projections of scores onto the simplex: how attention turns scores into weights that sum to one.

- softmax: no weight is ever zero.
- sparsemax: the nearest point of the simplex, argmin_p ||p - a||^2; low scores get exactly zero.
- sparsegen (lin): argmin_p ||p - a||^2 - lam ||p||^2 = sparsemax(a / (1 - lam)); 0 is sparsemax, towards 1 argmax,
  towards -inf uniform.
- entmax: between softmax (alpha 1) and sparsemax (alpha 2), through the package entmax.

All work over the last dimension. A score of -inf, or a place where `mask` is False, gets weight zero; a row without any
place left gets zeros. softmax, sparsemax and sparsegen are plain torch operations: twice differentiable, and usable
under vmap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from wherefrom.errors import BadOption, MissingPackage, UnknownName

NAMES = ("softmax", "sparsemax", "sparsegen", "entmax")
OUT_OF_REACH = -2.0  # more than one below the largest score: sparsemax gives nothing there, and no gradient flows


def softmax(scores: Tensor, *, mask: Tensor | None = None) -> Tensor:
    scores, possible = _masked(scores, mask)
    return torch.where(possible, functional.softmax(torch.where(possible, scores, 0.0), -1), 0.0)


def sparsemax(scores: Tensor, *, mask: Tensor | None = None) -> Tensor:
    return sparsegen(scores, 0.0, mask=mask)


def sparsegen(scores: Tensor, lam: float, *, mask: Tensor | None = None) -> Tensor:
    if not (math.isfinite(lam) and lam < 1):
        raise BadOption(
            "sparsegen's lam must be a number below 1 (0 is sparsemax, near 1"
            f" is argmax, very low is uniform), not {lam}."
        )
    scores, possible = _masked(scores, mask)
    largest = torch.where(
        possible, scores.detach().amax(-1, keepdim=True), 0.0
    )  # shifting a row changes nothing but rounding
    scaled = ((scores - largest) / (1 - lam)).clamp(min=OUT_OF_REACH)
    ordered = scaled.sort(-1, descending=True).values
    rank = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
    support = 1 + rank * ordered > ordered.cumsum(-1)  # true for the first k, then false
    threshold = (torch.where(support, ordered, 0.0).sum(-1, keepdim=True) - 1) / support.sum(-1, keepdim=True)
    return torch.where(
        possible, (scaled - threshold).relu(), 0.0
    )  # relu, as its derivative is zero on the border of the support


def entmax(scores: Tensor, alpha: float, *, mask: Tensor | None = None) -> Tensor:
    if not (math.isfinite(alpha) and alpha >= 1):
        raise BadOption(f"entmax's alpha must be at least 1 (1 is softmax, 2 is sparsemax), not {alpha}.")
    if alpha == 1:  # where the package's bisection divides by zero
        return softmax(scores, mask=mask)
    try:
        from entmax import entmax15, entmax_bisect
    except ImportError as missing:
        raise MissingPackage("entmax attention needs a package: pip install entmax") from missing
    scores, possible = _masked(scores, mask)
    scores = torch.where(possible, scores, 0.0)
    weights = entmax15(scores, dim=-1) if alpha == 1.5 else entmax_bisect(scores, alpha=alpha, dim=-1)
    return torch.where(possible, weights, 0.0)


def _masked(scores: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The scores with -inf where the mask is False, and which rows have a place left. (..., place), (..., 1)"""
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf)
    return scores, (scores > -math.inf).any(-1, keepdim=True)


@dataclass(frozen=True)
class Projection:
    """A projection with its parameter: written softmax, sparsemax, sparsegen:0.5, entmax:1.5."""

    name: str
    parameter: float | None = None

    @classmethod
    def parse(cls, written: str) -> Projection:
        name, colon, number = written.strip().partition(":")
        if name not in NAMES:
            raise UnknownName.among("projection", name, NAMES)
        if name in ("softmax", "sparsemax"):
            if colon:
                raise BadOption(f"{name} has no parameter: write {name!r}, not {written!r}.")
            return cls(name)
        try:
            projection = cls(name, float(number))
        except ValueError as error:
            example = "sparsegen:0.5" if name == "sparsegen" else "entmax:1.5"
            raise BadOption(f"{name} needs its parameter, as in {example!r}, not {written!r}.") from error
        projection(torch.zeros(2))  # says what is wrong with the parameter
        return projection

    def __str__(self) -> str:
        return self.name if self.parameter is None else f"{self.name}:{self.parameter:g}"

    def __call__(self, scores: Tensor, *, mask: Tensor | None = None) -> Tensor:
        if self.name == "softmax":
            return softmax(scores, mask=mask)
        if self.name == "sparsemax":
            return sparsemax(scores, mask=mask)
        assert self.parameter is not None
        return (
            sparsegen(scores, self.parameter, mask=mask)
            if self.name == "sparsegen"
            else entmax(scores, self.parameter, mask=mask)
        )
