"""The three attentions of a model with an encoder and a decoder: the encoder's, the decoder's, that between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.case.passes import Passes
from wherefrom.errors import NotSeen
from wherefrom.model.anatomy import find_stacks
from wherefrom.model.recording import Attention, AttentionRecorder
from wherefrom.model.tasks.seq2seq import Seq2Seq

StackName = Literal["encoder", "decoder", "cross"]


@dataclass(frozen=True)
class RecordedStacks:
    """What one forward pass over a batch left behind."""

    logits: Tensor
    encoder: list[Attention]
    decoder: list[Attention]
    cross: list[Attention]


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


def stack_products(case: Case) -> StackMatrices:
    """Every layer's attention times its positive gradients, the mean over heads. (query, key) each"""
    record = _recorded(case.passes, graph=True)
    stacks = _stacks(record)
    places = [layer.probs for layers in stacks.values() for layer in layers]
    case.own_count.backwards += 1
    score = case.target.score(record.logits[case.row : case.row + 1])[0]
    slopes = iter(torch.autograd.grad(score, places, retain_graph=True))
    return StackMatrices(
        *(
            [
                (_of_text(case, layer.probs, stack) * _of_text(case, next(slopes), stack).clamp(min=0)).mean(0)
                for layer in layers
            ]
            for stack, layers in stacks.items()
        )
    )


def joint_attention(case: Case) -> list[Tensor]:
    """Every decoder layer's attention over source and output, side by side: what its cross-attention sees of the
    source, and its self-attention of the output, each of which adds up to one. The rows of the source are empty. (head,
    query, key) a layer
    """
    found, source = stack_attention(case), _sizes(case)[0]
    joint = []
    for cross, own in zip(found.cross, found.decoder, strict=True):
        matrix = cross.new_zeros(len(cross), len(case.encoding), len(case.encoding))
        matrix[:, source:, :source] = cross
        matrix[:, source:, source:] = own
        joint.append(matrix)
    return joint


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
    recorder = AttentionRecorder([*encoder, *decoder, *cross], scores=False)
    with torch.set_grad_enabled(graph), recorder.open():
        logits = model.logits(passes.inputs, passes.count, passes.leaf)
    found = recorder.records
    if len(found) != len(encoder) + 2 * len(decoder):
        raise NotSeen(
            f"{len(found)} attentions were seen and not {len(encoder) + 2 * len(decoder)}, so nothing is explained"
            " rather than something wrong. Load the model with attn_implementation='eager' or 'sdpa', not compiled."
        )
    behind = found[len(encoder) :]  # a decoder's layer reads its own output first, then the source
    return RecordedStacks(logits, found[: len(encoder)], behind[::2], behind[1::2])
