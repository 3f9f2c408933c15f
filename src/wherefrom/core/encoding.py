"""A text as the model reads it: tokens, where each stands in the text, and which word and sentence it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from wherefrom.core.units import Level, Span, sentences, unit_of, words

TextOrPair = str | tuple[str, str]  # one text, or a text and its pair


@dataclass(frozen=True)
class Encoding:
    """Plain numbers, one entry a token. `segment` is 0 for the text, 1 for its pair, -1 for special tokens."""

    text: str
    pair: str | None
    tokens: tuple[str, ...]
    input_ids: tuple[int, ...]
    token_type_ids: tuple[int, ...] | None
    offsets: tuple[Span, ...]
    segment: tuple[int, ...]
    cut: int = 0  # tokens that did not fit into the model

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def special(self) -> tuple[bool, ...]:
        """True where the tokenizer put the token: it is never hidden, ranked or removed."""
        return tuple(part < 0 for part in self.segment)

    @cached_property
    def word_of(self) -> tuple[int, ...]:
        return self._numbered("word")

    @cached_property
    def sentence_of(self) -> tuple[int, ...]:
        return self._numbered("sentence")

    def _numbered(self, level: Level) -> tuple[int, ...]:
        """Number of the word or sentence of each token, counted on through the pair; -1 for special tokens."""
        split = words if level == "word" else sentences
        numbers, first = [-1] * len(self), 0
        for segment, text in enumerate((self.text, self.pair or "")):
            places = [i for i, part in enumerate(self.segment) if part == segment]
            spans = split(text)
            for place, number in zip(places, unit_of([self.offsets[i] for i in places], spans, text), strict=True):
                numbers[place] = first + number if number >= 0 else -1
            first += len(spans)
        for place, number in enumerate(
            numbers
        ):  # a token that shows nothing (a control character) goes with its neighbour
            if number < 0 <= self.segment[place]:
                numbers[place] = max(0, max(numbers[:place], default=0))
        return tuple(numbers)

    def members(self, level: Level) -> tuple[tuple[int, ...], ...]:
        """The token positions of each unit, in order of appearance; a special token is a unit of its own."""
        if level == "token":
            return tuple((i,) for i in range(len(self)))
        groups: dict[int, list[int]] = {}
        for place, number in enumerate(self.word_of if level == "word" else self.sentence_of):
            groups.setdefault(number if number >= 0 else -1 - place, []).append(place)
        return tuple(tuple(group) for group in groups.values())
