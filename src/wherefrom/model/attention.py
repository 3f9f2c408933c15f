"""How attention can be computed: written out, by torch's own kernel, or averaged over heads.

Each of the `Attend` functions computes the same context as scaled_dot_product_attention, and differs in what it makes
available beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

AT_ONCE = 2**20  # how many probabilities are in memory together, where not all of them have to be


@dataclass
class Attention:
    """One attention call. With a batch in front: scores and probs (head, query, key), value (head, key, size).

    `scores` are what the softmax was given: masks and position biases are in them. Key/value heads that serve several
    query heads are repeated.
    """

    scores: Tensor
    probs: Tensor
    value: Tensor


# Called with the name of a point ("input", "scores", "value" or "context"), the layer's number and the tensor there;
# returns the tensor that takes its place.
Hook = Callable[[str, int, Tensor], Tensor]


def pass_through(_point: str, _layer: int, x: Tensor) -> Tensor:
    """The `Hook` that changes nothing."""
    return x


def for_every_head(x: Tensor, query: Tensor) -> Tensor:
    """One head's keys or values that serve all query heads, as Falcon's do, repeated for each of them."""
    heads = query.shape[-3]
    return x if x.shape[-3] == heads else x.expand(*x.shape[:-3], heads, *x.shape[-2:])


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """The arguments of a call of scaled_dot_product_attention. The backward pass keeps these tensors anyway, so keeping
    the call, to compute probabilities from it later, takes no further memory.
    """

    query: Tensor  # (row, head, query, size)
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False

    def scaled_query(self) -> Tensor:
        """Queries whose product with the keys is the scores."""
        return self.query * (self.query.shape[-1] ** -0.5 if self.scale is None else self.scale)

    def repeated(self) -> tuple[Tensor, Tensor]:
        """Keys and values, repeated where several query heads share them."""
        key, value = self.key, self.value
        if self.enable_gqa:
            shared = self.query.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(shared, -3), value.repeat_interleave(shared, -3)
        return key, for_every_head(value, self.query)

    def probabilities(self, hook: Hook = pass_through, layer: int = 0) -> Attention:
        """What scaled_dot_product_attention computes on the way to the context, as tensors."""
        key, value = self.repeated()
        value = hook("value", layer, value)
        scores = hook("scores", layer, self.scaled_query() @ key.transpose(-2, -1))
        mask = self.attn_mask
        if self.is_causal:
            mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if mask is None:
            probs = functional.softmax(scores, -1)
        elif mask.dtype is torch.bool:
            scores = scores.masked_fill(~mask, -torch.inf)
            if bool(mask.any(-1).all()):
                probs = functional.softmax(scores, -1)
            else:  # the fused kernel gives zero, not NaN, to a query whose keys are all masked
                nowhere = ~mask.any(-1, keepdim=True)
                probs = functional.softmax(scores.masked_fill(nowhere, 0), -1).masked_fill(nowhere, 0)
        else:
            scores = scores + mask
            probs = functional.softmax(scores, -1)
        return Attention(scores, probs, value)

    def kernel(self) -> Tensor:
        """The context, computed by torch's own kernel."""
        return functional.scaled_dot_product_attention(
            self.query,
            self.key,
            self.value,
            self.attn_mask,
            self.dropout_p,
            self.is_causal,
            scale=self.scale,
            enable_gqa=self.enable_gqa,
        )

    def of_rows(self, rows: slice) -> AttentionCall:
        """The call for some rows of the batch."""
        mask = self.attn_mask
        if mask is not None and mask.ndim == self.query.ndim and len(mask) == len(self.query):
            mask = mask[rows]
        return replace(self, query=self.query[rows], key=self.key[rows], value=self.value[rows], attn_mask=mask)

    def of_heads(self, some: range) -> Attention:
        """Scores, probabilities and values of some heads, without a graph."""
        heads, mask = slice(some.start, some.stop), self.attn_mask
        shared = [head * self.key.shape[1] // self.query.shape[1] for head in some]  # several heads may share keys
        if mask is not None:
            mask = mask.expand(*self.query.shape[:-1], self.key.shape[-2])[:, heads]
        query, key, value = self.query[:, heads], self.key[:, shared], self.value[:, shared]
        with torch.no_grad():
            return replace(self, query=query, key=key, value=value, attn_mask=mask, enable_gqa=False).probabilities()


# Computes an attention call of the layer with this number, and calls the hook at the points it computes.
Attend = Callable[[AttentionCall, Hook, int], tuple[Attention, Tensor]]


def explicit_attention(call: AttentionCall, hook: Hook = pass_through, layer: int = 0) -> tuple[Attention, Tensor]:
    """Written out, so that scores and probabilities are in the graph."""
    record = call.probabilities(hook, layer)
    return record, hook("context", layer, record.probs @ record.value)


def fused_attention(call: AttentionCall, hook: Hook = pass_through, layer: int = 0) -> tuple[Attention, Tensor]:
    """Torch's own kernel, whose backward pass keeps no probabilities and is faster; beside it the probabilities,
    without a graph.

    The gradient at a probability is then that of the context times the value.
    """
    with torch.no_grad():
        record = call.probabilities()
    return record, hook("context", layer, call.kernel())


def kernel_attention(call: AttentionCall, hook: Hook = pass_through, layer: int = 0) -> tuple[Attention, Tensor]:
    """Torch's own kernel, and nothing beside it."""
    context = call.kernel()
    nothing = context.new_empty(0)
    return Attention(nothing, nothing, nothing), hook("context", layer, context)


def later_attention(call: AttentionCall, hook: Hook = pass_through, layer: int = 0) -> tuple[Attention, Tensor]:
    """Torch's own kernel. Probabilities are computed later, a few heads at a time (see `AttentionCall`); but at once
    where rows and heads are one dimension.
    """
    attend = kernel_attention if call.query.ndim == 4 else fused_attention
    return attend(call, hook, layer)


def averaged_attention(call: AttentionCall, hook: Hook = pass_through, layer: int = 0) -> tuple[Attention, Tensor]:
    """The mean of the probabilities over heads, as if it were a single head's. It is computed for a few queries at a
    time, so that the probabilities of all heads of a long text are never in memory. Where there is a graph, the context
    is that of torch's own kernel.
    """
    query, fused = call.query, torch.is_grad_enabled()
    queries, keys = query.shape[-2], call.key.shape[-2]
    height = max(1, AT_ONCE // (query.shape[:-2].numel() * keys))
    # A short text needs no parts; where rows and heads are one dimension, `keep_mean` separates them.
    if height >= queries or query.ndim != 4:
        attend = fused_attention if fused else explicit_attention
        return attend(call, hook, layer)
    mean = query.new_empty(len(query), 1, queries, keys)
    context = call.kernel() if fused else query.new_empty(*query.shape[:-1], call.value.shape[-1])
    with torch.no_grad():
        key, value = call.repeated()
        for top in range(0, queries, height):
            some = slice(top, min(top + height, queries))
            mask = call.attn_mask
            if call.is_causal:
                mask = torch.ones(some.stop - top, keys, dtype=torch.bool, device=query.device).tril(top)
            elif mask is not None and mask.ndim > 1 and mask.shape[-2] > 1:
                mask = mask[..., some, :]
            part = AttentionCall(query[..., some, :], key, value, mask, scale=call.scale).probabilities()
            mean[..., some, :] = part.probs.mean(1, keepdim=True)
            if not fused:
                context[..., some, :] = part.probs @ part.value
    return Attention(mean, mean, mean), hook("context", layer, context)


def in_front(tensor: Tensor, rows: int, beside: int) -> Tensor:
    """The first rows of a batch; the tensor itself, which gradients reach, where there are no others beside them. Some
    families fold rows and heads into one dimension.
    """
    return tensor[: len(tensor) * rows // (rows + beside)] if beside else tensor


def attend_in_front(
    attend: Attend, rows: int, beside: int, call: AttentionCall, hook: Hook, layer: int
) -> tuple[Attention, Tensor]:
    """`attend` for the first rows of a batch, and torch's own kernel for those beside them."""
    edge = len(in_front(call.query, rows, beside))
    record, context = attend(call.of_rows(slice(edge)), hook, layer)
    _, others = kernel_attention(call.of_rows(slice(edge, None)), hook, layer)
    return record, torch.cat([context, others])
