"""The autograd functions that a forward pass within `relevance_mode` puts into the graph.

Each looks up, in the backward pass, the rule set in force and its rule in the table (see `rules`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from wherefrom.model.relevance.propagation import PropagationState
from wherefrom.model.relevance.rules import BY_KIND, BackwardCall, Rule, gradient
from wherefrom.model.relevance.zplus import fitted

LINEAR = BY_KIND["linear"]


class RuleStep(torch.autograd.Function):
    """An operation with its rule: the gradient goes back through `result`, relevance goes to the operands."""

    @staticmethod
    def forward(
        ctx: Any,
        state: PropagationState,
        rule: Rule,
        place: tuple[int, str],
        dims: tuple[int, ...] | None,
        value: Tensor,
        result: Tensor,
        *operands: Tensor,
    ) -> Tensor:
        ctx.state, ctx.rule, ctx.place, ctx.dims = state, rule, place, dims
        ctx.shapes = [x.shape for x in operands]
        ctx.set_materialize_grads(False)
        reads = rule.reads if not state.gradient_rules or rule.reads_for_gradients else ()
        result_read = (value,) if "result" in reads else ()
        ctx.save_for_backward(*result_read, *(operands if "operands" in reads else ()))
        return value

    @staticmethod
    def backward(ctx: Any, *received: Tensor | None) -> tuple[Any, ...]:
        relevance, state, shapes = received[0], ctx.state, ctx.shapes
        if relevance is None:
            return (None,) * (6 + len(shapes))
        if state.rules == "gradient":
            return (None, None, None, None, None, relevance, *[None] * len(shapes))
        call = BackwardCall(relevance, shapes, ctx.saved_tensors, state, ctx.place, ctx.dims)
        parts = list(ctx.rule.share(state.rules)(call))
        parts += [None] * (1 + len(shapes) - len(parts))
        kept = [part if needed else None for part, needed in zip(parts, ctx.needs_input_grad[5:], strict=True)]
        state.note(ctx.place, relevance, kept)
        return (None, None, None, None, None, *kept)


class LinearStep(torch.autograd.Function):
    """y = x @ matrix + bias, whose gradient is computed here too.

    In the top block most positions have no relevance: their rows are left out of the products.
    """

    @staticmethod
    def forward(
        ctx: Any,
        state: PropagationState,
        place: tuple[int, str],
        y: Tensor,
        x: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
    ) -> Tensor:
        ctx.state, ctx.place, ctx.shape = state, place, x.shape
        ctx.set_materialize_grads(False)
        if state.gradient_rules:
            ctx.save_for_backward(matrix)
        else:
            ctx.save_for_backward(*((y, x, matrix) if bias is None else (y, x, matrix, bias)))
        return y

    @staticmethod
    def backward(ctx: Any, *received: Tensor | None) -> tuple[Any, ...]:
        state, whole = ctx.state, received[0]
        if whole is None:
            return None, None, None, None, None, None
        *values, matrix = ctx.saved_tensors if state.gradient_rules else ctx.saved_tensors[:3]
        bias = () if state.gradient_rules else ctx.saved_tensors[3:]
        relevance, shape, rows = whole, ctx.shape, None
        if matrix.ndim == 2:
            rows = rows_with_relevance(relevance)
            relevance, *values = (t.reshape(-1, t.shape[-1]) for t in (relevance, *values))
            if rows is not None:
                relevance, *values = (t[rows] for t in (relevance, *values))
        share = LINEAR.share(state.rules)
        if share == gradient:
            part = relevance @ matrix.mT
        else:
            y, x = values
            _, shares = share(BackwardCall(relevance, [x.shape], (y, x, matrix, *bias), state, ctx.place))
            assert shares is not None
            part = shares
        if rows is not None:
            part = part.new_zeros(shape[:-1].numel(), shape[-1]).index_copy_(0, rows, part)
        part = part.view(shape) if matrix.ndim == 2 else fitted(part, shape)
        state.note(ctx.place, whole, [part])
        return None, None, None, part, None, None


def rows_with_relevance(relevance: Tensor) -> Tensor | None:
    """The rows, of all but the last dimension, that have any relevance; None where half or more have.

    One row is looked at before all are, which mostly settles it.
    """
    if relevance.ndim > 1 and bool(relevance.select(-2, relevance.shape[-2] // 3).any()):
        return None
    flat = relevance.reshape(-1, relevance.shape[-1])
    rows = flat.ne(0).any(-1).nonzero()[:, 0]
    return rows if 2 * len(rows) < len(flat) else None
