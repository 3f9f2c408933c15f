"""Attention as one step, with what every rule set propagates through it, a few heads at a time.

Written out as torch functions, attention keeps several tensors of the size of its probabilities in every layer, and
the backward pass allocates as many again. Here only the scores are kept: the probabilities are computed from them once
more, and temporary tensors hold a few heads only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from wherefrom.errors import NotSeen
from wherefrom.model.relevance.propagation import PropagationState, RuleSet, through_heads
from wherefrom.model.relevance.rules import BY_KIND, GradientTimes
from wherefrom.model.relevance.zplus import zplus_product_share

PRODUCT, SOFTMAX = BY_KIND["product"], BY_KIND["softmax"]
TILE = 2**18  # how many scores are computed at once: as many as fit the processor's cache


def _tiles(scores: Tensor) -> Iterator[slice]:
    """The heads in groups of at most `TILE` scores."""
    size = max(1, TILE // max(1, scores[:, 0].numel()))
    return (slice(start, start + size) for start in range(0, scores.shape[1], size))


def _of(bias: Tensor, heads: slice) -> Tensor:
    return bias if bias.shape[1] == 1 else bias[:, heads]


def as_bias(mask: Tensor | None, causal: bool, scores: Tensor) -> Tensor | None:
    """What a mask adds to such scores: minus infinity where it is False. (row or 1, head or 1, query or 1, key)"""
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is None:
        return None
    if mask.dtype is torch.bool:
        mask = torch.zeros(mask.shape, dtype=scores.dtype, device=scores.device).masked_fill_(~mask, -torch.inf)
    return mask[(None,) * (4 - mask.ndim)].to(scores.dtype)


def fill_scores(
    scores: Tensor, spread: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None
) -> Tensor:
    """The context, in the query's precision. Writes the scores without the bias to `scores`, and the logarithm of the
    sum of each row's exponentials to `spread`.
    """
    context = query.new_empty(*scores.shape[:-1], value.shape[-1])
    for heads in _tiles(scores):
        tile = query[:, heads] @ key[:, heads].mT
        scores[:, heads] = tile
        if bias is not None:
            tile += _of(bias, heads)
        top = tile.amax(-1, keepdim=True)
        top.masked_fill_(top.isneginf(), 0)
        total = tile.sub_(top).exp_().sum(-1, keepdim=True)
        nowhere = total == 0  # a query whose keys are all masked, as padding may be, attends to nothing
        context[:, heads] = (tile @ value[:, heads]).div_(total.masked_fill(nowhere, 1))
        spread[:, heads] = total.log().add_(top).masked_fill_(nowhere, torch.inf)
    return context


class AttentionStep(torch.autograd.Function):
    """context = softmax(query @ key' + bias) @ value.

    `anchor` represents the probabilities: it has their shape and takes no memory, and receives their relevance.
    """

    @staticmethod
    def forward(
        ctx: Any,
        state: PropagationState,
        layer: int | None,  # None for attention that is not recorded
        context: Tensor,
        kept: tuple[Tensor, Tensor, Tensor | None],  # scores, spread, bias
        anchor: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
    ) -> Tensor:
        ctx.state, ctx.layer = state, layer
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*kept, context, query, key, value)
        return context

    @staticmethod
    def backward(ctx: Any, *received: Tensor | None) -> tuple[Any, ...]:
        state, layer, whole = ctx.state, ctx.layer, received[0]
        if whole is None:
            return (None,) * 8
        scores, spread, bias, context, query, key, value = ctx.saved_tensors
        rules, length, recorded = state.rules, query.shape[2], layer is not None
        by_head = recorded and rules == "zplus"
        relevance = through_heads(state, "context", layer, whole) if by_head else whole
        toward = state.gradients[layer] if recorded and state.gradients is not None else None
        rows = queries_with_relevance(relevance)
        if rows is not None:
            narrowed = (relevance, context, scores, spread, query)
            relevance, context, scores, spread, query = (t[:, :, rows] for t in narrowed)
            bias = bias if bias is None or bias.shape[2] == 1 else bias[:, :, rows]
            toward = None if toward is None else toward[:, :, rows]
        share = _through_product(rules, relevance, context)
        goes_on = not recorded or layer != state.last
        back = [torch.zeros_like(t) for t in (query, key, value)] if goes_on else []
        to_anchor = torch.empty_like(scores) if recorded and state.keeps_attention else None
        mixed = torch.zeros_like(scores[:, 0])
        for heads in _tiles(scores):
            probs = scores[:, heads] - spread[:, heads]
            probs = (probs if bias is None else probs.add_(_of(bias, heads))).exp_()
            to_probs = share[:, heads] @ value[:, heads].mT
            if rules == "zplus":
                to_probs *= probs
            if to_anchor is not None:
                to_anchor[:, heads] = to_probs
            if toward is not None:
                mixed += (toward[:, heads] @ value[:, heads].mT).mul_(to_probs).clamp_(min=0).sum(1)
            if goes_on:
                back[2][:, heads] = probs.mT @ share[:, heads]
                to_scores = _through_softmax(rules, to_probs, probs, scores[:, heads])
                if to_scores is not None:
                    back[0][:, heads], back[1][:, heads] = to_scores @ key[:, heads], to_scores.mT @ query[:, heads]
        if toward is not None:
            state.mixed[layer] = _all_queries(mixed.div_(scores.shape[1]), rows, length)
        if to_anchor is not None:
            to_anchor = _all_queries(to_anchor, rows, length)
        if not goes_on:
            return None, None, None, None, to_anchor, None, None, None
        if rules == "zplus":
            back = [part.mul_(x) for part, x in zip(back, (query, key, value), strict=True)]
        back[0] = _all_queries(back[0], rows, length)
        if by_head:
            points = ("scores", "scores", "value")
            back = [through_heads(state, point, layer, part) for point, part in zip(points, back, strict=True)]
        state.note((layer if recorded else -1, "attention"), whole, back)
        return None, None, None, None, to_anchor, *back


def _through_product(rules: RuleSet, relevance: Tensor, context: Tensor) -> Tensor:
    """What the product of probabilities and values multiplies with either side."""
    product = PRODUCT.share(rules)
    return product.of(relevance) if isinstance(product, GradientTimes) else zplus_product_share(relevance, context)


def _through_softmax(rules: RuleSet, to_probs: Tensor, probs: Tensor, scores: Tensor) -> Tensor | None:
    """What the product of queries and keys multiplies with either side, from what the probabilities receive; None where
    the probabilities are held fixed.
    """
    softmax, product = SOFTMAX.share(rules), PRODUCT.share(rules)
    if not (isinstance(softmax, GradientTimes) and isinstance(product, GradientTimes)):
        return zplus_product_share(to_probs, scores)
    factor = softmax.factor * product.factor
    if factor == 0:
        return None
    weighted = to_probs.mul_(probs)
    back = weighted.addcmul_(probs, weighted.sum(-1, keepdim=True), value=-1)
    return back if factor == 1 else back.mul_(factor)


class KernelStep(torch.autograd.Function):
    """Queries, keys and values on their way into torch's own attention kernel, whose gradient is multiplied by what the
    rules of its products and its softmax amount to.
    """

    @staticmethod
    def forward(ctx: Any, state: PropagationState, *parts: Tensor) -> tuple[Tensor, ...]:
        ctx.state = state
        ctx.set_materialize_grads(False)
        return tuple(part.view_as(part) for part in parts)

    @staticmethod
    def backward(ctx: Any, *received: Tensor | None) -> tuple[Any, ...]:
        softmax, product = SOFTMAX.share(ctx.state.rules), PRODUCT.share(ctx.state.rules)
        if not (isinstance(softmax, GradientTimes) and isinstance(product, GradientTimes)):
            raise NotSeen("Relevance by z+ needs a forward pass whose attention is written out.")
        to_scores = GradientTimes(product.factor * softmax.factor * product.factor)
        rules = (to_scores, to_scores, product)
        return None, *(None if x is None else rule.of(x) for rule, x in zip(rules, received, strict=True))


def queries_with_relevance(relevance: Tensor) -> Tensor | None:
    """The queries that have any relevance, which in the top block are few; None where half or more have. (row, head,
    query, size) -> (n,)
    """
    length = relevance.shape[2]
    if bool(relevance[:, :, length // 3].any()):
        return None
    rows = relevance.ne(0).any(-1).any(1).any(0).nonzero()[:, 0]
    return rows if 2 * len(rows) < length else None


def _all_queries(x: Tensor, rows: Tensor | None, length: int) -> Tensor:
    """Put back among all queries, the others being zero. Queries are the last dimension but one."""
    if rows is None:
        return x
    whole = x.new_zeros(*x.shape[:-2], length, x.shape[-1])
    whole[..., rows, :] = x
    return whole
