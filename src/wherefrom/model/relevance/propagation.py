"""How relevance is propagated: by which rules, through which heads, and what one backward pass keeps track of.

The rule sets:

- gradient: the ordinary gradient.
- zplus: relevance. It starts as one at the target's logit and every operation shares what it receives among its
  operands by the z+ rules, so that the sum is conserved.
- attn_lrp, cp_lrp: a modified gradient; times the input it is relevance (Achtibat et al. 2024; Ali et al. 2022).
- local_linear: the gradient, with what cp_lrp holds fixed (attention, deviations, routing) held fixed and nothing else
  changed: activations and gates have their own derivatives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from wherefrom.model.relevance.zplus import ratio

RuleSet = Literal["gradient", "zplus", "attnlrp", "cplrp", "local_linear"]
MaskVariant = Literal["paper", "published"]


@dataclass(frozen=True)
class Propagation:
    """Which rules propagate relevance, through which heads, and whether the forward pass is in double precision."""

    rules: RuleSet = "gradient"
    heads: tuple[tuple[float, ...], ...] | None = None  # the weight of each head's relevance, by layer
    variant: MaskVariant = "paper"  # see `through_heads`
    double: bool = False


@dataclass
class Operation:
    """One operation of one backward pass: where it is, and how much relevance it received and passed on."""

    layer: int  # -1 before the first block
    name: str
    entering: float
    leaving: float


@dataclass
class PropagationState:
    """What the backward passes over one forward pass share; set by `propagating`, read by every step of the graph.

    It must hold no tensor of the autograd graph: the graph refers to it, and the two would form a reference cycle that
    keeps the graph in memory until the garbage collector runs.
    """

    rows: int  # of the batch
    tokens_first: bool = False  # whether hidden states are (token, row, size), as XLNet's are
    # Whether only the gradient and its modifications (attn_lrp, cp_lrp) will be asked for: they need less of the
    # forward pass than z+ does.
    gradient_rules: bool = False
    propagation: Propagation = field(default_factory=Propagation)
    trace: list[Operation] | None = None
    last: int | None = None  # the layer at whose attention this pass ends
    keeps_attention: bool = False  # whether the relevance of every attention probability is wanted
    gradients: Sequence[Tensor] | None = None  # at every layer's context, for `mixed`
    mixed: dict[int, Tensor] = field(default_factory=dict)  # E_h (gradient * relevance)+ by layer. (row, query, key)
    lost: dict[int, Tensor] = field(default_factory=dict)  # relevance of layers without any head, see `through_heads`
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
        """Within this context, backward passes follow these rules."""
        self._set(propagation, trace, last, keeps_attention, gradients)
        try:
            yield
        finally:
            self._set(Propagation(), None, None, False, None)

    def _set(
        self,
        propagation: Propagation,
        trace: list[Operation] | None,
        last: int | None,
        keeps_attention: bool,
        gradients: Sequence[Tensor] | None,
    ) -> None:
        self.propagation, self.trace, self.last = propagation, trace, last
        self.keeps_attention, self.gradients = keeps_attention, gradients
        self.lost, self.mixed = {}, {}

    @property
    def rules(self) -> RuleSet:
        return self.propagation.rules

    def buffer(self, matrix: Tensor, dtype: torch.dtype) -> Tensor:
        """Memory of the matrix's shape and layout, reused by the next matrix: allocating it costs more than filling."""
        size, turned = matrix.numel(), matrix.mT.is_contiguous()
        if dtype not in self._buffers or self._buffers[dtype].numel() < size:
            self._buffers[dtype] = torch.empty(size, dtype=dtype, device=matrix.device)
        buffer = self._buffers[dtype][:size]
        return buffer.view(matrix.mT.shape).mT if turned else buffer.view(matrix.shape)

    def note(self, place: tuple[int, str], entering: Tensor, leaving: Sequence[Tensor | None]) -> None:
        """Add an operation to the trace, if there is one."""
        if self.trace is not None:
            passed_on = sum(part.sum().item() for part in leaving if part is not None)
            self.trace.append(Operation(place[0], place[1], entering.sum().item(), passed_on))


def through_heads(state: PropagationState, point: str, layer: int, relevance: Tensor) -> Tensor:
    """Weight relevance by the head mask, at a point of a layer ("input", "scores", "value" or "context").

    paper: at the context (what the heads read), rescaled so that the sum is conserved. A layer of which no head is left
        passes relevance on through the residual connection alone: what its attention received is added, in proportion,
        at the block's input.
    published: what goes on to scores and values is masked and not rescaled, as the paper's code does.
    """
    propagation = state.propagation
    if propagation.heads is None:
        return relevance
    weights = torch.tensor(propagation.heads[layer], dtype=relevance.dtype, device=relevance.device)
    by_head = relevance if point == "input" else relevance.reshape(state.rows, len(weights), *relevance.shape[-2:])
    if propagation.variant == "published":
        return (by_head * weights[:, None, None]).view_as(relevance) if point in ("scores", "value") else relevance
    if point == "context":
        whole, masked = by_head.flatten(1).sum(1, dtype=torch.float64), by_head * weights[:, None, None]
        if not bool(weights.any()):
            state.lost[layer] = whole
            return torch.zeros_like(relevance)
        if bool((weights == 1).all()):
            return relevance
        factor = ratio(whole, masked.flatten(1).sum(1, dtype=torch.float64)).to(relevance.dtype)
        return (masked * factor[:, None, None, None]).view_as(relevance)
    if point == "input" and layer in state.lost:
        arrived = relevance.flatten(1).sum(1, dtype=torch.float64)
        return relevance * ratio(arrived + state.lost[layer], arrived).to(relevance.dtype)[:, None, None]
    return relevance
