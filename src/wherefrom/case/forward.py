"""One forward pass over a batch of texts: how each kind of pass runs, and what it records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from wherefrom.case.asking import Asker, JoinedBatch
from wherefrom.case.kinds import KINDS, PassKind, either, methods_served
from wherefrom.core.encoding import Encoding
from wherefrom.errors import NotSeen
from wherefrom.model.anatomy import find_stacks
from wherefrom.model.attention import Attention, pass_through
from wherefrom.model.network import inputs_of
from wherefrom.model.recording import Recording, recording
from wherefrom.model.relevance.double import graph_tensor, paired
from wherefrom.model.relevance.mode import RelevanceMode, relevance_mode
from wherefrom.model.relevance.propagation import PropagationState
from wherefrom.model.tasks.seq2seq import Seq2Seq
from wherefrom.model.text_model import PassCount, TextModel, check_answers


@dataclass(frozen=True)
class ForwardPass:
    """What one forward pass recorded, with a leading batch dimension."""

    logits: Tensor  # with its autograd graph, where the pass keeps one
    record: Recording | None = None
    propagation: PropagationState | None = None  # what relevance is propagated with, for passes made by rules
    stacks: tuple[int, ...] = ()  # how many layers ran in each stack that was recorded

    @property
    def recording(self) -> Recording:
        """What was recorded, of a kind of pass that records."""
        assert self.record is not None
        return self.record

    @property
    def state(self) -> PropagationState:
        """What relevance is propagated with, of a pass made for it."""
        assert self.propagation is not None
        return self.propagation

    @property
    def hidden(self) -> list[Tensor]:
        """The input of every block, and the output of each stack's last block. (row, token, hidden) each"""
        return [*self.recording.inputs, *(self.recording.outputs[end - 1] for end in accumulate(self.stacks))]

    @property
    def last_layer(self) -> list[Attention]:
        """The attentions of the last layer. A decoder's layer attends to every stack."""
        return self.recording.attention[-len(self.stacks) :]


