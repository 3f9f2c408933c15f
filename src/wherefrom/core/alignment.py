"""Where the tokens of another tool are in a text: found by their characters, whatever the tokenizer wrote for a blank,
the rest of a word or a byte.

Blanks, accents, case and invisible characters are not compared, because tokenizers change them. A token that is not
next in the text is an error that names it, unless it looks like one that a tokenizer adds, such as [CLS].
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from wherefrom.core.units import Span
from wherefrom.errors import BadOption

UNKNOWN = {"[UNK]", "<unk>", "<UNK>"}
_ADDED = re.compile(r"\[[A-Z]+\d*\]|</?[A-Za-z_]\w{0,40}>|<\|[^|]{1,80}\|>|<｜[^｜]{1,80}｜>|")
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_BLANKS = str.maketrans({"\u2581": " ", "\u0120": " ", "\u010a": "\n", "\u0109": "\t"})  # SentencePiece, GPT-2


class Aligned(NamedTuple):
    """The characters of a token; segment is 0 in the text, 1 in its pair, -1 for a token that a tokenizer added."""

    span: Span
    segment: int


def align(texts: Sequence[str], tokens: Sequence[str], *, gaps: bool = False) -> list[Aligned]:
    """The place of every token, in order. texts: a text, or a text and its pair. gaps: whether words of the text may be
    missing among them; each token is then the next one that is written so.

    Raises:
        BadOption: where a token is not the next one in the text.
    """
    of_bytes = any("\u0120" in token or "\u010a" in token for token in tokens) and "\u0120" not in "".join(texts)
    kinds: list[type[_Cursor]] = [_ByteCursor, _Cursor] if of_bytes else [_Cursor, _ByteCursor]
    problem: BadOption | None = None
    for kind in kinds:
        try:
            return _aligned([kind(text, gaps) for text in texts], tokens)
        except BadOption as error:
            problem = problem or error
    assert problem is not None
    raise problem


def _aligned(cursors: Sequence[_Cursor], tokens: Sequence[str]) -> list[Aligned]:
    placed: list[Aligned] = []
    segment = 0
    for number, token in enumerate(tokens):
        for part in range(segment, len(cursors)):
            if (span := cursors[part].take(token)) is not None:
                segment = part
                placed.append(Aligned(span, part))
                break
        else:
            if token in UNKNOWN:
                placed.append(Aligned(cursors[segment].skip_to(_next_known(tokens, number)), segment))
            elif _ADDED.fullmatch(token.strip()):
                placed.append(Aligned((0, 0), -1))
            else:
                raise BadOption(_not_next(number, token, cursors[segment]))
    return placed


def _next_known(tokens: Sequence[str], number: int) -> str | None:
    """The next token with characters of the text; None where there is none."""
    return next((token for token in tokens[number + 1 :] if not _ADDED.fullmatch(token.strip())), None)


def _not_next(number: int, token: str, cursor: _Cursor) -> str:
    rest = cursor.text[cursor.place :].strip()[:30]
    where = f"the text continues with {rest!r}" if rest else "the text has ended"
    return (
        f"Token number {number} ({token!r}, counted from 0) is not next in the text: {where}. Give the text that the"
        " tokens come from, or offsets=[(start, end), ...] in characters of it."
    )


@dataclass
class _Cursor:
    """How far a text has been read, token by token."""

    text: str
    gaps: bool = False
    place: int = 0
    pending: bytes = b""  # the rest of a character whose first bytes were taken
    reached: Span = field(default=(0, 0))

    def take(self, token: str) -> Span | None:
        """The characters of the next token; None where it is not next. Punctuation without a token is passed over."""
        byte = _BYTE.fullmatch(token)
        if byte and not self.text.startswith(token, self.place):
            return self._take_byte(bytes.fromhex(byte[1]))
        wanted = [_visible(form) for form in dict.fromkeys((token, *_written(token)))]
        if not any(wanted):
            return None if _ADDED.fullmatch(token) else self._take_blank(token)
        for form in filter(None, wanted):
            for start in self._starts():
                if (end := self._match(start, form)) is not None:
                    self.place = end
                    return start, end
        return None

    def _starts(self) -> list[int]:
        """Where the next token may start: at the next visible character, or after the punctuation there; or where there
        may be gaps, at any later word.
        """
        starts, place = list[int](), self.place
        while place < len(self.text):
            within = place > self.place and self.text[place - 1].isalnum() and self.text[place].isalnum()
            if _visible(self.text[place]) and not (self.gaps and within):
                starts.append(place)
                if self.text[place].isalnum() and not self.gaps:
                    break
            place += 1
        return starts

    def _match(self, start: int, form: str) -> int | None:
        """The end of these visible characters, if the text continues with them here."""
        place, left, end = start, form, start
        while place < len(self.text) and left:
            shown = _visible(self.text[place])
            if not left.startswith(shown):
                return None
            left, place = left[len(shown) :], place + 1
            end = place if shown else end
        while not left and place < len(self.text) and unicodedata.category(self.text[place])[0] == "M":
            place = end = place + 1  # accents and marks go with the letter before them
        return None if left else end

    def _take_blank(self, token: str) -> Span:
        blanks = len(self.text[self.place :]) - len(self.text[self.place :].lstrip())
        start, self.place = self.place, self.place + min(blanks, len(token))
        return start, self.place

    def _take_byte(self, byte: bytes) -> Span | None:
        """One byte of a character that the tokenizer does not know as a whole."""
        if not self.pending:
            starts = self._starts()
            if not starts:
                return None
            self.pending = self.text[starts[0]].encode()
            self.reached = (starts[0], starts[0] + 1)
        if not self.pending.startswith(byte):
            return None
        self.pending = self.pending[1:]
        self.place = self.reached[0] if self.pending else self.reached[1]
        return self.reached

    def skip_to(self, token: str | None) -> Span:
        """The characters of an unknown token: all up to the next known one, but at least one."""
        starts = self._starts()
        if not starts:
            return self.place, self.place
        start = end = starts[0]
        forms = [_visible(form) for form in ((token, *_written(token)) if token else ())]
        for end in range(start + 1, len(self.text) + 1):
            if any(form and self._match(end, form) is not None for form in forms):
                break
        end = start + len(self.text[start:end].rstrip())
        self.place = end
        return start, end


class _ByteCursor(_Cursor):
    """The same for byte-level tokens, which are compared byte by byte; a token may begin or end within a character."""

    def take(self, token: str) -> Span | None:
        alphabet = _byte_of()
        if not token or not all(character in alphabet for character in token):
            return None
        wanted = bytes(alphabet[character] for character in token)
        content, owner = self._content()
        start = self._byte
        while start < len(content) and content[start : start + 1].isspace() and not wanted[:1].isspace():
            start += 1
        if content[start : start + len(wanted)] != wanted:
            wanted = wanted.lstrip()  # a blank that a tokenizer writes before the first word
            if not wanted or content[start : start + len(wanted)] != wanted:
                return None
        first, self._byte = start, start + len(wanted)
        blanks = len(wanted) - len(wanted.lstrip())
        self.place = owner[self._byte] if self._byte < len(owner) else len(self.text)
        begin = owner[first + blanks] if blanks < len(wanted) else owner[first]
        return begin, owner[self._byte - 1] + 1

    _byte = 0

    def _content(self) -> tuple[bytes, list[int]]:
        """The text in bytes, and the character that each is of."""
        if not hasattr(self, "_bytes"):
            self._bytes = self.text.encode()
            self._owner = [place for place, character in enumerate(self.text) for _ in character.encode()]
        return self._bytes, self._owner

    def skip_to(self, token: str | None) -> Span:
        span = super().skip_to(token)
        self._byte = len(self.text[: self.place].encode())
        return span


def _written(token: str) -> list[str]:
    """What a token may stand for: without the signs by which tokenizers mark blanks and the rest of a word."""
    plain = token.translate(_BLANKS)
    forms = [plain]
    for test, cut in _MARKS:
        if test(plain):
            forms.append(cut(plain))
    return forms


_MARKS: tuple[tuple[Callable[[str], bool], Callable[[str], str]], ...] = (
    (lambda token: token.startswith("##") and len(token) > 2, lambda token: token[2:]),
    (lambda token: token.endswith("</w>"), lambda token: token[:-4]),
    (lambda token: token.endswith("@@") and len(token) > 2, lambda token: token[:-2]),
)


@cache
def _visible_character(character: str) -> str:
    if character.isspace() or unicodedata.category(character) in ("Mn", "Cf", "Cc"):
        return ""
    folded = unicodedata.normalize("NFKD", character.casefold())
    return "".join(part for part in folded if unicodedata.category(part) != "Mn" and not part.isspace())


def _visible(text: str) -> str:
    """What is compared: lower case, without accents, blanks and what cannot be seen."""
    return "".join(map(_visible_character, text))


@cache
def _byte_of() -> dict[str, int]:
    """The byte that each character of a byte-level token stands for: printable ones for themselves, the others for
    those from 256 on.
    """
    themselves = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in themselves]
    return {chr(byte): byte for byte in themselves} | {chr(256 + n): byte for n, byte in enumerate(others)}
