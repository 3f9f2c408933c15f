"""Texts that run through the model together, and the passes over them.

What will be read is announced first. Then the cheapest forward pass that serves everything announced is made once, when
the first of it is read: which passes are made does not depend on the order in which methods read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from wherefrom.case.asking import Asker, JoinedBatch
from wherefrom.case.forward import ForwardPass, TextBatch, output_length
from wherefrom.case.kinds import KINDS, ONE_STACK, PassKind, methods_served, not_for_two_stacks
from wherefrom.case.memory import clear_when_memory_ends, free_memory, is_out_of_memory, not_enough_memory
from wherefrom.case.targeted import TargetedPasses
from wherefrom.core.encoding import Encoding
from wherefrom.core.target import Target
from wherefrom.errors import ModelFailed, NotEnoughMemory, NotSeen, TextWithoutAnswer, WrongModel
from wherefrom.model.device import give_back_memory
from wherefrom.model.text_model import PassCount, TextModel
from wherefrom.registry import Reads

Shared = TypeVar("Shared")

PASSING = 3  # tensors as large as one layer's attention that exist for a moment
SMALL = 2**27  # bytes; smaller passes are made without looking at the free memory


class Passes:
    """Texts in one padded batch and the forward passes over them, each made once. It knows no target."""

    def __init__(self, model: TextModel, encodings: Sequence[Encoding], asker: Asker | None = None) -> None:
        self.model, self.encodings = model, encodings
        self.asker = asker or Asker(model)
        self.batch = TextBatch(model, encodings, self.asker)
        self.count = self.batch.count
        two = model.task.two_stacks
        # What each kind of pass serves for this model.
        self._serves = {
            kind: kind.serves - ONE_STACK if two else kind.serves
            for kind in KINDS.values()
            if not (two and kind.made_by == "rules")
        }
        self._announced: set[Reads] = set()
        self._several_targets = False
        self._made: dict[PassKind, ForwardPass] = {}
        self._failed: dict[PassKind, WrongModel] = {}
        self._path: tuple[Tensor, Tensor] | None = None
        self._shared: dict[object, Any] = {}
        self._logits_of: dict[int, Tensor] = {}
        # Weak, because these refer to the passes: with a reference cycle, autograd graphs would stay in memory until
        # the garbage collector runs.
        self._toward: WeakValueDictionary[tuple[Target, ...], TargetedPasses] = WeakValueDictionary()

    def announce(self, needs: Iterable[Reads], *, several_targets: bool = False) -> None:
        """Say what will be read, before anything is.

        several_targets: the same texts will be explained toward several targets, so that a forward pass along a path
            of embeddings is worth keeping for the next of them.
        """
        self._announced |= set(needs)
        self._several_targets = self._several_targets or several_targets

    @property
    def leaf(self) -> Tensor:
        """The word embeddings, which every gradient reaches. (row, token, size)"""
        return self.batch.leaf

    @cached_property
    def logits(self) -> Tensor:
        """The logits, of the pass that will be read anyway; of a plain one if none will. (row, class)"""
        inside = sorted(self._announced - KINDS["plain"].serves, key=lambda need: (need == "relevance_double", need))
        for need in inside:
            # A model that cannot be looked into still answers; the method that looks into it gets the error.
            with suppress(WrongModel, NotEnoughMemory):
                return self.forward(need).logits.detach().to(self.leaf.dtype)
        return self.forward("nothing").logits.detach().to(self.leaf.dtype)

    def logits_of(self, row: int) -> Tensor:
        """The logits of one of the texts. (class,)"""
        if row not in self._logits_of:
            ids = self.encodings[row].input_ids
            self._logits_of[row] = self.model.task.own_logits(self.model, self.logits[row], ids)
        return self._logits_of[row]

    @property
    def stacks(self) -> tuple[int, ...]:
        """How many layers each stack has: one stack, or an encoder and a decoder. Known once layers were recorded."""
        return next(made.stacks for made in self._made.values() if made.stacks)

    @cached_property
    def output(self) -> int:
        """How many tokens at the end of each text the decoder reads, where an encoder reads the others."""
        return output_length(self.model)

    def served_with(self, need: Reads) -> frozenset[Reads]:
        """All that the pass that serves a need serves."""
        self.forward(need)
        return next(serves for kind, serves in self._serves.items() if kind in self._made and need in serves)

    def announced(self, needs: Iterable[Reads]) -> list[Reads]:
        """Those of these needs that were announced."""
        return [need for need in needs if need in self._announced]

    def forward(self, need: Reads) -> ForwardPass:
        """The pass that serves a need: one that was made, else the cheapest that also serves all that was announced."""
        serving = [kind for kind, serves in self._serves.items() if need in serves]
        if not serving:
            raise NotSeen(not_for_two_stacks())
        for kind in serving:
            if kind in self._made:
                return self._made[kind]
        waiting = {other for other in self._announced if not any(other in self._serves[kind] for kind in self._made)}
        too_large: list[int] = []
        for kind in sorted(serving, key=lambda kind: len((waiting - {"relevance_double"}) - self._serves[kind])):
            if kind in self._failed:
                continue
            if not self._fits(kind):
                too_large.append(self.needed_memory(kind) or 0)  # a pass that serves less may fit
                continue
            try:
                with clear_when_memory_ends(self._longest):
                    self._made[kind] = self._make_with_queries(kind)
            except NotEnoughMemory:
                raise
            except WrongModel as error:
                self._failed[kind] = error.with_traceback(None)
            except ModelFailed as error:  # the rows of this pass are texts, so that the others can do without them
                raise TextWithoutAnswer(str(error), error.rows) from error
            else:
                return self._made[kind]
        if too_large:
            raise self._does_not_fit(min(too_large))
        raise next(self._failed[kind] for kind in serving).with_traceback(None)

    @property
    def _longest(self) -> int:
        return max(map(len, self.encodings))

    def needed_memory(self, kind: PassKind) -> int | None:
        """How many bytes a pass will take, from the shapes of what it keeps; None where these are not known."""
        config, tokens = self.model.network.module.config.get_text_config(), self._longest
        names = ("num_hidden_layers", "num_attention_heads", "hidden_size")
        sizes = [getattr(config, name, None) for name in names]
        if not all(isinstance(size, int) for size in sizes):
            return None
        layers, heads, hidden = (int(size) for size in sizes if size is not None)
        output, source = self.output, tokens - self.output
        # Entries of one head's attention, in all layers together and in the largest of them.
        entries, largest, vectors = layers * tokens * tokens, tokens * tokens, layers * tokens
        if output:
            decoder = int(getattr(config, "num_decoder_layers", 0) or getattr(config, "decoder_layers", 0) or layers)
            entries = layers * source * source + decoder * output * (output + source)
            largest, vectors = max(source, output) * source, layers * source + decoder * output
        matrices = (entries * kind.heads + PASSING * largest * bool(kind.heads)) * heads
        matrices += entries * kind.matrices
        if kind.matrices and getattr(config, "_attn_implementation", None) != "sdpa":
            matrices += PASSING * largest * heads  # where the model itself computes them, all heads exist at once
        numbers = matrices + vectors * kind.vectors * hidden
        return numbers * len(self.encodings) * self.model.network.module.dtype.itemsize

    def _fits(self, kind: PassKind) -> bool:
        """Whether there is memory for a pass, before it is begun; True where the free memory is not known."""
        needed = self.needed_memory(kind) or 0
        free = None if needed < SMALL else free_memory(self.model.network.device)
        return free is None or needed <= free

    def _does_not_fit(self, needed: int) -> NotEnoughMemory:
        """The error where no pass fits that serves a need. It names the smallest, and methods that would fit."""
        lighter = methods_served(kind for kind in self._serves if kind.light and self._fits(kind))
        return not_enough_memory(self._longest, needed, free_memory(self.model.network.device), lighter)

    def _make_with_queries(self, kind: PassKind) -> ForwardPass:
        """A pass over a single text takes the pending queries about it along. Where memory does not suffice for all of
        them, the text runs alone, and they wait.
        """
        if not (kind.hidden or kind.graph) and len(self.encodings) == 1:
            joined = self.asker.joined_with(self.encodings[0])
            try:
                return self._make(kind, joined)
            except (RuntimeError, MemoryError) as error:
                if joined is None or not is_out_of_memory(error):
                    raise
            give_back_memory()
        return self._make(kind)

    def _make(self, kind: PassKind, joined: JoinedBatch | None = None) -> ForwardPass:
        return self.batch.make(kind, joined)

    def along(self, embeddings: Tensor, inputs: dict[str, Tensor], count: PassCount) -> tuple[Tensor, Tensor]:
        """A forward pass of one text with other word embeddings, and its autograd graph: the leaf, and the logits.

        The last one is kept where several targets were announced, because the next of them goes along the same path.
        """
        if self._path is not None:
            leaf, logits = self._path
            if leaf.shape == embeddings.shape and torch.equal(leaf, embeddings):
                return leaf, logits
        with torch.enable_grad():
            leaf = embeddings.detach().requires_grad_()
            logits = self.model.run(inputs, count, leaf)
        if self._several_targets:
            self._path = (leaf, logits)
        return leaf, logits

    @property
    def keeps_path(self) -> bool:
        """Whether the autograd graph of a pass along a path is still needed after a backward pass over it."""
        return self._several_targets

    def once(self, key: object, compute: Callable[[], Shared]) -> Shared:
        """A value computed once for these texts. It must not refer to a case, which would be a reference cycle."""
        if key not in self._shared:
            self._shared[key] = compute()
        value: Shared = self._shared[key]
        return value

    def toward(self, targets: Sequence[Target | None]) -> TargetedPasses:
        """The same passes towards one target a row; None for what the model predicts."""
        known = tuple(target for target in targets if target is not None)
        if len(known) < len(targets):
            return TargetedPasses(self, targets)
        targeted = self._toward.get(known)
        if targeted is None:
            targeted = self._toward[known] = TargetedPasses(self, targets)
        return targeted
