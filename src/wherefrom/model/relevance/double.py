"""Double precision beside a graph in single: the model is given tensors that carry both.

Relevance divides by sums that nearly cancel, so the values of the forward pass have to be exact; what goes back over
the graph does not. So every tensor that depends on the words is given to the model as a stand-in for two: `graph`,
which the graph is made of, and `exact`, its value in double precision, which is gone as soon as the model lets go of
the stand-in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor


def depends(x: object) -> bool:
    """Whether a tensor depends on the words: inside `RelevanceMode`, nothing else has a gradient."""
    return isinstance(x, Tensor) and (x.requires_grad or hasattr(x, "graph"))


def first_that_depends(args: Iterable[Any]) -> Tensor | None:
    """The first tensor among arguments, or among the lists in them, that depends on the words."""
    for x in args:
        found = x if depends(x) else first_that_depends(x) if isinstance(x, (list, tuple)) else None
        if found is not None:
            return found
    return None


def paired(inner: Any, exact: Any) -> Any:
    """The stand-in for a tensor of the graph and its exact value; for lists of them, a list."""
    if not isinstance(inner, Tensor):
        return type(inner)(map(paired, inner, exact)) if isinstance(inner, (list, tuple)) else inner
    stand_in = inner.detach()
    vars(stand_in).update(graph=inner, exact=exact)
    return stand_in


def graph_tensor(x: Tensor) -> Tensor:
    """The tensor of the graph behind a stand-in; any other tensor is its own."""
    found: Tensor = getattr(x, "graph", x)
    return found


def side_of(x: Any, side: Literal["graph", "exact"], dtype: torch.dtype) -> Any:
    """An argument on either side, all numbers in this precision; casts to another become casts to it."""
    if isinstance(x, Tensor):
        found: Tensor = getattr(x, side, x)
        return found.to(dtype) if found.dtype is not dtype and found.is_floating_point() else found
    if isinstance(x, torch.dtype):
        return dtype if x.is_floating_point else x
    return type(x)([side_of(y, side, dtype) for y in x]) if type(x) in (list, tuple) else x


def in_double(x: Tensor) -> Tensor:
    """In double precision."""
    found: Tensor = side_of(x, "exact", torch.float64)
    return found
