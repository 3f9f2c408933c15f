"""Attention operations: every way that the literature turns attention matrices into one weight a token, all at once.

Heads become one matrix a layer, layers one matrix, and that matrix one vector. All of it runs in double precision on
the CPU: it costs next to nothing beside the model, products of many layers have rows so alike that single precision
would rank them by its own noise, and some devices have no double precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from wherefrom.optimus.combination import MATRICES, Combination, Raw, Reduction, reductions

ROOM = 4_000_000  # numbers held at once; heads are taken in groups of that size


def unmasked(scores: Tensor) -> Tensor:
    """A*: attention scores before the softmax. Where the mask forbids to look there is no score: it counts zero, as it
    does in A.
    """
    return scores.masked_fill(scores <= torch.finfo(scores.dtype).min / 2, 0)


def all_weights(layers: Sequence[Tensor], read: Tensor, raw: Raw) -> Tensor:
    """The weights of every combination, in the order of `combinations`. (head, query, key) a layer -> (combination,
    token)
    """
    heads = reductions(raw, len(layers[0]))
    each = reductions(raw, len(layers))
    return torch.cat([part.flatten(0, 2) for part in _groups(layers, read.double().cpu(), heads, each)])


def weights_of(combination: Combination, layers: Sequence[Tensor], read: Tensor) -> Tensor:
    """The weights of one combination, at no more than its own cost. (token,)"""
    layer: Reduction = combination.layer
    if isinstance(layer, int):  # the others are not looked at
        layers, layer = layers[layer : layer + 1], 0
    (weights,) = _groups(layers, read.double().cpu(), [combination.head], [layer])
    return weights[0, 0, MATRICES.index(combination.matrix)]


def _groups(
    layers: Sequence[Tensor], read: Tensor, heads: Sequence[Reduction], each: Sequence[Reduction]
) -> Iterator[Tensor]:
    """As many heads together as there is room for. (head operation, layer operation, matrix operation, token)"""
    together = max(1, ROOM // ((len(each) + len(layers)) * layers[0].shape[-1] ** 2))
    numbered = [head for head in heads if isinstance(head, int)]
    if "mean" in heads:
        yield _vectors(_over_layers(_matrices([layer.mean(0, keepdim=True) for layer in layers]), each), read)
    if "multi" in heads:
        yield _vectors(_of_products(layers, each), read)
    for start in range(0, len(numbered), together):
        group = numbered[start : start + together]
        yield _vectors(_over_layers(_matrices([layer[group] for layer in layers]), each), read)


def _matrices(layers: Sequence[Tensor]) -> Tensor:
    return torch.stack([layer.cpu().double() for layer in layers], 1)  # (head operation, layer, query, key)


def _over_layers(matrices: Tensor, each: Sequence[Reduction]) -> list[Tensor]:
    """(head operation, layer, query, key) -> (head operation, query, key) for every layer operation"""
    special = {"mean": lambda: matrices.mean(1), "multi": lambda: _product(matrices.unbind(1))}
    return [matrices[:, layer] if isinstance(layer, int) else special[layer]() for layer in each]


def _product(matrices: Sequence[Tensor], *, rescaled: bool = False) -> Tensor:
    """B_L ... B_2 B_1, the last layer leftmost. Rescaled after every step where it could run out of the range of
    numbers.
    """
    product = matrices[0]
    for matrix in matrices[1:]:
        product = matrix @ product
        if rescaled:
            product = product / product.amax((-2, -1), keepdim=True).clamp(min=torch.finfo(product.dtype).tiny)
    return product


def _of_products(layers: Sequence[Tensor], each: Sequence[Reduction]) -> list[Tensor]:
    """Heads multiplied element by element, in logarithms: a dozen small factors would underflow.

    Each matrix is known up to one positive factor, which changes no sign and no rank. The layers' mean keeps theirs in
    proportion.
    """
    logs = torch.stack([layer.cpu().log().sum(0, dtype=torch.float64) for layer in layers])[
        None
    ]  # (1, layer, query, key)
    alone = (logs - _peak(logs, (-2, -1))).exp()
    special = {
        "mean": lambda: (logs - _peak(logs, (-3, -2, -1))).exp().mean(1),
        "multi": lambda: _product(alone.unbind(1), rescaled=True),
    }
    return [alone[:, choice] if isinstance(choice, int) else special[choice]() for choice in each]


def _peak(logs: Tensor, over: tuple[int, ...]) -> Tensor:
    """The largest, or zero where all are minus infinity: heads that look nowhere in common."""
    peak = logs.amax(over, keepdim=True)
    return peak.masked_fill(peak.isinf(), 0)


def _vectors(matrices: Sequence[Tensor], read: Tensor) -> Tensor:
    """The four matrix operations, over all positions: special tokens are dropped only later. -> (head op., layer op.,
    matrix op., token)
    """
    stacked = torch.stack(list(matrices), 1)  # (head operation, layer operation, query, key)
    return torch.stack([read @ stacked, stacked @ read, stacked.mean(-2), stacked.amax(-2)], 2)
