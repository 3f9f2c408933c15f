"""An explanation's text as a reader sees it: pieces that have a score, and the text between them."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from wherefrom.core.explanation import Explanation
from wherefrom.core.labels import token_label

ZERO_WIDTH_JOINER = "\u200d"
_JOINING = frozenset((ZERO_WIDTH_JOINER, *map(chr, range(0x1F3FB, 0x1F400))))  # the others: colours of skin
_FLAGS = "".join(map(chr, range(0x1F1E6, 0x1F200)))  # letters of flags


class Piece(NamedTuple):
    """A token, word or sentence. Tokens that share a character as people see it (bytes of one emoji, a letter and its
    accent) are one piece, with the sum of their scores.
    """

    text: str  # its characters in the text; empty for special tokens
    tokens: tuple[str, ...]
    score: float
    layers: tuple[float, ...]
    start: int
    end: int
    segment: int
    error: float | None = None  # the standard error of the score, where it has one

    @property
    def special(self) -> bool:
        return self.segment < 0

    @property
    def label(self) -> str:
        """What to call it in a list, where spaces would not be seen."""
        return token_label(self.text, " ".join(self.tokens))


class TextRun(NamedTuple):
    """A stretch of a line. Without a piece it is plain text; `unread` is True for text that was truncated away."""

    text: str
    piece: Piece | None = None
    unread: bool = False


def pieces(explanation: Explanation, *, special: bool = False) -> list[Piece]:
    """The units to show, in the order of the text; special tokens only if `special`."""
    texts = {0: explanation.text, 1: explanation.pair or ""}
    result: list[Piece] = []
    for place, segment in enumerate(explanation.segment):
        if segment < 0 and not special:
            continue
        token, score, (start, end) = explanation.tokens[place], explanation.scores[place], explanation.offsets[place]
        layers = tuple(layer[place] for layer in explanation.layers or ())
        error = explanation.standard_errors[place] if explanation.standard_errors is not None else None
        before = result[-1] if result else None
        if before and before.segment == segment >= 0 and _share_a_character(texts[segment], before, start, end):
            start, end = min(start, before.start), max(end, before.end)
            layers = tuple(a + b for a, b in zip(before.layers, layers, strict=True))
            if error is not None and before.error is not None:
                error += before.error  # the most that the error of a sum can be
            text, tokens = texts[segment][start:end], (*before.tokens, token)
            result[-1] = Piece(text, tokens, before.score + score, layers, start, end, segment, error)
        else:
            text = "" if segment < 0 else texts[segment][start:end]
            result.append(Piece(text, (token,), score, layers, start, end, segment, error))
    return result


def _share_a_character(text: str, before: Piece, start: int, end: int) -> bool:
    """Whether a token has a character, as people see it, in common with the piece before it."""
    return (start < before.end and before.start < end) or _one_character(text, before.end, start)


def _one_character(text: str, end: int, start: int) -> bool:
    """Whether a reader sees one character where one token ends and the next begins: a letter and its accents, or emoji
    that are joined, coloured or made a flag by what follows.
    """
    if end != start or not 0 < start < len(text):
        return False
    before, after = text[start - 1], text[start]
    if unicodedata.category(after)[0] == "M" or after in _JOINING or before == ZERO_WIDTH_JOINER:
        return True
    run = start - len(text[:start].rstrip(_FLAGS))  # a flag is a pair of letters: an odd one waits for its second
    return after in _FLAGS and run % 2 == 1


class LineExtent(NamedTuple):
    """Which characters a line shows: of the text, of its pair, or of one turn of a chat."""

    segment: int
    start: int
    end: int
    role: str = ""  # who says it, in a chat


def line_extents(explanation: Explanation) -> list[LineExtent]:
    """A line for the text, and one for its pair; of a chat one for every turn, without the template around it."""
    if explanation.turns:
        return [LineExtent(0, start, end, role) for role, start, end in explanation.turns]
    texts = [explanation.text] if explanation.pair is None else [explanation.text, explanation.pair]
    return [LineExtent(segment, 0, len(text)) for segment, text in enumerate(texts)]


def lines(explanation: Explanation, shown: list[Piece]) -> list[list[TextRun]]:
    """Every line of `line_extents` in runs. Joined, the runs with text give the line back, every space of it."""
    texts, extents = (explanation.text, explanation.pair or ""), line_extents(explanation)
    runs: list[list[TextRun]] = [[] for _ in extents]
    reached = [extent.start for extent in extents]
    here = 0  # a special token is shown in the line of the token before it
    for piece in shown:
        if not piece.text:
            runs[here].append(TextRun("", piece))
            continue
        here = next((place for place, extent in enumerate(extents) if _is_in(piece, extent)), here)
        text, start, end = texts[extents[here].segment], max(piece.start, reached[here]), extents[here].end
        body = text[start : min(piece.end, end)]
        head = (
            len(body) - len(body.lstrip()) if body.strip() else 0
        )  # " film" is coloured from its f on, a single space as a whole
        tail = len(body.rstrip()) if body.strip() else len(body)
        runs[here] += [
            TextRun(text[reached[here] : start + head]),
            TextRun(body[head:tail], piece),
            TextRun(body[tail:]),
        ]
        reached[here] = max(min(piece.end, end), reached[here])
    for line, extent, start in zip(runs, extents, reached, strict=True):
        line.append(TextRun(texts[extent.segment][start : extent.end], unread=explanation.cut > 0))
    return [[run for run in line if run.text or run.piece] for line in runs]


def _is_in(piece: Piece, extent: LineExtent) -> bool:
    return piece.segment == extent.segment and piece.start < extent.end and extent.start < piece.end
