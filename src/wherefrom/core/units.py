"""Words and sentences of a text, by character, and how the scores of tokens pool into them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from wherefrom.errors import UnknownName

Level = Literal["token", "word", "sentence", "turn", "span"]  # turns: of a chat; spans: those that the caller chose
Pool = Literal["sum", "mean", "max"]
Span = tuple[int, int]
Turn = tuple[str, int, int]  # a role, and the characters of its message
LEVELS: tuple[Level, ...] = ("token", "word", "sentence", "turn")  # that a caller can name

_IDEOGRAPH = (
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # scripts written without spaces: a character is a word
)
_EMOJI = "\ue000"  # stands for a whole emoji, of however many code points, where words are told apart
_INSIDE = re.compile(rf"[{_IDEOGRAPH}]|{_EMOJI}+|[—–…/]+|\.{{2,}}|(?:(?![—–…/{_EMOJI}{_IDEOGRAPH}]|\.\.).)+", re.DOTALL)
_AROUND = re.compile(rf"{_EMOJI}+|[^{_EMOJI}]+")
# A tag as a whole, one that was cut off ("<br" at the end of a text), or a character by its name or number that is not
# inside of a word ("don&#39;t").
_CHARACTER = r"&(?:#\d+|#x[0-9A-Fa-f]+|[A-Za-z]+);"
_MARKUP = re.compile(
    rf"</?[A-Za-z][^<>]{{0,200}}>|<!--.{{0,200}}?-->|</?[A-Za-z]+|(?<!\w){_CHARACTER}|{_CHARACTER}(?!\w)", re.DOTALL
)
_JOINER, _KEYCAP, _PICTURE = "\u200d", "\u20e3", "\ufe0f"  # the last: "shown as a picture"


def _is_mark(character: str) -> bool:
    """Punctuation and symbols; also what joins emoji to one, or says how they look."""
    return unicodedata.category(character)[0] in "PS" or character in "\u200d\ufe0e\ufe0f"


def _continues(character: str) -> bool:
    """Whether a character belongs to the one before it: an accent, a vowel sign, a skin tone, a part of a flag's
    name.
    """
    return (
        unicodedata.category(character)[0] == "M"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
    )


def _clusters(text: str) -> list[Span]:
    """What a reader takes for one character: a letter with its accents, an emoji with its parts, a flag."""
    spans: list[Span] = []
    place = 0
    while place < len(text):
        end = place + 1
        if _is_flag_letter(text[place]) and end < len(text) and _is_flag_letter(text[end]):
            end += 1
        while end < len(text):
            if text[end] == _JOINER and end + 1 < len(text) and not text[end + 1].isspace():
                end += 2
            elif _continues(text[end]) or text[end] == _JOINER:
                end += 1
            else:
                break
        spans.append((place, end))
        place = end
    return spans


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _seen_as(cluster: str) -> str:
    """One character for a whole cluster, by which words are separated."""
    symbol = cluster[0] >= "\u2190" and unicodedata.category(cluster[0]) == "So"  # below are signs such as the degree
    emoji = symbol or _KEYCAP in cluster or _PICTURE in cluster
    return _EMOJI if emoji or _is_flag_letter(cluster[0]) else cluster[0]


def words(text: str) -> list[Span]:
    """Spans of the words: what stands between spaces, with the punctuation around it apart (but not inside: "don't",
    "3.5"). Markup stands apart ("great.<br />" is three: great, the full stop and the tag); accents stay with their
    letter, and the parts of an emoji together.
    """
    spans: list[Span] = []
    reached = 0
    for tag in _MARKUP.finditer(text):
        spans += _plain_words(text, reached, tag.start())
        spans.append(tag.span())
        reached = tag.end()
    return spans + _plain_words(text, reached, len(text))


def _plain_words(text: str, first: int, last: int) -> list[Span]:
    return [span for chunk in re.compile(r"\S+").finditer(text, first, last) for span in _words_of(text, *chunk.span())]


def _words_of(text: str, start: int, end: int) -> list[Span]:
    """The words of a chunk between two spaces."""
    chunk = text[start:end]
    clusters = [(place, place + 1) for place in range(len(chunk))] if chunk.isascii() else _clusters(chunk)
    seen = chunk if chunk.isascii() else "".join(_seen_as(chunk[first:two]) for first, two in clusters)
    head, tail = 0, len(seen)
    while head < tail and (_is_mark(seen[head]) or seen[head] == _EMOJI):
        head += 1
    while tail > head and (_is_mark(seen[tail - 1]) or seen[tail - 1] == _EMOJI):
        tail -= 1
    parts = [part.span() for part in _AROUND.finditer(seen, 0, head)]
    parts += [part.span() for part in _INSIDE.finditer(seen, head, tail)]
    parts += [part.span() for part in _AROUND.finditer(seen, tail, len(seen))]
    return [(start + clusters[first][0], start + clusters[two - 1][1]) for first, two in parts]


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
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
_STOP = re.compile(r"""(?P<mark>[.!?…]+|[。！？])(?P<close>["'”’)\]»]*)(?=\s|$|[^\x00-\x7f])|\n\s*\n""")


def sentences(text: str) -> list[Span]:
    """Spans of the sentences. A full stop ends one unless it belongs to an abbreviation, an initial or a number. Tags
    are read as spaces, and go with the sentence before them.
    """
    blank = _TAG.sub(lambda tag: " " * len(tag[0]), text)
    if blank == text:
        return _plain_sentences(text)
    starts = [start for start, _ in _plain_sentences(blank)] or [0]
    edges = [0, *starts[1:], len(text)]
    return [_trimmed(text, first, two) for first, two in pairwise(edges) if text[first:two].strip()]


def _plain_sentences(text: str) -> list[Span]:
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


def turn_of(offsets: Sequence[Span], segment: Sequence[int], turns: Sequence[Turn]) -> list[int]:
    """For each token the number of the first turn that it shares a character with; -1 for special tokens."""
    return [
        next((number for number, (_, a, b) in enumerate(turns) if a < end and start < b), -1) if part >= 0 else -1
        for (start, end), part in zip(offsets, segment, strict=True)
    ]


def unit_of(offsets: Sequence[Span], spans: Sequence[Span], text: str) -> list[int]:
    """For each token the number of the span that contains its first visible character, or -1."""
    owner: dict[int, int] = {place: number for number, (start, end) in enumerate(spans) for place in range(start, end)}
    numbers = []
    for start, end in offsets:
        visible = next((place for place in range(start, end) if not text[place].isspace()), start)
        numbers.append(owner.get(visible, -1))
    return numbers


def pool(scores: Sequence[float], members: Sequence[Sequence[int]], how: Pool) -> list[float]:
    """One score for each group of token positions."""
    ways = {"sum": sum, "mean": lambda part: sum(part) / len(part), "max": lambda part: max(part, key=abs)}
    if how not in ways:
        raise UnknownName.among("pooling", str(how), ways)
    reduce = ways[how]
    return [float(reduce([scores[i] for i in group])) for group in members]
