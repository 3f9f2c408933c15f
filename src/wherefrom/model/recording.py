"""Record attention wherever it is computed, through torch's own override point. No model is patched."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from wherefrom.model.relevance.double import graph_tensor


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


# What of an attention call over so many rows is recorded.
Keep = Callable[[Attention, int], Attention]


def keep_all(record: Attention, _rows: int) -> Attention:
    """The `Keep` that leaves nothing out."""
    return record


# What is not kept is an empty tensor: reading it is an error, not a wrong number.


def keep_no_scores(record: Attention, _rows: int) -> Attention:
    """Probabilities and values, in half the memory."""
    return Attention(_empty(record), record.probs, record.value)


def keep_probs(record: Attention, _rows: int) -> Attention:
    """Probabilities alone."""
    return Attention(_empty(record), record.probs, _empty(record))


def keep_nothing(record: Attention, _rows: int) -> Attention:
    """Only that there was an attention."""
    return Attention(_empty(record), _empty(record), _empty(record))


def keep_mean(record: Attention, rows: int) -> Attention:
    """The mean of the probabilities over heads, as if it were a single head. Some families fold rows and heads into one
    dimension.
    """
    probs = record.probs.detach()
    mean = mean_of_heads(probs.reshape(rows, -1, *probs.shape[-2:]))
    return Attention(_empty(record), mean[:, None], _empty(record))


def mean_of_heads(probs: Tensor) -> Tensor:
    """(..., head, query, key) -> (..., query, key), without a copy where there is one head."""
    return probs.squeeze(-3) if probs.shape[-3] == 1 else probs.mean(-3)


def _empty(record: Attention) -> Tensor:
    return record.probs.new_empty(0)


@dataclass
class Recording:
    """What was recorded of one forward pass, in the order of the layers."""

    inputs: list[Tensor] = field(default_factory=list)  # of each block
    outputs: list[Tensor] = field(default_factory=list)
    attention: list[Attention] = field(default_factory=list)
    blocks: list[nn.Module] = field(default_factory=list)
    before_norms: list[Tensor] = field(default_factory=list)  # what the norms that were named received
    # What the heads read, where attention is one step of the backward pass: an `AttentionStep`, or torch's own kernel.
    contexts: list[Tensor] = field(default_factory=list)
    calls: list[AttentionCall] = field(default_factory=list)  # of each attention whose probabilities are computed later


def for_every_head(value: Tensor, query: Tensor) -> Tensor:
    """One head's keys or values that serve all query heads, as Falcon's do, repeated for each of them."""
    heads = query.shape[-3]
    return value if value.shape[-3] == heads else value.expand(*value.shape[:-3], heads, *value.shape[-2:])


def attention_probabilities(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    hook: Hook = pass_through,
    layer: int = 0,
) -> Attention:
    """What scaled_dot_product_attention computes on the way, as tensors. Takes its arguments."""
    if enable_gqa:
        shared = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(shared, -3), value.repeat_interleave(shared, -3)
    value = for_every_head(value, query)
    value = hook("value", layer, value)
    scores = hook(
        "scores", layer, (query * (query.shape[-1] ** -0.5 if scale is None else scale)) @ key.transpose(-2, -1)
    )
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
    if attn_mask is None:
        probs = functional.softmax(scores, -1)
    elif attn_mask.dtype is torch.bool:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
        if bool(attn_mask.any(-1).all()):
            probs = functional.softmax(scores, -1)
        else:  # the fused kernel gives zero, not NaN, to a query whose keys are all masked
            nowhere = ~attn_mask.any(-1, keepdim=True)
            probs = functional.softmax(scores.masked_fill(nowhere, 0), -1).masked_fill(nowhere, 0)
    else:
        scores = scores + attn_mask
        probs = functional.softmax(scores, -1)
    return Attention(scores, probs, value)


def explicit_attention(
    *args: Any, hook: Hook = pass_through, layer: int = 0, **kwargs: Any
) -> tuple[Attention, Tensor]:
    """scaled_dot_product_attention written so that scores and probabilities are in the graph."""
    record = attention_probabilities(*args, hook=hook, layer=layer, **kwargs)
    return record, hook("context", layer, record.probs @ record.value)


def fused_attention(*args: Any, hook: Hook = pass_through, layer: int = 0, **kwargs: Any) -> tuple[Attention, Tensor]:
    """Torch's own kernel, whose backward pass keeps no probabilities and is faster; beside it the probabilities,
    without a graph.

    The gradient at a probability is then that of the context times the value.
    """
    with torch.no_grad():
        record = attention_probabilities(*args, **kwargs)
    return record, hook("context", layer, functional.scaled_dot_product_attention(*args, **kwargs))


def kernel_attention(*args: Any, hook: Hook = pass_through, layer: int = 0, **kwargs: Any) -> tuple[Attention, Tensor]:
    """Torch's own kernel, and nothing beside it."""
    context = functional.scaled_dot_product_attention(*args, **kwargs)
    nothing = context.new_empty(0)
    return Attention(nothing, nothing, nothing), hook("context", layer, context)


