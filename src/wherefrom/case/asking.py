"""What does a model answer when only some of the tokens are there? Every question is put once, in full batches of
similar length.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, groupby
from itertools import count as counter

import numpy as np
import torch
from torch import Tensor

from wherefrom.case.memory import is_out_of_memory, not_enough_memory
from wherefrom.core.arrays import Flags, Indices, Numbers
from wherefrom.core.encoding import Encoding
from wherefrom.core.target import Target, joint_probability
from wherefrom.errors import MissingToken, ModelFailed
from wherefrom.model.device import give_back_memory
from wherefrom.model.hiding import SAMPLE, fill_in_place, fill_token
from wherefrom.model.network import padded_inputs
from wherefrom.model.prefix import Prefix
from wherefrom.model.text_model import PassCount, TextModel, rows_without_answer

Progress = Callable[[int, int], None]  # rows that are done, and all that there are

# Starting a pass costs about as much as this many tokens in it. Where padding would cost more, a new batch is begun.
PASS_IN_TOKENS = 48
# A row shares the beginning of its text with others only where that is at least this part of it.
WORTH = 8


@dataclass(frozen=True)
class InputRow:
    """What goes through the model: the words that are looked up, and the ids that say where padding and the mask
    are.
    """

    words: tuple[int, ...]
    ids: tuple[int, ...]  # as the text has them, so that every position stays where it was
    types: tuple[int, ...] | None
    text: Encoding  # that it was made of
    begins: int  # how many tokens of the text it begins with
    shares: tuple[float, ...] = ()  # of each word vector's elements, how many are kept; nothing where all are
    draw: int = 0  # which draw of these elements

    def __len__(self) -> int:
        return len(self.words)

    def key(self, marks: frozenset[int]) -> object:
        """What decides the answer: texts of one length with all their words hidden alike are one row, too.

        marks: ids whose places count, such as padding: see `Hiding.marks`.
        """
        marked = tuple(place for place, token in enumerate(self.ids) if token in marks)
        return (self.words, self.types, marked, *((self.shares, self.draw) if self.shares else ()))


@dataclass(frozen=True, eq=False)
class JoinedBatch:
    """A text that is run anyway, followed by all pending rows."""

    places: Sequence[int]  # of all rows among the asker's; the text's own is the first
    inputs: dict[str, Tensor]
    words: Tensor  # the ids that are looked up. (row, token)


@dataclass(frozen=True, eq=False)
class PendingAnswers:
    """Questions about one text. Their answers are there once the asker ran."""

    asker: Asker
    places: Indices  # of each question's row among the asker's; of its rows, where words were drawn
    keep: Flags  # (row, token)
    shortened: bool
    draws: int = 1  # how many rows each question has; its answer is their mean

    @property
    def logits(self) -> Tensor:
        """(row, class); for the two ends of an answer (row, 2, token), where a token that was deleted cannot be one."""
        every = self._of_every_draw()
        return every if self.draws == 1 else every.unflatten(0, (-1, self.draws)).mean(1)

    def _of_every_draw(self) -> Tensor:
        self._check()
        answers = [self.asker.answers[place] for place in self.places]
        if not answers or answers[0].ndim == 1 or not self.shortened:
            return torch.stack(answers)
        whole: Tensor = answers[0].new_full((len(answers), len(answers[0]), self.keep.shape[1]), -torch.inf)
        for row, logits, keep in zip(whole, answers, self.keep, strict=True):
            row[:, torch.from_numpy(keep).to(row.device)] = logits
        return whole

    def probability(self, targets: Sequence[Target]) -> Numbers:
        """Of the target; of all together, where it has parts. (row,)"""
        self._check()
        if len(targets) == 1 and targets[0].position is None:
            every = self.asker.probabilities(targets[0])[self.places]
        else:
            every = joint_probability(targets, self._of_every_draw()).cpu().numpy()
        mean: Numbers = every if self.draws == 1 else every.reshape(-1, self.draws).mean(1)
        return mean

    def _check(self) -> None:
        """A query without an answer fails for its caller only, not for the others in its batch."""
        missing = self.asker.unanswered.intersection(self.places.tolist()) if self.asker.unanswered else ()
        if missing:
            raise ModelFailed(
                f"The model answered NaN or infinity to {len(missing)} of {len(set(self.places.tolist()))} questions"
                " about this text with some of its words hidden."
            )


def kept_elements(row: InputRow, size: int) -> Tensor:
    """Which elements of its word vectors a row keeps, drawn by its text and the number of its draw. (token, size)"""
    seed = zlib.crc32(np.asarray([row.draw, *row.ids], dtype=np.int64).tobytes())
    numbers = torch.rand(len(row), size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return numbers < torch.tensor(row.shares, dtype=torch.float64)[:, None]


class Asker:
    """Collects the queries of methods, metrics and texts, runs each distinct one once, and counts what that saved.

    asked: all queries. distinct: those that differ. rows: those that went through the model.
    """

    def __init__(self, model: TextModel, *, share: bool = True) -> None:
        self.model, self.room = model, model.batch_tokens
        self.count = PassCount()
        self.asked = 0
        self._distinct_elsewhere = 0
        self.answers: list[Tensor] = []  # the logits of every distinct row; empty while it waits
        self._rows: list[InputRow] = []
        self._waiting: dict[int, None] = {}  # places of rows without an answer, in the order of the queries
        self._place: dict[object, int] = {}
        self.unanswered: set[int] = set()  # places of rows that the model answered with NaN or infinity
        self._probabilities: dict[Target, Numbers] = {}
        self._first_read: dict[tuple[int, ...], int] = {}  # the first position of a row that is read, by its ids
        # Without sharing no two questions are the same: for measuring what sharing brings, and that it changes nothing.
        self._apart: Iterator[int] | None = None if share else counter()

    @property
    def distinct(self) -> int:
        return len(self._rows) + self._distinct_elsewhere

    def count_also(self, other: Asker) -> None:
        """Add the counts of another asker, whose model is bound to something else."""
        self.asked += other.asked
        self._distinct_elsewhere += other.distinct
        self.count.forwards += other.rows

    @property
    def rows(self) -> int:
        return self.count.forwards

    def know(self, encoding: Encoding, logits: Tensor) -> None:
        """The answer to the whole text, which some other pass gave already."""
        place = self._whole(encoding)
        if place in self._waiting:
            self._answer(place, logits.detach())

    def _whole(self, encoding: Encoding) -> int:
        """The place of a text with nothing hidden."""
        ids = encoding.input_ids
        return self._noted(InputRow(ids, ids, encoding.token_type_ids, encoding, len(ids)))

    def note(self, encoding: Encoding, keep: Tensor | Flags, fill: str) -> PendingAnswers:
        """Note queries for the next run: the tokens of `keep` stay, the others are replaced or deleted. (row, token)

        Special tokens always stay. Where deletion would leave no token, the token that starts a text remains.
        """
        kept = np.asarray(keep.cpu() if isinstance(keep, Tensor) else keep, dtype=np.bool_) | np.asarray(
            encoding.special
        )
        ids, types = np.asarray(encoding.input_ids), encoding.token_type_ids
        fill = fill_in_place(self.model, fill)
        delete = fill == "delete"
        self.asked += len(kept)
        begins = np.where(kept.all(1), kept.shape[1], kept.argmin(1)).tolist()  # up to the first that is hidden
        if fill == SAMPLE:
            return self._note_sampled(encoding, kept, begins)
        if delete:
            rows = (self._shortened(encoding, row, first) for row, first in zip(kept, begins, strict=True))
        else:
            filled = np.where(kept, ids, fill_token(self.model, fill)).tolist()
            rows = (
                InputRow(tuple(words), encoding.input_ids, types, encoding, first)
                for words, first in zip(filled, begins, strict=True)
            )
        places = np.fromiter((self._noted(row) for row in rows), dtype=np.int64, count=len(kept))
        return PendingAnswers(self, places, kept, delete)

    def _note_sampled(self, encoding: Encoding, kept: Flags, begins: Sequence[int]) -> PendingAnswers:
        """The same where hidden tokens are replaced by words that a masked language model expects there."""
        words = self.model.sampled_words
        if words is None:
            raise MissingToken(
                "The fill sample draws hidden words from a masked language model: name one, as in"
                " wherefrom.load(model, fill_model=...)."
            )
        places = [
            self._noted(InputRow(tuple(row), encoding.input_ids, encoding.token_type_ids, encoding, first))
            for first, draws in zip(begins, words.fill(encoding, kept).tolist(), strict=True)
            for row in draws
        ]
        return PendingAnswers(self, np.asarray(places, dtype=np.int64), kept, False, words.draws)

    def note_soft(self, encoding: Encoding, shares: Numbers) -> PendingAnswers:
        """Note queries for the next run in which each token's word vector keeps about so large a share of its elements,
        drawn at random, and the others are zero. Rows of one text draw from the same numbers, each row others, so that
        explanations of a text are compared by the same draws. (row, token)

        Special tokens keep all of theirs.
        """
        kept = np.where(np.asarray(encoding.special), 1.0, np.asarray(shares, dtype=np.float64))
        self.asked += len(kept)
        ids, types = encoding.input_ids, encoding.token_type_ids
        begins = np.where((kept >= 1).all(1), kept.shape[1], (kept >= 1).argmin(1)).tolist()
        rows = (
            InputRow(ids, ids, types, encoding, first, tuple(row.tolist()), draw)
            for draw, (row, first) in enumerate(zip(kept, begins, strict=True))
        )
        places = np.fromiter((self._noted(row) for row in rows), dtype=np.int64, count=len(kept))
        return PendingAnswers(self, places, kept > 0, False)

    def _shortened(self, encoding: Encoding, kept: Flags, begins: int) -> InputRow:
        words = tuple(compress(encoding.input_ids, kept)) or (self.model.hiding.start_token(),)
        types = encoding.token_type_ids
        return InputRow(words, words, None if types is None else tuple(compress(types, kept)) or (0,), encoding, begins)

    def _noted(self, row: InputRow) -> int:
        key = row.key(self.model.hiding.marks) if self._apart is None else next(self._apart)
        if key not in self._place:
            self._place[key] = place = len(self._rows)
            self._rows.append(row)
            self.answers.append(torch.empty(0))
            self._waiting[place] = None
        return self._place[key]

    def _answer(self, place: int, logits: Tensor) -> None:
        self.answers[place] = logits
        self._waiting.pop(place, None)
        self._probabilities.clear()

    @torch.no_grad()
    def run(self, progress: Progress | None = None) -> Counter[tuple[int, ...]]:
        """Ask all that was noted and is not answered yet. Gives how many rows went through the model for each text, by
        its ids.
        """
        waiting = list(self._waiting)
        rows = Counter(self._rows[place].text.input_ids for place in waiting)
        if not waiting:
            return rows
        reported = 0

        def done(rows: int) -> None:
            nonlocal reported
            reported += rows
            if progress is not None:
                progress(reported, len(waiting))

        try:
            alone, by_text = self._sharing(waiting)
            for text, places in by_text:
                prefix = Prefix.of(self.model, text.input_ids, text.token_type_ids, self.count)
                rows[text.input_ids] += 1
                self._ask(sorted(places, key=lambda place: self._shared(self._rows[place])), done, prefix)
            self._ask(sorted(alone, key=lambda place: len(self._rows[place])), done)
        except BaseException:
            self._forget(waiting)
            raise
        return rows

    def _ask(self, waiting: Sequence[int], done: Callable[[int], None], prefix: Prefix | None = None) -> None:
        """Run these rows in batches of neighbours: complete, or after a prefix that all share."""
        first = 0
        while first < len(waiting):
            batch = (self._batch if prefix is None else self._batch_behind)(waiting[first:])
            answers = self._answered(batch, prefix)
            self._take(batch[: len(answers)], answers)
            first += len(answers)
            done(len(answers))

    def joined_with(self, text: Encoding) -> JoinedBatch | None:
        """A batch of a text and all rows that wait; None where nothing waits, where they do not fit into one batch, or
        where rows that share the beginning of a text cost less by themselves. The answers go to `take_joined`.
        """
        if not self._waiting or not self.model.network.facts.takes_batches:
            return None
        places = list(dict.fromkeys([self._whole(text), *self._waiting]))
        rows = [self._rows[place] for place in places]
        if any(row.shares for row in rows):
            return None
        alike = self.model.network.facts.lengths.alike
        if not all(alike(len(row), len(text)) for row in rows):
            return None
        if max(map(len, rows)) > len(text) or len(rows) * len(text) > self.room or self._sharing(places[1:])[1]:
            return None
        return JoinedBatch(places, *self._tensors(rows))

    def take_joined(self, batch: JoinedBatch, answers: Tensor) -> None:
        """Take the answers to all rows of a batch. (row, class)"""
        self.count.forwards += len(batch.places) - 1  # the text's own row counts where it was made
        self._take(batch.places, answers)

    def _take(self, places: Sequence[int], answers: Tensor) -> None:
        """Take the answers to these rows. (row, class)"""
        self.unanswered.update(places[row] for row in rows_without_answer(answers))
        for place, logits in zip(places, answers, strict=True):
            self._answer(place, self.model.task.own_logits(self.model, logits, self._rows[place].ids))

    def _shared(self, row: InputRow) -> int:
        """How many tokens of its text a row begins with; what is read is computed in any case."""
        if row.ids not in self._first_read:
            inputs = padded_inputs(self.model.network, [row.ids], [row.types])
            read = self.model.task.first_read(self.model, inputs)
            self._first_read[row.ids] = 0 if read is None else int(read[0])
        return min(row.begins, self._first_read[row.ids])

    def _sharing(self, waiting: Sequence[int]) -> tuple[list[int], list[tuple[Encoding, list[int]]]]:
        """Rows that are run complete; and, by text, those whose shared prefix is computed once, where that saves more
        than the text costs.
        """
        by_text: dict[tuple[int, ...], list[int]] = {}
        alike = self.model.network.facts.lengths.alike
        for place in waiting if self.model.network.facts.takes_cache else ():
            row = self._rows[place]
            if WORTH * row.begins >= len(row) and alike(len(row), len(row.text)):
                by_text.setdefault(row.text.input_ids, []).append(place)
        if not any(map(self._saves, by_text.values())) or not self.model.shares_prefixes:
            return list(waiting), []
        chosen = [places for places in by_text.values() if self._saves(places)]
        together = {place for places in chosen for place in places}
        return (
            [place for place in waiting if place not in together],
            [(self._rows[places[0]].text, places) for places in chosen],
        )

    def _saves(self, places: Sequence[int]) -> bool:
        rows = [self._rows[place] for place in places]
        cost = len(rows[0].text) + PASS_IN_TOKENS
        if sum(row.begins for row in rows) <= cost:  # the shared prefix is at most this long, known without a query
            return False
        return sum(map(self._shared, rows)) > cost

    def _batch_behind(self, places: Sequence[int]) -> Sequence[int]:
        """As many of these, sorted by how much of the text they share, as are worth one pass: all of them are computed
        from where the first one leaves the text.
        """
        if not self.model.network.facts.takes_batches:
            return places[:1]
        rows = [self._rows[place] for place in places]
        start, needed, longest = self._shared(rows[0]), 0, 0
        for size, row in enumerate(rows):
            needed, longest = needed + len(row) - self._shared(row), max(longest, len(row))
            wasted = (size + 1) * (longest - start) - needed
            if size and ((size + 1) * longest > self.room or wasted > PASS_IN_TOKENS):
                return places[:size]
        return places

    def _batch(self, places: Sequence[int]) -> Sequence[int]:
        """As many of these, sorted by length, as fit into one pass and do not need too much padding."""
        if not self.model.network.facts.takes_batches:
            return places[:1]
        size, length = 1, len(self._rows[places[0]])
        for place in places[1:]:
            longer = len(self._rows[place])
            if not self.model.network.facts.lengths.alike(length, longer):
                break
            if (size + 1) * longer > self.room or size * (longer - length) > PASS_IN_TOKENS:
                break
            size, length = size + 1, longer
        return places[:size]

    def _answered(self, places: Sequence[int], prefix: Prefix | None = None) -> Tensor:
        """The logits of a batch; of its first part, where it does not fit into memory whole."""
        while True:
            try:
                return self._logits([self._rows[place] for place in places], prefix)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if len(places) == 1:
                    raise not_enough_memory(len(self._rows[places[0]])) from error
            give_back_memory()
            places = places[: len(places) // 2]
            self.room = len(places) * len(self._rows[places[-1]])

    def _logits(self, rows: Sequence[InputRow], prefix: Prefix | None = None) -> Tensor:
        inputs, words = self._tensors(rows)
        shared = 0 if prefix is None else min(map(self._shared, rows))
        if prefix is None or not shared:
            return self.model.run(inputs, self.count, self._embedded(rows, words), check=False)
        return prefix.run(self.model, shared, inputs, self.count, self._embedded(rows, words))

    def _embedded(self, rows: Sequence[InputRow], words: Tensor) -> Tensor:
        """The word vectors of these rows, less the elements that a row does not keep. (row, token, size)"""
        vectors = self.model.network.embed(words)
        if not any(row.shares for row in rows):
            return vectors
        kept = torch.ones_like(vectors)
        for number, row in enumerate(rows):
            if row.shares:
                kept[number, : len(row)] = kept_elements(row, vectors.shape[-1]).to(vectors)
        return vectors * kept

    def _tensors(self, rows: Sequence[InputRow]) -> tuple[dict[str, Tensor], Tensor]:
        """The model's inputs for these rows, and the ids that are looked up."""
        inputs = padded_inputs(self.model.network, [row.ids for row in rows], [row.types for row in rows])
        return inputs, padded_inputs(self.model.network, [row.words for row in rows], [None])["input_ids"]

    def _forget(self, places: Sequence[int]) -> None:
        """After an error or an interruption nothing may look like an answer that is none."""
        first = min(places)
        del self.answers[first:], self._rows[first:]
        self._waiting = {place: None for place in self._waiting if place < first}
        self.unanswered = {place for place in self.unanswered if place < first}
        self._place = {key: place for key, place in self._place.items() if place < first}

    def probabilities(self, target: Target) -> Numbers:
        """Of the target, for every queried row. (distinct,)"""
        if target not in self._probabilities:
            # Texts with several masks have longer answers than those with one.
            alike = [list(rows) for _, rows in groupby(self.answers, key=lambda answer: answer.shape)]
            chunks = [rows[i : i + 512] for rows in alike for i in range(0, len(rows), 512)]
            parts = [target.probability(torch.stack(rows)) for rows in chunks]
            self._probabilities[target] = torch.cat(parts).cpu().numpy()
        return self._probabilities[target]
