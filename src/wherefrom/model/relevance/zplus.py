"""The z+ rules of Chefer et al. (2021): how an operation shares the relevance of its result among its operands.

Each function takes the relevance of the result, the result and the operands, and returns the relevance of each operand.
"""

from __future__ import annotations

import torch
from torch import Tensor

SHORT = 64  # a sum of this many products has a positive one in practice


def ratio(numerator: Tensor, divisor: Tensor) -> Tensor:
    """numerator / divisor, and zero where the divisor is zero."""
    return (numerator / divisor).nan_to_num_(0.0, 0.0, 0.0)


def fitted(x: Tensor, shape: torch.Size) -> Tensor:
    """Summed over the dimensions that were broadcast."""
    return x if x.shape == shape else x.sum_to_size(shape)


def zplus_linear(relevance: Tensor, x: Tensor, matrix: Tensor, plain: Tensor, buffer: Tensor | None = None) -> Tensor:
    """For plain = x @ matrix: in proportion to the positive products. Twice their sum is x W + |x| |W|; |W| goes to
    `buffer`.

    Where no product is positive, which happens in short sums only, all are negative and share in proportion to their
    size.
    """
    size, weight = x.abs(), torch.abs(matrix, out=buffer)
    twice = torch.addmm(plain, size, weight) if x.ndim == matrix.ndim == 2 else plain + size @ weight
    if x.shape[-1] >= SHORT:
        share, negative = ratio(relevance, twice), None
    else:
        none = twice <= (twice - plain) * (32 * torch.finfo(x.dtype).eps)
        share = ratio(relevance, twice).masked_fill_(none, 0)
        negative = x * (ratio(relevance, plain).where(none, 0) @ matrix.mT) if bool(none.any()) else None
    shared = (share @ matrix.mT).mul_(x).addcmul_(size, share @ weight.mT)
    return shared if negative is None else shared.add_(negative)


def zplus_add(rows: int, relevance: Tensor, result: Tensor, *operands: Tensor) -> list[Tensor]:
    """In proportion to the summands; then rescaled, sample by sample, by the size of their sums, so that opposite signs
    do not blow up.
    """
    share = ratio(relevance, result)
    parts = [(share * operand).reshape(rows, -1) for operand in operands]
    sums = torch.stack([part.sum(1, dtype=torch.float64) for part in parts])  # (operand, row)
    sizes = ratio(sums.abs(), sums.abs().sum(0))
    factors = ratio(sizes * relevance.reshape(rows, -1).sum(1, dtype=torch.float64), sums).to(relevance.dtype)
    return [part.mul_(factor[:, None]).view_as(result) for part, factor in zip(parts, factors, strict=True)]


def zplus_product_share(relevance: Tensor, result: Tensor) -> Tensor:
    """What every product that a matrix product sums is multiplied by, to share relevance half to either side."""
    return ratio(relevance, result).mul_(0.5)


def zplus_product(relevance: Tensor, result: Tensor, a: Tensor, b: Tensor) -> list[Tensor]:
    """For result = a @ b: in proportion to the products, half to either side."""
    share = zplus_product_share(relevance, result)
    return [fitted((share @ b.mT).mul_(a), a.shape), fitted((a.mT @ share).mul_(b), b.shape)]


def zplus_sum(relevance: Tensor, x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """For a sum or a mean: in proportion to the positive summands, or to all where there is none. The sum keeps its
    dimensions.
    """
    positive = x.clamp(min=0)
    chosen = torch.where(positive.sum(dims, keepdim=True) == 0, x, positive)
    return chosen * ratio(relevance, chosen.sum(dims, keepdim=True))
