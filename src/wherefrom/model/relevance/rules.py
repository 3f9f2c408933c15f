"""The steps that a forward pass leaves behind for its backward passes, which carry whatever the rules in force hand on.

- gradient: the ordinary gradient.
- zplus: relevance. It starts as one at the target's logit and is shared out by the z+ rules; what an operation is
  given, it hands on.
- attn_lrp, cp_lrp: gradient times input is relevance (Achtibat et al. 2024; Ali et al. 2022). A norm is a fixed
  rescaling, an activation the factor y/x, a product of two hands each half; the softmax has its own gradient in
  attn_lrp and none in cp_lrp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from wherefrom.model.relevance.zplus import fitted, ratio, zplus_add, zplus_linear, zplus_product, zplus_sum

RuleSet = Literal["gradient", "zplus", "attn_lrp", "cp_lrp"]
MaskVariant = Literal["paper", "published"]
NORMS = {"layer_norm", "rms_norm"}
READS = {
    "add",
    "subtract",
    "product",
    "activation",
    *NORMS,
}  # kinds whose rules read result and operands; of others nothing is kept


@dataclass(frozen=True)
class Propagation:
    """How relevance is carried: by which rules, through which heads, and whether the forward pass is in double
    precision.
    """

    rules: RuleSet = "gradient"
    heads: tuple[tuple[float, ...], ...] | None = None  # how much each head's relevance counts, by layer
    variant: MaskVariant = "paper"  # see `through_heads`
    double: bool = False


@dataclass
class Operation:
    """One operation of one pass: where it stands, and how much relevance came in from above and was handed on."""

    layer: int  # -1 before the first block
    name: str
    entering: float
    leaving: float


@dataclass
class PropagationState:
    """What the backward passes over one forward pass need to know; set by `propagating`, looked up by every step.

    It holds no tensor of the graph: the graph holds it, and would never be let go.
    """

    rows: int
    propagation: Propagation = field(default_factory=Propagation)
    trace: list[Operation] | None = None
    last: int | None = None  # the layer at whose attention this pass ends
    keeps_attention: bool = False  # whether what every probability is handed is wanted as it is
    gradients: Sequence[Tensor] | None = None  # at every layer's context, to mix relevance with as it comes by
    mixed: dict[int, Tensor] = field(default_factory=dict)  # E_h (gradient * relevance)+ by layer. (row, query, key)
    lost: dict[int, Tensor] = field(
        default_factory=dict
    )  # relevance that found no head to go through, by layer. (row,)
    _buffers: dict[torch.dtype, Tensor] = field(default_factory=dict)

    @contextmanager
    def propagating(
        self,
        propagation: Propagation,
        *,
        trace: list[Operation] | None = None,
        last: int | None = None,
        keeps_attention: bool = False,
        gradients: Sequence[Tensor] | None = None,
    ) -> Iterator[None]:
        """Within this context, backward passes hand on what these rules say."""
        self.propagation, self.trace, self.last, self.keeps_attention, self.gradients = (
            propagation,
            trace,
            last,
            keeps_attention,
            gradients,
        )
        self.lost, self.mixed = {}, {}
        try:
            yield
        finally:
            self.propagation, self.trace, self.last, self.keeps_attention, self.gradients = (
                Propagation(),
                None,
                None,
                False,
                None,
            )
            self.lost, self.mixed = {}, {}

    @property
    def rules(self) -> RuleSet:
        return self.propagation.rules

    def buffer(self, matrix: Tensor, dtype: torch.dtype) -> Tensor:
        """Memory for a matrix like this one, used again for the next: asking for it anew each time costs more than
        filling it.
        """
        size, turned = matrix.numel(), matrix.mT.is_contiguous()
        if dtype not in self._buffers or self._buffers[dtype].numel() < size:
            self._buffers[dtype] = torch.empty(size, dtype=dtype, device=matrix.device)
        buffer = self._buffers[dtype][:size]
        return buffer.view(matrix.mT.shape).mT if turned else buffer.view(matrix.shape)

    def hook(self, point: str, layer: int, x: Tensor) -> Tensor:
        """Mark a tensor at which relevance is weighted by head (see `through_heads`)."""
        gated: Tensor = RuleStep.apply(self, point, (layer, point), x.detach(), x, x)  # type: ignore[no-untyped-call]
        return gated

    def note(self, place: tuple[int, str], entering: Tensor, leaving: Sequence[Tensor | None]) -> None:
        if self.trace is not None:
            handed = sum(part.sum().item() for part in leaving if part is not None)
            self.trace.append(Operation(place[0], place[1], entering.sum().item(), handed))


class RuleStep(torch.autograd.Function):
    """An operation beside its relevance: the gradient goes back through `result`, relevance goes to the operands by the
    rule.
    """

    @staticmethod
    def forward(
        ctx: Any,
        state: PropagationState,
        kind: str,
        place: tuple[int, str],
        value: Tensor,
        result: Tensor,
        *operands: Tensor,
    ) -> Tensor:
        ctx.state, ctx.kind, ctx.place, ctx.shapes = state, kind, place, [x.shape for x in operands]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*((value, *operands) if kind in READS else ()))
        return value

    @staticmethod
    def backward(ctx: Any, *handed: Tensor | None) -> tuple[Any, ...]:
        given, state, nothing = handed[0], ctx.state, [None] * len(ctx.shapes)
        if given is None:
            return (None, None, None, None, None, *nothing)
        if state.rules == "gradient":
            return (None, None, None, None, given, *nothing)
        if state.rules == "zplus":
            parts = [None, *_zplus(state, ctx.kind, ctx.place[0], given, ctx.shapes, *ctx.saved_tensors)]
        else:
            parts = [*_gradient_rule(state.rules, ctx.kind, given, *ctx.saved_tensors), *nothing][: 1 + len(nothing)]
        kept = [part if wanted else None for part, wanted in zip(parts, ctx.needs_input_grad[4:], strict=True)]
        state.note(ctx.place, given, kept)
        return (None, None, None, None, *kept)


def _zplus(
    state: PropagationState, kind: str, layer: int, given: Tensor, shapes: list[torch.Size], *read: Tensor
) -> Sequence[Tensor | None]:
    """What the operands are handed. `read` is the result and the operands, for the kinds that read them."""
    if kind == "add":
        return zplus_add(state.rows, given, *read)
    if kind == "subtract":
        result, a, b = read
        return zplus_add(state.rows, given, result, a, -b)
    if kind == "product":
        return zplus_product(given, *read)
    if kind == "multiply":
        return [fitted(given / 2, shape) for shape in shapes]
    if kind in ("input", "scores", "context", "value"):
        return [through_heads(state, kind, layer, given)]
    return [fitted(given, shapes[0]), *[None] * (len(shapes) - 1)]  # activation, norm, softmax, scale: as it comes


def through_heads(state: PropagationState, point: str, layer: int, given: Tensor) -> Tensor:
    """Leave relevance only to the heads of the mask.

    paper: at the context (what the heads read), rescaled so that nothing is lost. A block of which no head is left
        hands its
    relevance on by the residual alone: what the attention was given is added, in proportion, at the block's input.
    published: what flows on to scores and values is masked and not rescaled, as the paper's code does.
    """
    propagation = state.propagation
    if propagation.heads is None:
        return given
    kept = torch.tensor(propagation.heads[layer], dtype=given.dtype, device=given.device)
    by_head = given.reshape(state.rows, len(kept), *given.shape[-2:]) if point != "input" else given
    if propagation.variant == "published":
        return (by_head * kept[:, None, None]).view_as(given) if point in ("scores", "value") else given
    if point == "context":
        whole, masked = by_head.flatten(1).sum(1, dtype=torch.float64), by_head * kept[:, None, None]
        if not bool(kept.any()):
            state.lost[layer] = whole
            return torch.zeros_like(given)
        if bool((kept == 1).all()):
            return given
        factor = ratio(whole, masked.flatten(1).sum(1, dtype=torch.float64)).to(given.dtype)
        return (masked * factor[:, None, None, None]).view_as(given)
    if point == "input" and layer in state.lost:
        arrived = given.flatten(1).sum(1, dtype=torch.float64)
        return given * ratio(arrived + state.lost[layer], arrived).to(given.dtype)[:, None, None]
    return given


def _gradient_rule(rules: RuleSet, kind: str, given: Tensor, *read: Tensor) -> list[Tensor | None]:
    """What goes back through the result itself, and, after it, what goes to the first operand beside it."""
    if kind == "multiply" or (
        kind == "product" and rules == "attn_lrp"
    ):  # in cp_lrp attention is a constant, and takes nothing
        return [given / 2]
    if kind == "activation":
        y, x = read
        return [None, given * ratio(y, x)]
    if kind == "softmax" and rules == "cp_lrp":
        return [torch.zeros_like(given)]
    if kind == "spread":  # a norm's standard deviation is held fixed
        return [torch.zeros_like(given)]
    if kind in NORMS:
        _, x, weight, epsilon = read
        inner = x - x.mean(-1, keepdim=True) if kind == "layer_norm" else x
        back = given * weight * (inner.square().mean(-1, keepdim=True) + epsilon).rsqrt()
        return [None, back - back.mean(-1, keepdim=True) if kind == "layer_norm" else back]
    return [given]


class LinearStep(torch.autograd.Function):
    """y = x @ matrix + bias. Rows without relevance, as most are in the top block, cost nothing."""

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
        ctx.state, ctx.place = state, place
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, matrix, y, bias)
        return y

    @staticmethod
    def backward(ctx: Any, *handed: Tensor | None) -> tuple[Any, ...]:
        state, whole = ctx.state, handed[0]
        if whole is None:
            return None, None, None, None, None, None
        x, matrix, y, bias = ctx.saved_tensors
        given, shape, rows = whole, x.shape, None
        if matrix.ndim == 2:
            rows = rows_with_relevance(given)
            given, x, y = (t.reshape(-1, t.shape[-1]) for t in (given, x, y))
            if rows is not None:
                given, x, y = given[rows], x[rows], y[rows]
        if state.rules == "zplus":
            part = zplus_linear(given, x, matrix, y if bias is None else y - bias, state.buffer(matrix, matrix.dtype))
        else:
            part = given @ matrix.mT
        if rows is not None:
            part = part.new_zeros(shape[:-1].numel(), shape[-1]).index_copy_(0, rows, part)
        part = part.view(shape) if matrix.ndim == 2 else fitted(part, shape)
        state.note(ctx.place, whole, [part])
        return None, None, None, part, None, None


def rows_with_relevance(given: Tensor) -> Tensor | None:
    """Which rows, of all but the last dimension, have any relevance; None where most may have. One row is looked at
    before all are.
    """
    if given.ndim > 1 and bool(given.select(-2, given.shape[-2] // 3).any()):
        return None
    flat = given.reshape(-1, given.shape[-1])
    rows = flat.ne(0).any(-1).nonzero()[:, 0]
    return rows if 2 * len(rows) < len(flat) else None


class SumStep(torch.autograd.Function):
    """A sum or mean over dimensions, beside its relevance."""

    @staticmethod
    def forward(
        ctx: Any,
        state: PropagationState,
        place: tuple[int, str],
        result: Tensor,
        x: Tensor,
        dims: tuple[int, ...] | None,
    ) -> Tensor:
        ctx.state, ctx.place, ctx.dims = state, place, dims
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return result.detach()

    @staticmethod
    def backward(ctx: Any, *handed: Tensor | None) -> tuple[Any, ...]:
        given, state = handed[0], ctx.state
        if given is None or state.rules != "zplus":
            return None, None, given, None, None
        (x,) = ctx.saved_tensors
        dims = ctx.dims if ctx.dims is not None else tuple(range(x.ndim))
        kept = [1 if i in {dim % x.ndim for dim in dims} else size for i, size in enumerate(x.shape)]
        part = zplus_sum(given.reshape(kept), x, dims)
        state.note(ctx.place, given, [part])
        return None, None, None, part, None