class TextBatch:
    """Texts in one padded batch, and the forward passes over them. What it makes is not kept."""

    def __init__(self, model: TextModel, encodings: Sequence[Encoding], asker: Asker) -> None:
        self.model, self.encodings, self.asker = model, encodings, asker
        self.count = PassCount()

    @cached_property
    def inputs(self) -> dict[str, Tensor]:
        return inputs_of(self.model.network, self.encodings)

    @cached_property
    def leaf(self) -> Tensor:
        """The word embeddings, which every gradient reaches. (row, token, size)"""
        with torch.no_grad():
            return self.model.network.embed(self.inputs["input_ids"]).requires_grad_()

    @property
    def words_only(self) -> bool:
        """Whether modified gradients are followed to the word embeddings and to no layer: there are two stacks, or
        several rows for one text.
        """
        return self.model.task.two_stacks or self.model.task.several_rows is not None

    def make(self, kind: PassKind, joined: JoinedBatch | None = None) -> ForwardPass:
        """A pass of this kind. joined: pending queries that run in the same batch."""
        if kind.made_by == "plain":
            with torch.no_grad():
                return ForwardPass(self._logits(None, joined))
        if kind.made_by == "embeddings":
            with torch.enable_grad():
                return ForwardPass(self.model.run(self.inputs, self.count, self.leaf))
        if kind.made_by == "recording":
            with torch.set_grad_enabled(kind.graph):
                return self._record(kind, self.leaf, joined=joined)
        return self._with_rules(kind)

    def _logits(self, leaf: Tensor | None, joined: JoinedBatch | None, *, whole: bool = False) -> Tensor:
        """The logits of the texts; those of joined queries go to the asker. (text, class)"""
        if joined is None:
            return self.model.run(self.inputs, self.count, leaf, whole=whole)
        logits = self.model.run(joined.inputs, self.count, self.model.network.embed(joined.words), check=False)
        check_answers(logits[:1])
        self.asker.take_joined(joined, logits)
        return logits[:1]

    def _with_rules(self, kind: PassKind) -> ForwardPass:
        """The forward pass that relevance is propagated back through."""
        gradient_rules = kind.made_by == "gradient_rules"
        to_words = gradient_rules and self.words_only  # whatever is between, no layer of it is recorded
        layout: dict[str, Any] = {}
        if not self.model.task.two_stacks:
            anatomy = self.model.network.anatomy
            layout = {"routers": anatomy.routers, "tokens_first": anatomy.family.tokens_first}
        mode_of = partial(relevance_mode, self.model.network.module, len(self.encodings), **layout)
        with torch.enable_grad(), mode_of(double=kind.double, gradient_rules=gradient_rules) as mode:
            if to_words:
                logits = graph_tensor(self.model.run(self.inputs, self.count, self.leaf))
                return ForwardPass(logits, Recording(), mode.state)
            leaf = paired(self.leaf, self.leaf.detach().double()) if kind.double else self.leaf
            return self._record(kind, leaf, mode)

    def _record(
        self, kind: PassKind, leaf: Tensor, mode: RelevanceMode | None = None, joined: JoinedBatch | None = None
    ) -> ForwardPass:
        """A forward pass whose blocks and attentions are recorded."""
        layers = recorded_layers(self.model, norms=mode is None and kind.hidden)
        with recording(
            layers.blocks,
            layers.attention,
            pass_through if mode is None else mode.hook,
            kind.attend if mode is None else mode.attend,
            keep=kind.keep,
            rows=len(self.encodings),
            beside=0 if joined is None else len(joined.places) - 1,
            **layers.options,
        ) as record:
            logits = graph_tensor(self._logits(leaf, joined, whole=kind.hidden))
        stacks = layers.stacks or (len(record.blocks),)
        expected = stacks[0] if len(stacks) == 1 else stacks[0] + 2 * stacks[1]
        if not record.attention or len(record.attention) != expected:
            raise NotSeen(
                f"{len(record.blocks)} blocks ran but {len(record.attention)} attentions were seen, so nothing is"
                " explained rather than something wrong. Load the model with attn_implementation='eager' or 'sdpa',"
                " not compiled."
            )
        if mode is not None:
            record.contexts = mode.contexts
        return ForwardPass(logits, record, None if mode is None else mode.state, stacks)


@dataclass(frozen=True)
class RecordedLayers:
    """The modules of a model that are recorded."""

    blocks: Sequence[nn.Module]
    attention: Sequence[nn.Module]
    options: dict[str, Any]  # of `recording`
    stacks: tuple[int, ...] = ()  # layers in each stack; none where only the pass shows how often its blocks run


def recorded_layers(model: TextModel, *, norms: bool = False) -> RecordedLayers:
    """The modules to record; an error where the model cannot be recorded. norms: whether the input of each block's
    second norm is recorded, too.
    """
    task = model.task
    if task.several_rows is not None:
        raise NotSeen(
            f"Not yet for {task.name}: this method looks at the layers of one pass, and there are several, because"
            f" {task.several_rows}. Take {either(methods_served([KINDS['plain'], KINDS['embeddings']]))}."
        )
    if task.two_stacks:
        encoder, decoder = find_stacks(model.network.module)
        blocks = [layer.block for layer in (*encoder, *decoder)]
        attention = [module for layer in (*encoder, *decoder) for module in layer.attention]
        return RecordedLayers(blocks, attention, {}, (len(encoder), len(decoder)))
    family, parts = model.network.anatomy.family, model.network.anatomy.blocks
    if family.unseen is not None:
        raise NotSeen(f"Not defined for {family.model_types[0]}: {family.unseen}")
    options = {
        "outputs": [block.output for block in parts],
        "tokens_first": family.tokens_first,
        "norms": [block.mlp_norm for block in parts if block.order == "post"] if norms else [],
    }
    return RecordedLayers([block.module for block in parts], [block.attention for block in parts], options)


def output_length(model: TextModel) -> int:
    """How many tokens at the end of a text the decoder reads, where an encoder reads the others."""
    return model.task.decoder_length(model) if isinstance(model.task, Seq2Seq) else 0
