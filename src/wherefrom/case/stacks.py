"""The three attentions of a model with an encoder and a decoder: the encoder's, the decoder's, that between them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from wherefrom.case.case import Case
from wherefrom.case.passes import Passes
from wherefrom.errors import NotSeen
from wherefrom.model.anatomy import find_stack_blocks, find_stacks
from wherefrom.model.recording import Attention, AttentionRecorder, keep_no_scores
from wherefrom.model.tasks.seq2seq import Seq2Seq

StackName = Literal["encoder", "decoder", "cross"]


@dataclass(frozen=True)
class RecordedStacks:
    """What one forward pass over a batch left behind."""

    logits: Tensor
    encoder: list[Attention]
    decoder: list[Attention]
    cross: list[Attention]
    encoder_states: list[Tensor]  # the input of every block, and the output of the last: (row, token, hidden)
    decoder_states: list[Tensor]


@dataclass(frozen=True)
class StackMatrices:
    """One matrix a layer, for one text: (query, key), with heads in front where they are not averaged."""

    encoder: list[Tensor]  # (source, source)
    decoder: list[Tensor]  # (output, output)
    cross: list[Tensor]  # (output, source)


def stack_attention(case: Case) -> StackMatrices:
    """Every layer's attention probabilities. (head, query, key) each"""
    record = _recorded(case.passes, graph=False)
    return StackMatrices(
        *([_of_text(case, layer.probs, stack) for layer in layers] for stack, layers in _stacks(record).items())
    )


def stack_gradients(case: Case) -> StackMatrices:
    """The gradient of the target's score at every layer's attention probabilities. (head, query, key) each"""
    passes, row, target = case.passes, case.row, case.target

    def compute() -> StackMatrices:
        record = _recorded(passes, graph=True)
        stacks = _stacks(record)
        places = [layer.probs for layers in stacks.values() for layer in layers]
        case.own_count.backwards += 1
        score = target.score(record.logits[row : row + 1])[0]
        slopes = iter(torch.autograd.grad(score, places, retain_graph=True))
        return StackMatrices(
            *([_of_text(case, next(slopes), stack) for _ in layers] for stack, layers in stacks.items())
        )

    return passes.once(("gradients of stacks", row, target), compute)


def stack_products(case: Case, *, positive: bool = True) -> StackMatrices:
    """Every layer's attention times its gradients, or its positive gradients alone; the mean over heads. (query, key)
    each
    """
    record, slopes = _recorded(case.passes, graph=True), stack_gradients(case)

    def product(layer: Attention, slope: Tensor, stack: StackName) -> Tensor:
        return (_of_text(case, layer.probs, stack) * (slope.clamp(min=0) if positive else slope)).mean(0)

    return StackMatrices(
        *(
            [product(layer, slope, stack) for layer, slope in zip(layers, slopes_of, strict=True)]
            for (stack, layers), slopes_of in zip(
                _stacks(record).items(), (slopes.encoder, slopes.decoder, slopes.cross), strict=True
            )
        )
    )


def stack_states(case: Case, *, outputs: bool) -> tuple[list[Tensor], list[Tensor]]:
    """What every block of the two stacks is given, or gives, times its gradient: (token, hidden) each, of the encoder's
    blocks for the source, and of the decoder's for the output.
    """
    passes, row, target = case.passes, case.row, case.target

    def compute() -> list[list[Tensor]]:
        record = _recorded(passes, graph=True)
        case.own_count.backwards += 1
        score = target.score(record.logits[row : row + 1])[0]
        stacks = (record.encoder_states, record.decoder_states)
        slopes = iter(torch.autograd.grad(score, [state for stack in stacks for state in stack], retain_graph=True))
        sizes = _sizes(case)
        return [
            [(state.detach() * next(slopes))[row, :size] for state in stack]
            for stack, size in zip(stacks, sizes, strict=True)
        ]

    encoder, decoder = passes.once(("states of stacks", row, target), compute)
    return (encoder[1:], decoder[1:]) if outputs else (encoder[:-1], decoder[:-1])


def joint_gradients(case: Case) -> list[Tensor]:
    """The gradients at what `joint_attention` gives. (head, query, key) a layer"""
    found = stack_gradients(case)
    return [_joint(case, cross, own) for cross, own in zip(found.cross, found.decoder, strict=True)]


def joint_products(case: Case, *, positive: bool) -> list[Tensor]:
    """Attention times gradient of every decoder layer, over source and output side by side. (query, key) a layer"""
    found = stack_products(case, positive=positive)
    return [_joint(case, cross, own) for cross, own in zip(found.cross, found.decoder, strict=True)]


