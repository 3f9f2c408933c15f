"""Double precision beside an autograd graph in single precision: the model computes with tensors that stand for both.

Relevance divides by sums that nearly cancel, so the values of the forward pass have to be exact; the backward pass
does not. So every tensor that depends on the input is replaced by a stand-in with two attributes: `graph`, the tensor
that belongs to the autograd graph, and `exact`, its value in double precision, which is freed together with the
stand-in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor


def depends(x: object) -> bool:
    """Whether a tensor depends on the input: inside `RelevanceMode`, nothing else has a gradient."""
    return isinstance(x, Tensor) and (x.requires_grad or hasattr(x, "graph"))


def hold(x: Any) -> Any:
    """Mark what a router gives, or lists of it: it has a gradient, but relevance rules take it for a constant."""
    if isinstance(x, Tensor):
        vars(x)["held"] = True
    elif isinstance(x, (list, tuple)):
        for part in x:
            hold(part)
    return x


def is_held(x: object) -> bool:
    return getattr(x, "held", False)


def all_held(args: Iterable[Any]) -> bool:
    """Whether whatever depends on the input among arguments, or in lists in them, is held."""
    return all(all_held(x) if isinstance(x, (list, tuple)) else not depends(x) or is_held(x) for x in args)


def first_that_depends(args: Iterable[Any]) -> Tensor | None:
    """The first tensor among arguments, or among the lists in them, that depends on the input."""
    for x in args:
        if depends(x):
            return x  # type: ignore[no-any-return]
        if isinstance(x, (list, tuple)) and (tensor := first_that_depends(x)) is not None:
            return tensor
    return None


def paired(inner: Any, exact: Any) -> Any:
    """The stand-in for a tensor of the graph and its exact value; for lists of them, a list."""
    if not isinstance(inner, Tensor):
        return type(inner)(map(paired, inner, exact)) if isinstance(inner, (list, tuple)) else inner
    stand_in = inner.detach()
    vars(stand_in).update(graph=inner, exact=exact)
    return stand_in


def graph_tensor(x: Tensor) -> Tensor:
    """The tensor of the graph behind a stand-in; any other tensor is returned as it is."""
    graph: Tensor = getattr(x, "graph", x)
    return graph


def side_of(x: Any, side: Literal["graph", "exact"], dtype: torch.dtype) -> Any:
    """An argument as the graph or the exact side sees it, in this precision; a dtype argument becomes this one."""
    if isinstance(x, Tensor):
        tensor: Tensor = getattr(x, side, x)
        return tensor.to(dtype) if tensor.dtype is not dtype and tensor.is_floating_point() else tensor
    if isinstance(x, torch.dtype):
        return dtype if x.is_floating_point else x
    return type(x)([side_of(y, side, dtype) for y in x]) if type(x) in (list, tuple) else x


def in_double(x: Tensor) -> Tensor:
    """The exact value, in double precision."""
    exact: Tensor = side_of(x, "exact", torch.float64)
    return exact
