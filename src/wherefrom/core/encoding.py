"""A text as the model reads it: tokens, the position of each in the text, and which word and sentence it belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any

from wherefrom.core.units import Level, Span, Turn, sentences, turn_of, unit_of, words
from wherefrom.errors import BadOption

TextOrPair = str | tuple[str, str]  # one text, or a text and its pair
ModelInput = TextOrPair | Sequence[Mapping[str, Any]]  # or the messages of a chat
ChosenSpan = tuple[int, int] | tuple[int, int, int]  # start and end characters; 1 after them for the pair


HALVES = re.compile("[\ud800-\udfff]")


def has_surrogate(text: str) -> bool:
    """Whether a text has half of a character in it."""
    return not text.isascii() and HALVES.search(text) is not None


def check_decoded(text: str) -> None:
    """Raise where a text has half of a character, which no tokenizer reads."""
    if has_surrogate(text):
        raise BadOption("The text has half of a character in it (a lone surrogate): it was not decoded rightly.")


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
    spans: tuple[tuple[int, int, int], ...] = ()  # units that the caller chose: start, end and segment, in order
    turns: tuple[Turn, ...] = ()  # of a chat: who says which characters

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

    @cached_property
    def turn_of(self) -> tuple[int, ...]:
        """Number of the turn of each token of a chat; -1 for special tokens."""
        return tuple(turn_of(self.offsets, self.segment, self.turns))

    def _numbered(self, level: Level) -> tuple[int, ...]:
        """Number of the word or sentence of each token, counted on through the pair; -1 for special tokens."""
        split = words if level == "word" else sentences
        numbers, first = [-1] * len(self), 0
        for turn, (_, start, end) in enumerate(self.turns):  # nothing reaches from one turn into another
            text = self.text[start:end]
            places, spans = [place for place, number in enumerate(self.turn_of) if number == turn], split(text)
            inside = [(max(a, start) - start, min(b, end) - start) for a, b in (self.offsets[i] for i in places)]
            reached = 0
            for place, number in zip(places, unit_of(inside, spans, text), strict=True):
                reached = number if number >= 0 else reached
                numbers[place] = first + reached
            first += len(spans)
        if self.turns:
            return tuple(numbers)
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
        if level == "span":
            return self._span_members()
        return grouped({"word": self.word_of, "sentence": self.sentence_of, "turn": self.turn_of}[level])

    def part(self, places: Sequence[int]) -> Encoding:
        """The tokens at these places alone; the text stays as it is."""

        def picked(values: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(values[place] for place in places)

        return replace(
            self,
            tokens=picked(self.tokens),
            input_ids=picked(self.input_ids),
            token_type_ids=None if self.token_type_ids is None else picked(self.token_type_ids),
            offsets=picked(self.offsets),
            segment=picked(self.segment),
        )

    def tokens_at(self, spans: Iterable[tuple[int, int, int]]) -> list[int]:
        """The positions of the tokens that share characters with these spans: (start, end, segment)."""
        chosen = list(spans)
        return [
            token
            for token, (part, (start, end)) in enumerate(zip(self.segment, self.offsets, strict=True))
            if any(part == segment and start < last and first < end for first, last, segment in chosen)
        ]

    def with_spans(self, chosen: Iterable[ChosenSpan]) -> Encoding:
        """The same with units that the caller chose; what they must be is said by the errors."""
        if not isinstance(chosen, Iterable):
            raise BadOption(f"Units are given as a list of (start, end) in characters of the text, not as {chosen!r}.")
        spans = sorted((chosen_span(span) for span in chosen), key=lambda span: (span[2], span[0]))
        for start, end, segment in spans:
            text = (self.text, self.pair)[segment]
            if text is None:
                raise BadOption(f"The unit {(start, end, segment)} is of a second text, and there is none.")
            if not 0 <= start < end <= len(text):
                raise BadOption(f"The unit {start}:{end} lies outside of a text of {len(text)} characters.")
        for first, second in pairwise(spans):
            if first[2] == second[2] and second[0] < first[1]:
                raise BadOption(f"The units {first[0]}:{first[1]} and {second[0]}:{second[1]} share characters.")
        encoding = replace(self, spans=tuple(spans))
        covered = set(encoding._span_of_tokens())
        for number, (start, end, segment) in enumerate(spans):
            if number not in covered:
                written = (self.text, self.pair or "")[segment][start:end]
                raise BadOption(f"No token that the model read begins within the unit {start}:{end} ({written!r}).")
        return encoding

    def _span_of_tokens(self) -> list[int]:
        """The number of each token's chosen span; -1 for those in none."""
        spans = [-1] * len(self)
        for segment, text in enumerate((self.text, self.pair or "")):
            numbers = [number for number, span in enumerate(self.spans) if span[2] == segment]
            places = [i for i, part in enumerate(self.segment) if part == segment]
            inside = unit_of([self.offsets[i] for i in places], [self.spans[number][:2] for number in numbers], text)
            for place, number in zip(places, inside, strict=True):
                spans[place] = numbers[number] if number >= 0 else -1
        return spans

    def _span_members(self) -> tuple[tuple[int, ...], ...]:
        """Chosen spans are units; so is every word, or rest of a word, that lies in none of them."""
        keys = [
            ("special", place) if self.segment[place] < 0 else ("span", number) if number >= 0 else ("word", word)
            for place, (number, word) in enumerate(zip(self._span_of_tokens(), self.word_of, strict=True))
        ]
        return tuple(tuple(group) for _, group in groupby(range(len(self)), key=keys.__getitem__))


def check_turns(turns: Sequence[Turn]) -> None:
    """Raise where there are no turns, so that nothing can be scored by turn."""
    if not turns:
        raise BadOption(
            "The level turn is for the messages of a chat, and this is a text: take token, word or sentence."
        )


def grouped(numbers: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The places of each number, in order of appearance; every place of a negative number is a group of its own."""
    groups: dict[int, list[int]] = {}
    for place, number in enumerate(numbers):
        groups.setdefault(number if number >= 0 else -1 - place, []).append(place)
    return tuple(tuple(group) for group in groups.values())


def chosen_span(value: Any) -> tuple[int, int, int]:
    """The start, the end and the segment of a span of characters that the caller chose."""
    try:
        start, end, segment = (int(part) for part in (*value, 0)[:3])
    except (TypeError, ValueError, OverflowError) as error:
        raise BadOption(
            f"A unit is (start, end) in characters of the text, or (start, end, 1) of its pair, not {value!r}."
        ) from error
    if segment not in (0, 1) or len(value) > 3:
        raise BadOption(f"A unit of the text is (start, end), of its pair (start, end, 1), not {value!r}.")
    return start, end, segment