def mixed_sublayers(case: Case) -> list[Tensor]:
    """Every attention of the model as a step of the tokens of source and output together, half residual and half
    attention, the mean over heads, from the bottom: first the encoder's layers, which leave the output as it is, then
    of every decoder layer its self-attention and its cross-attention, which leave the source as it is. (query, key)
    each, rows add up to one
    """
    found, (source, _) = stack_attention(case), _sizes(case)
    whole = torch.eye(len(case.encoding)).to(found.encoder[0])
    steps = []
    for probs in found.encoder:
        step = whole.clone()
        step[:source, :source] = 0.5 * step[:source, :source] + 0.5 * probs.mean(0)
        steps.append(step)
    for own, cross in zip(found.decoder, found.cross, strict=True):
        step = whole.clone()
        step[source:, source:] = 0.5 * step[source:, source:] + 0.5 * own.mean(0)
        steps.append(step)
        step = whole.clone()
        step[source:, source:] *= 0.5
        step[source:, :source] = 0.5 * cross.mean(0)
        steps.append(step)
    return steps


def read_so_far(case: Case) -> slice:
    """The positions of the output up to that which the target is read at: later ones do not matter to it."""
    place = len(case.encoding) - 1 if case.target.position is None else case.target.position
    return slice(_sizes(case)[0], place + 1)


def joint_attention(case: Case) -> list[Tensor]:
    """Every decoder layer's attention over source and output, side by side: what its cross-attention sees of the
    source, and its self-attention of the output, each of which adds up to one. The rows of the source are empty. (head,
    query, key) a layer
    """
    found = stack_attention(case)
    return [_joint(case, cross, own) for cross, own in zip(found.cross, found.decoder, strict=True)]


def _joint(case: Case, cross: Tensor, own: Tensor) -> Tensor:
    """(..., output, source) and (..., output, output) -> (..., token, token)"""
    source, _ = _sizes(case)
    matrix = cross.new_zeros(*cross.shape[:-2], len(case.encoding), len(case.encoding))
    matrix[..., source:, :source] = cross
    matrix[..., source:, source:] = own
    return matrix


def _sizes(case: Case) -> tuple[int, int]:
    """How many tokens the source has, and how many the decoder reads."""
    task = case.model.task
    assert isinstance(task, Seq2Seq)
    output = task.decoder_length(case.model)
    return len(case.encoding) - output, output


def _of_text(case: Case, matrix: Tensor, stack: StackName) -> Tensor:
    """The part of one text. (row, head, query, key) -> (head, query, key)"""
    source, output = _sizes(case)
    rows = len(case.passes.encodings)
    own = (matrix if matrix.ndim == 4 else matrix.view(rows, -1, *matrix.shape[1:]))[case.row].detach()
    queries, keys = {"encoder": (source, source), "decoder": (output, output), "cross": (output, source)}[stack]
    return own[:, :queries, :keys]


def _stacks(record: RecordedStacks) -> dict[StackName, list[Attention]]:
    return {"encoder": record.encoder, "decoder": record.decoder, "cross": record.cross}


def _recorded(passes: Passes, *, graph: bool) -> RecordedStacks:
    return passes.once(("stacks", graph), lambda: _record(passes, graph=graph))


def _record(passes: Passes, *, graph: bool) -> RecordedStacks:
    model = passes.model
    encoder, decoder, cross = find_stacks(model.network)
    recorder = AttentionRecorder([*encoder, *decoder, *cross], keep=keep_no_scores)
    blocks = find_stack_blocks(model.network)
    with torch.set_grad_enabled(graph), recorder.open(), ExitStack() as opened:
        states = [opened.enter_context(_states_of(stack)) for stack in blocks]
        logits = model.logits(passes.inputs, passes.count, passes.leaf)
    found = recorder.records
    if len(found) != len(encoder) + 2 * len(decoder):
        raise NotSeen(
            f"{len(found)} attentions were seen and not {len(encoder) + 2 * len(decoder)}, so nothing is explained"
            " rather than something wrong. Load the model with attn_implementation='eager' or 'sdpa', not compiled."
        )
    behind = found[len(encoder) :]  # a decoder's layer reads its own output first, then the source
    return RecordedStacks(logits, found[: len(encoder)], behind[::2], behind[1::2], *states)


@contextmanager
def _states_of(blocks: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """Within this context what each block is given is kept, and last what the last one gives."""
    kept: list[Tensor] = []
    thread = threading.get_ident()

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        if threading.get_ident() == thread and kwargs is not None:
            kept.append(args[0] if args else kwargs["hidden_states"])

    def after(_: nn.Module, __: Any, output: Any) -> None:
        if threading.get_ident() == thread:
            kept.append(output[0] if isinstance(output, tuple) else output)

    with ExitStack() as hooks:
        for block in blocks:
            hooks.callback(block.register_forward_pre_hook(before, with_kwargs=True).remove)
        hooks.callback(blocks[-1].register_forward_hook(after).remove)
        yield kept
