"""Texts that go through the model together. Each pass is made once, for all of them, when the first of them asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from whence.core.asking import Asker
from whence.core.encoding import Encoding
from whence.core.target import Target
from whence.errors import NotSeen
from whence.model.relevance import Engine, MaskVariant, Operation, RuleSet, ruled
from whence.model.tap import Attention, Gate, Recording, open_gate, recording
from whence.model.text_model import Passes, TextModel


@dataclass(frozen=True)
class Capture:
    """Everything of one pass, for one text: no batch dimension. `gradients` has the same shape."""

    embeddings: Tensor  # (token, size): the word embeddings, the leaf that every gradient reaches
    hidden: list[Tensor]  # (token, hidden): the input of each block, and last the output of the last
    attention: list[Attention]  # one a layer


Place = Literal["words", "blocks", "attention", "top"]  # where relevance is read: see `Case.relevance`


class Group:
    """Texts that share one padded forward pass and one backward pass: whichever case asks first, asks for all."""

    def __init__(self, model: TextModel, encodings: Sequence[Encoding], asked: Sequence[Target | None], asker: Asker | None = None) -> None:
        self.model, self.encodings, self.asked = model, encodings, asked
        self.asker = asker or Asker(model)
        self.passes = Passes()
        self.origin = self  # whose passes these are: see `aimed`
        self.path: list[tuple[Tensor, Tensor]] | None = None  # a list keeps the last pass along a path for other targets: see `Case._path`
        self._answer: Tensor | None = None  # (row, class), without a graph
        self._gradients: dict[tuple[Target, ...], Capture] = {}
        self._ruled: dict[bool, tuple[Recording, Tensor, Engine]] = {}
        self._relevance: dict[object, list[Tensor]] = {}

    @cached_property
    def inputs(self) -> dict[str, Tensor]:
        return self.model.batch(self.encodings)

    @cached_property
    def leaf(self) -> Tensor:
        if self.origin is not self:
            return self.origin.leaf
        with torch.no_grad():
            return self.model.embed(self.inputs["input_ids"]).requires_grad_()

    @property
    def answer(self) -> Tensor:
        """The logits, from whatever pass has been made; a plain one if none has. (row, class)"""
        if self.origin is not self:
            return self.origin.answer
        if self._answer is None:
            with torch.no_grad():
                self._answer = self.model.logits(self.inputs, self.passes)
        return self._answer

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        """What each row is asked about; what it predicts, where nothing was said."""
        predicted = self.model.task.predicted
        rows = zip(self.asked, self.answer, self.encodings, strict=True)
        return tuple(asked or predicted(self.model, logits, encoding) for asked, logits, encoding in rows)

    def aimed(self, asked: Sequence[Target | None]) -> Group:
        """The same texts with other targets: everything but the backward pass is shared."""
        other = Group(self.model, self.encodings, asked, self.asker)
        other.origin, other.passes, other.path = self.origin, self.passes, self.path
        other._gradients, other._ruled, other._relevance = self._gradients, self._ruled, self._relevance
        return other

    @cached_property
    def recorded(self) -> tuple[Recording, Tensor]:
        """One forward pass with everything recorded and its graph kept; and its logits."""
        if self.origin is not self:
            return self.origin.recorded
        if False in self._ruled:  # its gradients are the same
            return self._ruled[False][:2]
        with torch.enable_grad():
            return self._record(self.leaf)

    @cached_property
    def watched(self) -> Recording:
        """The same without graph and scores, which take several times the memory: for what needs neither. Not made where `recorded` is."""
        if self.origin is not self:
            return self.origin.watched
        if "recorded" in self.__dict__:
            return self.recorded[0]
        if "scored" in self.__dict__:
            return self.scored
        with torch.no_grad():
            return self._record(self.leaf, scores=False)[0]

    @cached_property
    def scored(self) -> Recording:
        """The same with scores: for what looks at attention before the softmax, and at no gradient."""
        if self.origin is not self:
            return self.origin.scored
        if "recorded" in self.__dict__:
            return self.recorded[0]
        with torch.no_grad():
            return self._record(self.leaf)[0]

    def _record(self, leaf: Tensor, gate: Gate = open_gate, *, scores: bool = True) -> tuple[Recording, Tensor]:
        blocks = self.model.anatomy.blocks
        with recording([b.module for b in blocks], [b.attention for b in blocks], gate, scores=scores) as record:
            logits = self.model.logits(self.inputs, self.passes, leaf, whole=True)
        if not record.attention or len(record.attention) != len(record.blocks):
            raise NotSeen(
                f"{len(record.blocks)} blocks ran but {len(record.attention)} attentions were seen, so nothing is explained rather than"
                " something wrong. Load the model with attn_implementation='eager' or 'sdpa', not compiled."
            )
        self.origin._answer = logits.detach().to(self.leaf.dtype)
        return record, logits

    def gradients(self) -> Capture:
        """One backward pass over what was recorded: the gradient of every row's own target. With a batch in front."""
        record, logits = self.recorded  # first, because it also says what is predicted
        targets = self.targets
        if targets not in self._gradients:
            attention = [t for layer in record.attention for t in (layer.scores, layer.probs, layer.value)]
            wanted = [self.leaf, *record.inputs, record.outputs[-1], *attention]
            found = self._backward(logits, targets, wanted)
            edge = 2 + len(record.inputs)
            layers = [Attention(*found[i : i + 3]) for i in range(edge, len(found), 3)]
            self._gradients[targets] = Capture(found[0], list(found[1:edge]), layers)
        return self._gradients[targets]

    def relevance(
        self,
        rules: RuleSet,
        at: Place,
        *,
        heads: tuple[tuple[float, ...], ...] | None = None,
        variant: MaskVariant = "paper",
        wide: bool = False,
        trace: list[Operation] | None = None,
    ) -> list[Tensor]:
        """What the rules carry from every row's own target to `at`, with a batch in front. All rules share one forward pass."""
        record, logits, engine = self.with_rules(wide)  # first, because it also says what is predicted
        targets = self.targets
        key = (targets, rules, at, heads, variant, wide)
        if key not in self._relevance or trace is not None:
            leaf = self._wide_leaf if wide else self.leaf
            layers = [layer.probs for layer in record.attention]
            wanted = {"words": [leaf], "blocks": [*record.inputs, record.outputs[-1]], "attention": layers, "top": layers[-1:]}[at]
            mask = None if heads is None else torch.tensor(heads, dtype=leaf.dtype, device=leaf.device)
            with engine.carrying(rules, heads=mask, variant=variant, trace=trace):
                self._relevance[key] = list(self._backward(logits, targets, wanted))
        return self._relevance[key]

    def with_rules(self, wide: bool) -> tuple[Recording, Tensor, Engine]:
        """The forward pass that relevance goes back through; in double precision if it is to be wide."""
        if wide not in self._ruled:
            with torch.enable_grad(), ruled(self.model.network, len(self.encodings), wide=wide) as (engine, gate):
                self._ruled[wide] = (*self._record(self._wide_leaf if wide else self.leaf, gate), engine)
        return self._ruled[wide]

    @cached_property
    def _wide_leaf(self) -> Tensor:
        if self.origin is not self:
            return self.origin._wide_leaf
        return self.leaf.detach().double().requires_grad_()

    @cached_property
    def embedding_gradient(self) -> Tensor:
        """The gradient at the word embeddings alone: cheaper than `gradients`, and it needs no knowledge of the model."""
        if "recorded" in self.origin.__dict__:
            return self.gradients().embeddings
        with torch.enable_grad():
            logits = self.model.logits(self.inputs, self.passes, self.leaf)
        self.origin._answer = logits.detach()
        return self._backward(logits, self.targets, [self.leaf])[0]

    def _backward(self, logits: Tensor, targets: Sequence[Target], wanted: list[Tensor]) -> tuple[Tensor, ...]:
        self.passes.backwards += len(targets)
        score = torch.stack([target.score(logits[i : i + 1])[0] for i, target in enumerate(targets)]).sum()
        return torch.autograd.grad(score, wanted, retain_graph=True)
