"""Torch functions without a row in the table of relevance rules: those that are computed by functions which have one,
those that change their first argument, and what to do about those that cannot be used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import torch
from torch import Tensor

from wherefrom.errors import NotSeen


def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * batch1 @ batch2"""
    product = batch1 @ batch2
    if alpha != 1:
        product = product * alpha
    if beta == 0:  # torch ignores the input then, whatever it contains
        return product
    return product + (input if beta == 1 else input * beta)


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """The same without a batch, where it is not simply a linear layer."""
    return baddbmm(input, mat1, mat2, beta=beta, alpha=alpha)


def grouped_mm(input: Tensor, weight: Tensor, *, offs: Tensor, bias: None = None, out_dtype: None = None) -> Tensor:
    """The rows of the input in groups that end at `offs`, each times a matrix of its own: what experts are made of."""
    starts = [0, *offs.tolist()]
    groups = zip(starts, starts[1:], weight, strict=False)
    return torch.cat([input[i:j] @ matrix for i, j, matrix in groups if i < j])


def maximum(input: Tensor, dim: int, keepdim: bool = False) -> Any:
    """The largest numbers along a dimension, and where these are. What is subtracted from its own numbers, as in front
    of a softmax, is held fixed: see `RelevanceMode._two`.
    """
    places = input.argmax(dim, keepdim=True)
    values = input.gather(dim, places)
    if not keepdim:
        values, places = values.squeeze(dim), places.squeeze(dim)
    vars(values)["maximum_of"] = input
    return torch.return_types.max((values, places))


def einsum(equation: str, *operands: Tensor) -> Tensor:
    """Of one operand a new order, of two a matrix product."""
    letters, _, result = equation.replace(" ", "").partition("->")
    if len(operands) == 1:
        return operands[0].permute(*(letters.index(letter) for letter in result))
    unseen = NotSeen(f"There is no relevance rule for torch's einsum of {equation!r}, which this model uses.")
    if len(operands) != 2:
        raise unseen
    (a, b), (x, y) = letters.split(","), operands
    both, summed = [m for m in a if m in b and m in result], [m for m in a if m in b and m not in result]
    left, right = [m for m in a if m not in b], [m for m in b if m not in a]
    if {*both, *left, *right} != set(result):
        raise unseen
    sizes = dict(zip(a + b, (*x.shape, *y.shape), strict=True))

    def count(some: list[str]) -> int:
        return prod(sizes[letter] for letter in some)

    x = x.permute(*(a.index(letter) for letter in (*both, *left, *summed)))
    y = y.permute(*(b.index(letter) for letter in (*both, *summed, *right)))
    front = [count(both)] if both else []
    product = x.reshape(*front, count(left), count(summed)) @ y.reshape(*front, count(summed), count(right))
    made = [*both, *left, *right]
    product = product.reshape(*(sizes[letter] for letter in made))
    return product.permute(*(made.index(letter) for letter in result))


# Functions that are computed by others which have rows.
REWRITTEN: Mapping[str, Callable[..., Any]] = {
    "addmm": addmm,
    "baddbmm": baddbmm,
    "_grouped_mm": grouped_mm,
    "max": maximum,
    "einsum": einsum,
}

# What changes its first argument is computed out of place: what a step has saved must not be overwritten. The result
# then takes the place of that argument wherever it is used afterwards (see `RelevanceMode`).
OUT_OF_PLACE: Mapping[str, Callable[..., Tensor]] = {
    **dict.fromkeys(("add_", "__iadd__"), torch.add),
    **dict.fromkeys(("sub_", "__isub__"), torch.sub),
    **dict.fromkeys(("mul_", "__imul__"), torch.mul),
    **dict.fromkeys(("div_", "__itruediv__"), torch.div),
    "masked_fill_": torch.masked_fill,
}

# What somebody can do whose model calls a function without a row. Experts one after the other are added up in place, an
# expert at a time, so that the rule of a sum would have to know what is still to come.
WAYS_OUT: Mapping[str, str] = {
    "index_add_": "It computes its experts one after the other; have them computed together, which gives the same:"
    ' network.set_experts_implementation("batched_mm").',
}
