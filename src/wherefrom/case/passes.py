"""Texts that go through the model together. Each pass is made once, for all of them, when the first of them asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from wherefrom.case.asking import Asker
from wherefrom.core.encoding import Encoding
from wherefrom.core.target import Target
from wherefrom.errors import NotSeen
from wherefrom.model.recording import Attention, Recording, recording
from wherefrom.model.relevance.double import graph_tensor, paired
from wherefrom.model.relevance.mode import RelevanceMode, relevance_mode
from wherefrom.model.relevance.propagation import Operation, Propagation, PropagationState
from wherefrom.model.text_model import Passes, TextModel


@dataclass(frozen=True)
class Capture:
    """Everything of one pass, for one text: no batch dimension. `gradients` has the same shape."""

    embeddings: Tensor  # (token, size): the word embeddings, the leaf that every gradient reaches
    hidden: list[Tensor]  # (token, hidden): the input of each block, and last the output of the last
    attention: list[Attention]  # one a layer


Place = Literal["words", "blocks", "attention", "top", "contexts"]  # where relevance is read: see `Case.relevance`


class Group:
    """Texts that share one padded forward pass and one backward pass: whichever case asks first, asks for all."""

    def __init__(
        self,
        model: TextModel,
        encodings: Sequence[Encoding],
        asked: Sequence[Target | None],
        asker: Asker | None = None,
    ) -> None:
        self.model, self.encodings, self.asked = model, encodings, asked
        self.asker = asker or Asker(model)
        self.passes = Passes()
        self._origin: Group | None = None  # see `origin`
        self.path: list[tuple[Tensor, Tensor]] | None = (
            None  # a list keeps the last pass along a path for other targets: see `Case._path`
        )
        self._answer: Tensor | None = None  # (row, class), without a graph
        self._gradients: dict[tuple[Target, ...], Capture] = {}
        self._ruled: dict[bool, tuple[Recording, Tensor, PropagationState]] = {}
        self._relevance: dict[object, list[Tensor]] = {}

    @property
    def origin(self) -> Group:
        """Whose passes these are: see `aimed`. A group does not hold itself, or its graphs would stay until garbage is
        collected.
        """
        return self._origin or self

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
        other._origin, other.passes, other.path = self.origin, self.passes, self.path
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
        """The same without graph and scores, which take several times the memory: for what needs neither. Not made
        where `recorded` is.
        """
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

    def _record(
        self, leaf: Tensor, mode: RelevanceMode | None = None, *, scores: bool = True
    ) -> tuple[Recording, Tensor]:
        blocks, ways = self.model.anatomy.blocks, () if mode is None else (mode.hook, mode.attend)
        with recording([b.module for b in blocks], [b.attention for b in blocks], *ways, scores=scores) as record:
            logits = graph_tensor(
                self.model.logits(self.inputs, self.passes, leaf, whole=mode is None or not mode.double)
            )
        if not record.attention or len(record.attention) != len(record.blocks):
            raise NotSeen(
                f"{len(record.blocks)} blocks ran but {len(record.attention)} attentions"
                " were seen, so nothing is explained rather than"
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

    def relevance(self, propagation: Propagation, at: Place, trace: list[Operation] | None = None) -> list[Tensor]:
        """What the rules carry from every row's own target to `at`, with a batch in front. All rules share one forward
        pass.
        """
        record, logits, state = self.with_rules(propagation.double)  # first, because it also says what is predicted
        key, layers = (self.targets, propagation, at), [layer.probs for layer in record.attention]
        if key not in self._relevance or trace is not None:
            blocks = [*record.inputs, record.outputs[-1]]
            wanted = {
                "words": [self.leaf],
                "blocks": blocks,
                "attention": layers,
                "top": layers[-1:],
                "contexts": record.contexts,
            }[at]
            last = {"attention": 0, "top": len(layers) - 1}.get(at)
            with state.propagating(propagation, trace=trace, last=last, keeps_attention=last is not None):
                self._relevance[key] = list(self._backward(logits, self.targets, wanted))
        return self._relevance[key]

    def mixed(self, propagation: Propagation) -> list[Tensor]:
        """Every layer's E_h (dy/dA * R_A)+: the gradient of its attention times its relevance, the mean over heads.
        (row, query, key)
        """
        record, logits, state = self.with_rules(propagation.double)
        key, layers, plain = (
            (self.targets, propagation, "mixed"),
            [layer.probs for layer in record.attention],
            Propagation(double=propagation.double),
        )
        if key not in self._relevance and len(record.contexts) == len(
            layers
        ):  # so that neither of the two is ever whole in memory
            with state.propagating(propagation, last=0, gradients=self.relevance(plain, "contexts")):
                self._backward(logits, self.targets, layers, may_be_nothing=True)
                self._relevance[key] = [state.mixed[layer] for layer in range(len(layers))]
        elif key not in self._relevance:
            pairs = zip(self.relevance(propagation, "attention"), self.relevance(plain, "attention"), strict=True)
            by_head = [(a * b).clamp_(min=0) for a, b in pairs]
            self._relevance[key] = [part.view(len(self.encodings), -1, *part.shape[-2:]).mean(1) for part in by_head]
        return self._relevance[key]

    def with_rules(self, double: bool) -> tuple[Recording, Tensor, PropagationState]:
        """The forward pass that relevance goes back through; its values in double precision with `double`."""
        if double not in self._ruled:
            with torch.enable_grad(), relevance_mode(self.model.network, len(self.encodings), double=double) as mode:
                leaf = paired(self.leaf, self.leaf.detach().double()) if double else self.leaf
                record, logits = self._record(leaf, mode)
                record.contexts = mode.contexts
                self._ruled[double] = record, logits, mode.state
        return self._ruled[double]

    @cached_property
    def embedding_gradient(self) -> Tensor:
        """The gradient at the word embeddings alone: cheaper than `gradients`, and it needs no knowledge of the
        model.
        """
        if "recorded" in self.origin.__dict__:
            return self.gradients().embeddings
        with torch.enable_grad():
            logits = self.model.logits(self.inputs, self.passes, self.leaf)
        self.origin._answer = logits.detach()
        return self._backward(logits, self.targets, [self.leaf])[0]

    def _backward(
        self, logits: Tensor, targets: Sequence[Target], wanted: list[Tensor], *, may_be_nothing: bool = False
    ) -> tuple[Tensor, ...]:
        self.passes.backwards += len(targets)
        score = torch.stack([target.score(logits[i : i + 1])[0] for i, target in enumerate(targets)]).sum()
        return torch.autograd.grad(score, wanted, retain_graph=True, allow_unused=may_be_nothing)
