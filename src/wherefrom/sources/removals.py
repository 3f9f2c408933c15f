"""How likely every token of an answer is when some sources are removed.

A pass gives all tokens of the answer, so that statements share it. What rebuilt prompts begin with alike is computed
once, where the model continues from a cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from wherefrom.core.arrays import Flags, Numbers
from wherefrom.core.encoding import Encoding
from wherefrom.errors import BadOption
from wherefrom.model.generating import continued
from wherefrom.model.network import padded_inputs
from wherefrom.model.prefix import Prefix
from wherefrom.model.tasks.seq2seq import with_decoder_tokens
from wherefrom.model.text_model import PassCount, TextModel
from wherefrom.sources.prompts import BuiltPrompt, Prompt

PASS = 128  # tokens: what is computed in the time that a pass costs beside its tokens, on any device

Row = tuple[int, ...]


def choice_key(kept: Flags) -> bytes:
    """A choice of sources as a key. (source,) bool"""
    return np.packbits(kept).tobytes()


class Removals:
    """The answer's log-probabilities with any of the sources removed. Each choice is computed once."""

    def __init__(self, model: TextModel, prompt: Prompt, tokens: Sequence[int], whole: BuiltPrompt) -> None:
        self.prompt, self.tokens, self.whole = prompt, tuple(tokens), whole
        self.model, self.encoding = continued(model, whole.encoding, tokens, [None] * len(tokens))
        self.count = PassCount()
        self._reader = model
        self._path: tuple[Row, Prefix] = ((), Prefix(()))  # the last row that went through by itself
        self._known: dict[bytes, Numbers] = {}

    def log_probabilities(self, kept: Flags) -> Numbers:
        """Of every token of the answer. (choice, source) bool -> (choice, token)"""
        keys = [choice_key(row) for row in kept]
        due = {key: row for key, row in zip(keys, kept, strict=True) if key not in self._known}
        built = [self.prompt.build(self._reader, row.tolist()).encoding for row in due.values()]
        self._known |= dict(zip(due, self.of_prompts(built), strict=True))
        return np.stack([self._known[key] for key in keys])

    @torch.no_grad()
    def of_prompts(self, prompts: Sequence[Encoding]) -> list[Numbers]:
        """The same for prompts as they are. (token,) each"""
        rows = [with_decoder_tokens(self.model, prompt, self.tokens).input_ids for prompt in prompts]
        found: dict[int, Numbers] = {}
        for places, logits in self._along_path(rows) if self._sharing_pays(rows) else self._in_batches(rows):
            own, _, total, _ = logits.double().unflatten(-1, (-1, 4)).unbind(-1)  # (row, token) each
            found |= dict(zip(places, (own - total).cpu().numpy(), strict=True))
        if any(not np.isfinite(found[place]).all() for place in found):
            raise BadOption("The model gives a token of the answer no probability at all.")
        return [found[place] for place in range(len(rows))]

    def _sharing_pays(self, rows: Sequence[Row]) -> bool:
        """Whether passes of single rows that continue from each other compute less than batches of whole rows."""
        if not self.model.shares_prefixes:
            return False
        order = [self._path[0], *sorted(rows)]
        apart = sum(len(row) - self._shared(before, row) + PASS for before, row in pairwise(order))
        together = sum(max(len(rows[place]) for place in batch) * len(batch) + PASS for batch in self._batches(rows))
        return apart < together

    def _along_path(self, rows: Sequence[Row]) -> Iterator[tuple[list[int], Tensor]]:
        """Rows in the order of a dictionary: each continues from what it shares with the one before it, so that no
        beginning is computed twice.
        """
        for place in sorted(range(len(rows)), key=rows.__getitem__):
            before, prefix = self._path
            inputs = padded_inputs(self.model.network, [rows[place]], [None])
            logits, longer = prefix.extended(self.model, self._shared(before, rows[place]), inputs, self.count)
            self._path = (rows[place], longer)
            yield [place], logits

    def _in_batches(self, rows: Sequence[Row]) -> Iterator[tuple[list[int], Tensor]]:
        for batch in self._batches(rows):
            inputs = padded_inputs(self.model.network, [rows[place] for place in batch], [None])
            yield batch, self.model.run(inputs, self.count)

    def _batches(self, rows: Sequence[Row]) -> Iterator[list[int]]:
        """Places of rows of similar length."""
        most = self.model.batch_tokens if self.model.network.facts.takes_batches else 0
        batch: list[int] = []
        for place in sorted(range(len(rows)), key=lambda place: len(rows[place])):
            together = [*batch, place]
            computed = len(rows[place]) * len(together)
            needed = sum(len(rows[other]) for other in together)
            if batch and (computed > most or computed - needed > max(PASS, needed // 10)):
                yield batch
                together = [place]
            batch = together
        if batch:
            yield batch

    def _shared(self, before: Row, row: Row) -> int:
        """How many tokens two rows begin with alike, up to the token before the second one's answer."""
        differs = next((place for place, (one, two) in enumerate(zip(before, row, strict=False)) if one != two), None)
        return min(min(len(before), len(row)) if differs is None else differs, len(row) - 1 - len(self.tokens))
