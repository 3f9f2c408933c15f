"""How likely every token of an answer is when some sources are removed.

A pass gives all tokens of the answer, so that statements share it. What a rebuilt prompt has in common with the
beginning of the whole one is computed once, where the model continues from a cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from wherefrom.core.arrays import Flags, Numbers
from wherefrom.core.encoding import Encoding
from wherefrom.errors import BadOption
from wherefrom.model.generating import continued
from wherefrom.model.network import padded_inputs
from wherefrom.model.prefix import Prefix
from wherefrom.model.tasks.seq2seq import with_decoder_tokens
from wherefrom.model.text_model import PassCount, TextModel
from wherefrom.sources.prompts import BuiltPrompt, Prompt

IN_VAIN = 128  # tokens that a batch may compute for nothing: less than what a pass of its own costs


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
        self._prefix: Prefix | None = None
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
        rows = [with_decoder_tokens(self.model, prompt, self.tokens) for prompt in prompts]
        found: dict[int, Numbers] = {}
        for places, shared in self._batches(rows):
            inputs = padded_inputs(self.model.network, [rows[place].input_ids for place in places], [None])
            if shared:
                logits = self._beginning().run(self.model, shared, inputs, self.count)
            else:
                logits = self.model.run(inputs, self.count)
            own, _, total, _ = logits.double().unflatten(-1, (-1, 4)).unbind(-1)  # (row, token) each
            found |= dict(zip(places, (own - total).cpu().numpy(), strict=True))
        if any(not np.isfinite(found[place]).all() for place in found):
            raise BadOption("The model gives a token of the answer no probability at all.")
        return [found[place] for place in range(len(rows))]

    def _beginning(self) -> Prefix:
        if self._prefix is None:
            self._prefix = Prefix.of(self.model, self.encoding.input_ids, None, self.count)
        return self._prefix

    def _batches(self, rows: Sequence[Encoding]) -> Iterator[tuple[list[int], int]]:
        """Places of rows that go through the model together, and how many tokens they begin with alike."""
        cached = len(rows) > 1 and self.model.shares_prefixes
        shared = [self._shared(row) if cached else 0 for row in rows]
        most = self.model.batch_tokens if self.model.network.facts.takes_batches else 0
        batch: list[int] = []
        for place in sorted(range(len(rows)), key=lambda place: (-shared[place], len(rows[place]))):
            together = [*batch, place]
            computed = (max(len(rows[other]) for other in together) - shared[place]) * len(together)
            needed = sum(len(rows[other]) - shared[other] for other in together)
            # Rows of a batch share the shortest beginning: what the others could share more is computed in vain.
            if batch and (computed > most or computed - needed > max(IN_VAIN, needed // 10)):
                yield batch, shared[batch[-1]]
                together = [place]
            batch = together
        if batch:
            yield batch, shared[batch[-1]]

    def _shared(self, row: Encoding) -> int:
        """How many tokens a row and the whole prompt begin with alike, up to the token before the answer."""
        pairs = enumerate(zip(row.input_ids, self.encoding.input_ids, strict=False))
        differs = next((place for place, (one, two) in pairs if one != two), len(row))
        return min(differs, len(row) - 1 - len(self.tokens))
