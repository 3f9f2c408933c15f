"""Input times gradient: what each token's word embedding adds to the score, to first order.

The sum over (e - b) * dy/de, or its l2 norm, or the mean of its absolute values. b is zero unless `baseline` says which
token's embedding it is. Where a model normalises word embeddings before anything else, as DeBERTa-v3 does, a longer
embedding changes nothing and e * dy/de is zero but for rounding: then a baseline is needed, and a note says so. With
`noise` the gradient is that of SmoothGrad: see `smoothing`.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from wherefrom.case.case import Attribution, Case
from wherefrom.methods.smoothing import embedding_gradient
from wherefrom.model.hiding import fill_vector
from wherefrom.registry import method

Reduce = Literal["sum", "l2", "mean"]
Baseline = Literal["zero", "auto", "mask", "pad", "unk", "eos"]
ROUNDED = 1000  # times the precision: what a norm, a backward pass through all layers and a sum leave of zero
NORM_EPSILON = (
    1e-3  # what the epsilon of a norm leaves of it: in double precision more than rounding, and as meaningless
)


ONLY_ROUNDING_NOTE = (
    "These scores are rounding: the model normalises its word embeddings, so that none adds anything by its length."
    " Take baseline=mask (or unk, pad), integrated_gradients or saliency."
)


@method(
    family="gradient",
    signed=True,
    per_class=True,
    reads="embeddings",
    paper="Denil et al. 2015, arXiv:1412.6815",
    one_pass=True,
    scale="derivative",
)
def input_x_gradient(
    case: Case,
    *,
    reduce: Reduce = "sum",
    baseline: Baseline = "zero",
    noise: float = 0.0,
    samples: int = 25,
    seed: int = 0,
) -> Attribution:
    embeddings, gradient = case.embeddings, embedding_gradient(case, noise, samples, seed)
    if baseline != "zero":
        fill = case.model.hiding.usual_fill() if baseline == "auto" else baseline
        embeddings = torch.where(case.special[:, None], 0, embeddings - fill_vector(case.model, fill))
    parts = embeddings * gradient
    notes = (ONLY_ROUNDING_NOTE,) if reduce == "sum" and only_rounding(parts) else ()
    return Attribution(reduced(parts, reduce), signed=reduce == "sum", notes=notes)


def only_rounding(parts: Tensor) -> bool:
    """Whether every sum over a token's numbers is as small beside their sizes as rounding, or the epsilon of a norm,
    leaves it. (token, size)
    """
    sizes, sums = parts.double().norm(dim=-1), parts.double().sum(-1).abs()
    level = max(ROUNDED * torch.finfo(parts.dtype).eps, NORM_EPSILON)
    return bool(sizes.max() > 0) and bool((sums <= level * sizes.max()).all())


def reduced(parts: Tensor, reduce: Reduce) -> Tensor:
    """(token, size) -> (token,)"""
    return parts.sum(-1) if reduce == "sum" else parts.norm(dim=-1) if reduce == "l2" else parts.abs().mean(-1)
