"""Words and sentences of a text, by character, and how the scores of tokens pool into them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

Level = Literal["token", "word", "sentence"]
Pool = Literal["sum", "mean", "max"]
Span = tuple[int, int]

# A word's score is what its tokens add up to; a sentence's is their mean, so that a long sentence does not win by
# length.
POOL: dict[Level, Pool] = {"token": "sum", "word": "sum", "sentence": "mean"}

_IDEOGRAPH = (
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # scripts written without spaces: a character is a word
)
_INSIDE = re.compile(rf"[{_IDEOGRAPH}]|[—–…/]+|\.{{2,}}|(?:(?![—–…/{_IDEOGRAPH}]|\.\.).)+", re.DOTALL)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def words(text: str) -> list[Span]:
    """Spans of the words: what stands between spaces, with the punctuation around it apart (but not inside: "don't",
    "3.5").
    """
    spans: list[Span] = []
    for chunk in re.finditer(r"\S+", text):
        start, end = chunk.span()
        head, tail = start, end
        while head < end and _is_mark(text[head]):
            head += 1
        while tail > head and _is_mark(text[tail - 1]):
            tail -= 1
        if head > start:
            spans.append((start, head))
        spans += [(head + part.start(), head + part.end()) for part in _INSIDE.finditer(text[head:tail])]
        if end > tail and tail > start:
            spans.append((max(tail, head), end))
    return spans


_NEVER_LAST = {
    "mr",
    "mrs",
    "ms",
    "dr",
    "prof",
    "st",
    "vs",
    "cf",
    "e.g",
    "i.e",
    "eg",
    "ie",
    "viz",
    "al",
    "approx",
    "dept",
    "est",
}
_NEVER_LAST |= {"gen", "sen", "rep", "gov", "lt", "col", "sgt", "capt", "rev", "hon"}
_BEFORE_NUMBER = {"no", "nos", "fig", "figs", "eq", "eqs", "vol", "p", "pp", "sec", "ch", "art"}
_STOP = re.compile(r"""(?P<mark>[.!?…]+|[。！？])(?P<close>["'”’)\]»]*)(?=\s|$|[^\x00-\x7f])|\n\s*\n""")


def sentences(text: str) -> list[Span]:
    """Spans of the sentences. A full stop ends one unless it belongs to an abbreviation, an initial or a number."""
    all_small = not any(character.isupper() for character in text)
    spans: list[Span] = []
    start = 0
    for stop in _STOP.finditer(text):
        if stop["mark"] and not _ends_sentence(text, stop, all_small):
            continue
        if text[start : stop.end()].strip():
            spans.append(_trimmed(text, start, stop.end()))
            start = stop.end()
    if text[start:].strip():
        spans.append(_trimmed(text, start, len(text)))
    return spans


def _trimmed(text: str, start: int, end: int) -> Span:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), end - (len(part) - len(part.rstrip()))


def _ends_sentence(text: str, stop: re.Match[str], all_small: bool) -> bool:
    following = text[stop.end() :].lstrip()
    if not following or stop["mark"] in "。！？":
        return True
    if (
        text[stop.end()] not in " \t\r\n\f\v\u00a0"
    ):  # "3.5" or "e.g.x" never get here; a dash or letter beyond ASCII may
        return False
    if stop["mark"] == ".":
        before = text[: stop.start()].split()
        last = before[-1].lstrip("([\"'“‘") if before and not text[stop.start() - 1].isspace() else ""
        if last.lower() in _NEVER_LAST or re.fullmatch(r"(?:[A-Za-z]\.)*[A-Z]", last):
            return False
        if last.lower() in _BEFORE_NUMBER and following[0].isdigit():
            return False
        standing_alone = text[stop.start() - 1 : stop.start()].isspace()  # tokenised text: "a fine film . it works ."
        return all_small or standing_alone or not following[0].islower()
    return all_small or not following[0].islower() or stop["mark"][-1] in "!?"


def unit_of(offsets: Sequence[Span], spans: Sequence[Span], text: str) -> list[int]:
    """For each token the number of the span that holds its first visible character, or -1."""
    owner: dict[int, int] = {place: number for number, (start, end) in enumerate(spans) for place in range(start, end)}
    found = []
    for start, end in offsets:
        visible = next((place for place in range(start, end) if not text[place].isspace()), start)
        found.append(owner.get(visible, -1))
    return found


def pool(scores: Sequence[float], members: Sequence[Sequence[int]], how: Pool) -> list[float]:
    """One score for each group of token positions."""
    reduce = {"sum": sum, "mean": lambda part: sum(part) / len(part), "max": lambda part: max(part, key=abs)}[how]
    return [float(reduce([scores[i] for i in group])) for group in members]
