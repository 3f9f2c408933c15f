"""Small edits of a text that leave its meaning as it is: of case, punctuation, white space, and the order of a list.

Every edit says of each character where it stood before, so that what is said of a word can be compared with what is
said of the same word in the edited text. No word is replaced by another: whether two words mean the same is a question
of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from wherefrom.core.units import Span

ADDED = -1


class EditedText(NamedTuple):
    text: str
    origin: tuple[int, ...]  # of every character its place in the text before, ADDED where it had none


def _joined(text: str, parts: Sequence[Span | str]) -> EditedText:
    """A text made of spans of another one, and of characters that are added."""
    made, origin = "", list[int]()
    for part in parts:
        if isinstance(part, str):
            made, origin = made + part, origin + [ADDED] * len(part)
        else:
            made, origin = made + text[slice(*part)], origin + list(range(*part))
    return EditedText(made, tuple(origin))


def _by_character(text: str, change: Callable[[str], str]) -> EditedText:
    """Each character changed by itself; one that would become two, as the German sharp s in capitals, stays."""
    made = "".join(new if len(new := change(character)) == 1 else character for character in text)
    return EditedText(made, tuple(range(len(text))))


def lower_case(text: str) -> EditedText:
    """All letters small."""
    return _by_character(text, str.lower)


def first_letter(text: str) -> EditedText:
    """The first letter small where it is large, and the other way round."""
    place = next((number for number, character in enumerate(text) if character.isalpha()), len(text))
    changed = _by_character(text[place : place + 1], str.swapcase).text
    return EditedText(text[:place] + changed + text[place + 1 :], tuple(range(len(text))))


def full_stop(text: str) -> EditedText:
    """A full stop at the end taken away, or put there. Other marks stay: a question without its mark is another."""
    end = len(text.rstrip())
    if text[:end].endswith(".") and not text[:end].endswith(".."):
        return _joined(text, [(0, end - 1), (end, len(text))])
    if end and (text[end - 1].isalnum() or text[end - 1] in "\"')"):
        return _joined(text, [(0, end), ".", (end, len(text))])
    return _joined(text, [(0, len(text))])


def without_commas(text: str) -> EditedText:
    """No commas before white space, so that numbers keep theirs."""
    ends = [match.start() for match in re.finditer(r",(?=\s)", text)]
    starts = [0, *(end + 1 for end in ends)]
    return _joined(text, list(zip(starts, [*ends, len(text)], strict=True)))


def white_space(text: str) -> EditedText:
    """Every single blank between words twice."""
    places = [match.start() for match in re.finditer(r"(?<=\S) (?=\S)", text)]
    parts: list[Span | str] = []
    before = 0
    for place in places:
        parts += [(before, place), " "]
        before = place
    return _joined(text, [*parts, (before, len(text))])


_WORD = r"[^\W\d_]+(?:[-'][^\W\d_]+)*"
_LIST = re.compile(rf"(?<![\w'-]){_WORD}(?:, {_WORD})+,? (?:and|or) {_WORD}(?![\w'-])")
# Words that begin something else than an item: with one of these among the items it is no list of words.
_NO_ITEMS = """
    a an the this that these those it its he she they we you i his her their our your my there here not no so then but
    if as because while when where who which what how in on at of for to from by with without into over under is are
    was were be been being am has have had do does did will would can could may might should must and or also just
    very too even only however instead yes well though although yet
"""
NO_ITEMS = frozenset(_NO_ITEMS.split())


def list_order(text: str) -> EditedText:
    """The items of every list of three single words or more in the opposite order: "long, dull and sad" becomes "sad,
    dull and long".
    """
    parts: list[Span | str] = []
    before = 0
    for match in _LIST.finditer(text):
        words = [word.span() for word in re.finditer(_WORD, match.group())]
        items = [(match.start() + a, match.start() + b) for a, b in (*words[:-2], words[-1])]  # without "and"
        if any(text[slice(*item)].lower() in NO_ITEMS for item in items):
            continue
        for place, item in zip(items, reversed(items), strict=True):
            parts += [(before, place[0]), item]
            before = place[1]
    return _joined(text, [*parts, (before, len(text))])


EDITS: dict[str, Callable[[str], EditedText]] = {
    edit.__name__: edit for edit in (lower_case, first_letter, full_stop, without_commas, white_space, list_order)
}


class TextUnits(NamedTuple):
    """The units of one reading of a text: where they stand, and in which of the texts (-1 for special tokens)."""

    offsets: Sequence[Span]
    segment: Sequence[int]


def same_units(before: TextUnits, after: TextUnits, edits: Sequence[EditedText]) -> list[int | None]:
    """Of every unit of the text its place among the units of the edited text; None where it is not there as a whole.

    A unit is the same where it has the same characters, but for those that were taken away or added and for white
    space.

    edits: of the text and, where there is one, of its pair.
    """
    there = [{place for place in edit.origin if place != ADDED} for edit in edits]

    def old(span: Span, part: int) -> frozenset[int]:
        return frozenset(range(*span)) & there[part]

    def new(span: Span, part: int) -> frozenset[int]:
        made, origin = edits[part]
        return frozenset(
            origin[place] for place in range(*span) if origin[place] != ADDED and not made[place].isspace()
        )

    places: dict[tuple[int, frozenset[int]], list[int]] = {}
    for number, (span, part) in enumerate(zip(*after, strict=True)):
        if part >= 0:
            places.setdefault((part, new(span, part)), []).append(number)
    blanks = [
        {origin for character, origin in zip(*edit, strict=True) if origin != ADDED and character.isspace()}
        for edit in edits
    ]
    numbers: list[int | None] = []
    for span, part in zip(*before, strict=True):
        key = frozenset() if part < 0 else old(span, part) - blanks[part]
        same = places.get((part, key), []) if key else []
        numbers.append(same[0] if len(same) == 1 else None)  # two that share their characters cannot be told apart
    return numbers
