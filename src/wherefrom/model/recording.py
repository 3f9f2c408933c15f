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

from wherefrom.model.attention import (
    Attend,
    Attention,
    AttentionCall,
    Hook,
    attend_in_front,
    explicit_attention,
    fused_attention,
    in_front,
    later_attention,
    pass_through,
)
from wherefrom.model.relevance.double import graph_tensor

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
            call = AttentionCall(*args, **kwargs)
            record, context = attend(call, self.hook, len(self.records))
            self._keep(record)
            if self.attend in (fused_attention, later_attention):
                self.contexts.append(context)
            if self.attend is later_attention:
                self.calls.append(call)
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
        states = args[0] if args else kwargs["hidden_states"]
        states = states.transpose(0, 1) if tokens_first else states
        record.inputs.append(graph_tensor(states))
        passed = hook("input", len(record.inputs) - 1, states)
        passed = passed.transpose(0, 1) if tokens_first else passed
        return ((passed, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": passed})

    def after(module: nn.Module, _: Any, out: Any) -> Any:
        if threading.get_ident() != thread:
            return None
        states = out[0] if isinstance(out, tuple) else out
        states = states.transpose(0, 1) if tokens_first else states
        record.outputs.append(graph_tensor(states))
        record.blocks.append(begins[module])
        if not tokens_first:
            return None
        turned = states.transpose(0, 1)  # so that what was recorded is on the way to the logits
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