def later_attention(*args: Any, hook: Hook = pass_through, layer: int = 0, **kwargs: Any) -> tuple[Attention, Tensor]:
    """Torch's own kernel. Probabilities are computed later, some heads after the others (see `AttentionCall`); but at
    once where rows and heads are one dimension.
    """
    attend = kernel_attention if AttentionCall(*args, **kwargs).query.ndim == 4 else fused_attention
    return attend(*args, **kwargs, hook=hook, layer=layer)


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """What scaled_dot_product_attention was given. Its backward pass keeps that anyway, so that what is computed from
    it when it is needed takes no memory before.
    """

    query: Tensor  # (row, head, query, size)
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False

    def of_heads(self, some: range) -> Attention:
        """Scores, probabilities and values of some heads, without a graph."""
        heads, mask = slice(some.start, some.stop), self.attn_mask
        own = [head * self.key.shape[1] // self.query.shape[1] for head in some]  # several heads may share keys
        if mask is not None:
            mask = mask.expand(*self.query.shape[:-1], self.key.shape[-2])[:, heads]
        with torch.no_grad():
            return attention_probabilities(
                self.query[:, heads], self.key[:, own], self.value[:, own], mask, 0.0, self.is_causal, scale=self.scale
            )


AT_ONCE = 2**20  # probabilities of some heads or queries that are in memory together, where not all of them have to be


def averaged_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    hook: Hook = pass_through,
    layer: int = 0,
) -> tuple[Attention, Tensor]:
    """The mean of the probabilities over heads, as if it were a single head's. Some queries after the others are
    computed, so that the probabilities of all heads of a long text are never in memory. Where there is a graph, the
    context is that of torch's own kernel.
    """
    given: dict[str, Any] = {"attn_mask": attn_mask, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    fused, (queries, keys) = torch.is_grad_enabled(), (query.shape[-2], key.shape[-2])
    height = max(1, AT_ONCE // (query.shape[:-2].numel() * keys))
    # Of a short text all queries are computed; and rows and heads that are one dimension, `keep_mean` tells apart.
    if height >= queries or query.ndim != 4:
        attend = fused_attention if fused else explicit_attention
        return attend(query, key, value, **given, hook=hook, layer=layer)
    mean = query.new_empty(len(query), 1, queries, keys)
    context = query.new_empty(*query.shape[:-1], value.shape[-1])
    if fused:
        context = functional.scaled_dot_product_attention(query, key, value, **given)
    with torch.no_grad():
        if enable_gqa:
            shared = query.shape[1] // key.shape[1]
            key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
        for top in range(0, queries, height):
            some = slice(top, min(top + height, queries))
            mask = attn_mask
            if is_causal:
                mask = torch.ones(some.stop - top, keys, dtype=torch.bool, device=query.device).tril(top)
            elif mask is not None and mask.ndim > 1 and mask.shape[-2] > 1:
                mask = mask[..., some, :]
            one = attention_probabilities(query[..., some, :], key, value, mask, scale=scale)
            mean[..., some, :] = one.probs.mean(1, keepdim=True)
            if not fused:
                context[..., some, :] = one.probs @ one.value
    return Attention(mean, mean, mean), hook("context", layer, context)


# Computes scaled_dot_product_attention: takes its arguments, and a hook and a layer as `explicit_attention` does.
Attend = Callable[..., tuple[Attention, Tensor]]


def in_front(tensor: Tensor, rows: int, beside: int) -> Tensor:
    """The first rows of a batch; the tensor itself, which gradients reach, where there are no others beside them. Some
    families fold rows and heads into one dimension.
    """
    return tensor[: len(tensor) * rows // (rows + beside)] if beside else tensor


def attend_in_front(
    attend: Attend,
    rows: int,
    beside: int,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **kwargs: Any,
) -> tuple[Attention, Tensor]:
    """`attend` for the first rows of a batch, and torch's own kernel for those beside them."""
    edge = len(in_front(query, rows, beside))
    of_each = attn_mask is not None and attn_mask.ndim == query.ndim and len(attn_mask) == len(query)

    def part(some: slice, attend: Attend) -> tuple[Attention, Tensor]:
        mask = attn_mask[some] if attn_mask is not None and of_each else attn_mask
        return attend(query[some], key[some], value[some], mask, dropout_p, is_causal, **kwargs)

    record, context = part(slice(edge), attend)
    _, others = part(slice(edge, None), kernel_attention)
    return record, torch.cat([context, others])


class AttentionRecorder(TorchFunctionMode):
    """While it is open, every attention of `modules` is recorded, in call order.

    The mode is switched on only inside these modules, so that the rest of the model runs at full speed. A mode belongs
    to one thread while hooks are the module's: hooks called from other threads are ignored.
    """

    def __init__(
        self,
        modules: Sequence[nn.Module],
        hook: Hook = pass_through,
        attend: Attend = explicit_attention,
        *,
        keep: Keep = keep_all,
        rows: int = 1,
        beside: int = 0,
    ) -> None:
        super().__init__()
        self.modules, self.hook, self.attend, self.keep = modules, hook, attend, keep
        self.rows, self.beside = rows, beside
        self.records: list[Attention] = []
        self.contexts: list[Tensor] = []  # of attention that is torch's own kernel
        self.calls: list[AttentionCall] = []
        self._thread = threading.get_ident()
        self._scores: Tensor | None = None
        self._aliases: list[Tensor] = []

    @contextmanager
    def open(self) -> Iterator[AttentionRecorder]:
        with ExitStack() as hooks:
            for module in self.modules:
                hooks.callback(module.register_forward_pre_hook(self._enter).remove)
                hooks.callback(module.register_forward_hook(self._leave, always_call=True).remove)
            yield self

    def _enter(self, *_: Any) -> None:
        if threading.get_ident() == self._thread:
            self.__enter__()  # type: ignore[no-untyped-call]

    def _leave(self, *_: Any) -> None:
        if threading.get_ident() == self._thread:
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            self._aliases = []

    def _keep(self, record: Attention) -> None:
        record = Attention(graph_tensor(record.scores), graph_tensor(record.probs), graph_tensor(record.value))
        self.records.append(self.keep(record, self.rows))
        self._scores = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            attend = partial(attend_in_front, self.attend, self.rows, self.beside) if self.beside else self.attend
            record, context = attend(*args, **kwargs, hook=self.hook, layer=len(self.records))
            self._keep(record)
            if self.attend in (fused_attention, later_attention):
                self.contexts.append(context)
            if self.attend is later_attention:
                self.calls.append(AttentionCall(*args, **kwargs))
            return context
        name, layer = getattr(func, "__name__", ""), len(self.records)
        if name == "softmax":
            self._scores = self.hook("scores", layer, args[0])
            out = func(self._scores, *args[1:], **kwargs)
            self._aliases = [out]
            return out
        if name == "einsum" and self._aliases and (product := _as_product(*args, probs=self._aliases)) is not None:
            probs, value, restore = product
            return restore(self.__torch_function__(torch.matmul, types, (probs, value)))
        if not (self._aliases and args and any(args[0] is alias for alias in self._aliases)):
            return func(*args, **kwargs)
        if name in ("matmul", "bmm", "__matmul__"):
            assert self._scores is not None
            value = self.hook("value", layer, args[1])
            parts = (self._scores, self._aliases[0], value)
            self._keep(Attention(*(in_front(part, self.rows, self.beside) for part in parts)))
            self._aliases = []
            return self.hook("context", layer, func(args[0], value, *args[2:], **kwargs))
        out = func(*args, **kwargs)
        if isinstance(out, Tensor) and out.numel() == self._aliases[0].numel():
            self._aliases.append(out)  # a view, a cast or a dropout in evaluation of the probabilities
        elif name == "__getitem__" and _without_sink(self._aliases[0], out):
            self._aliases = [out]
        return out


def _without_sink(probs: Tensor, out: Any) -> bool:
    """Whether these are the probabilities but for the last key, where that is no token: what GPT-OSS lets heads attend
    to when they attend to nothing. The scores keep its column after those of the tokens.
    """
    shape = (*probs.shape[:-1], probs.shape[-1] - 1)
    return isinstance(out, Tensor) and out.shape == shape


def _as_product(
    equation: str, *operands: Tensor, probs: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]] | None:
    """einsum(equation, probs, value) with probs (row, head, query, key) as a matrix product: the probabilities, the
    value as (row, head, key, size), and what brings the product into the order of the einsum's result. None where it is
    something else.
    """
    letters, _, result = equation.replace(" ", "").partition("->")
    if len(operands) != 2 or not any(operands[0] is alias for alias in probs):
        return None
    (row, head, query, key), other = list(letters.partition(",")[0]), letters.partition(",")[2]
    free = set(other) - {row, head, query, key}
    if set(other) != {row, head, key, *free} or set(result) != {row, head, query, *free}:
        return None
    made = [row, head, query, *free]
    value: Tensor = operands[1].permute(*(other.index(letter) for letter in (row, head, key, *free)))
    return operands[0], value, lambda context: context.permute(*(made.index(letter) for letter in result))


@contextmanager
def recording(
    blocks: Sequence[nn.Module],
    attention: Sequence[nn.Module],
    hook: Hook = pass_through,
    attend: Attend = explicit_attention,
    *,
    outputs: Sequence[nn.Module] | None = None,
    tokens_first: bool = False,
    keep: Keep = keep_all,
    rows: int = 1,
    beside: int = 0,
    norms: Sequence[nn.Module] = (),
) -> Iterator[Recording]:
    """Within this context the given blocks and their attention are recorded, layer by layer; `hook` may replace what it
    is called with.

    outputs: the modules that give the blocks' outputs, where these are not the blocks themselves.
    tokens_first: whether the blocks' tensors are (token, row, size); they are recorded as (row, token, size).
    keep: what of every attention is recorded. rows: how many texts go through the model together.
    beside: how many rows follow them in the batch whose attention is not recorded.
    norms: modules whose input is recorded, too.
    """
    record, thread = Recording(), threading.get_ident()
    begins = dict(zip(blocks if outputs is None else outputs, blocks, strict=True))

    def before(
        _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if threading.get_ident() != thread or kwargs is None:
            # another thread may call the hook while it is being removed, and then without keyword arguments
            return None
        given = args[0] if args else kwargs["hidden_states"]
        given = given.transpose(0, 1) if tokens_first else given
        record.inputs.append(graph_tensor(given))
        passed = hook("input", len(record.inputs) - 1, given)
        passed = passed.transpose(0, 1) if tokens_first else passed
        return ((passed, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": passed})

    def after(module: nn.Module, _: Any, out: Any) -> Any:
        if threading.get_ident() != thread:
            return None
        found = out[0] if isinstance(out, tuple) else out
        found = found.transpose(0, 1) if tokens_first else found
        record.outputs.append(graph_tensor(found))
        record.blocks.append(begins[module])
        if not tokens_first:
            return None
        turned = found.transpose(0, 1)  # so that what was recorded is on the way to the logits
        return (turned, *out[1:]) if isinstance(out, tuple) else turned

    def received(_: nn.Module, args: tuple[Any, ...]) -> None:
        if threading.get_ident() == thread and args:
            record.before_norms.append(args[0].transpose(0, 1) if tokens_first else args[0])

    with ExitStack() as hooks:
        for norm in dict.fromkeys(norms):
            hooks.callback(norm.register_forward_pre_hook(received).remove)
        for end, block in begins.items():
            hooks.callback(block.register_forward_pre_hook(before, with_kwargs=True).remove)
            hooks.callback(end.register_forward_hook(after).remove)
        recorder = AttentionRecorder(attention, hook, attend, keep=keep, rows=rows, beside=beside)
        hooks.enter_context(recorder.open())
        record.attention, record.contexts, record.calls = recorder.records, recorder.contexts, recorder.calls
        yield record
