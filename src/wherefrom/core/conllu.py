"""CoNLL-U, the format of Universal Dependencies: sentences with one word a line, in ten columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from wherefrom.core.files import FilePath, reading
from wherefrom.core.units import Span
from wherefrom.errors import BadFile

COLUMN_COUNT = 10
_WORD = re.compile(r"\d+")
_RANGE = re.compile(r"(\d+)-(\d+)")  # a token of several words: 3-4 don't, then 3 do and 4 n't
_EMPTY_NODE = re.compile(r"\d+\.\d+")  # a word that is understood but not written


class ConlluWord(NamedTuple):
    """A syntactic word: its position in its sentence, the number of its governor (-1 for the root), the relation."""

    start: int
    end: int
    head: int
    relation: str


@dataclass(frozen=True)
class ConlluSentence:
    """The lines of one sentence."""

    where: str  # the file and the line of its first word, for messages
    comments: Mapping[str, str]
    rows: Sequence[Sequence[str]]  # the ten columns of every line

    @property
    def text(self) -> str:
        """The text as its comment gives it, or as its tokens and the spaces between them do."""
        written = [form + ("" if "SpaceAfter=No" in row[9] else " ") for form, row in self._tokens()]
        return self.comments.get("text") or "".join(written).strip()

    def words(self) -> list[ConlluWord]:
        """The syntactic words. Those of a token of several words all have the span of the token."""
        text, reached = self.text, 0
        spans: dict[str, Span] = {}
        for form, row in self._tokens():
            start = text.find(form, reached)
            if start < 0:
                raise BadFile(f"{self.where}: {form!r} is not in the sentence's text {text!r}.")
            reached = start + len(form)
            several = _RANGE.fullmatch(row[0])
            numbers = range(int(several[1]), int(several[2]) + 1) if several else [int(row[0])]
            spans |= {str(number): (start, reached) for number in numbers}
        written = [row for row in self.rows if row[0] in spans]
        place = {row[0]: number for number, row in enumerate(written)}
        return [ConlluWord(*spans[row[0]], place.get(row[6], -1), row[7]) for row in written]

    def _tokens(self) -> Iterator[tuple[str, Sequence[str]]]:
        """What is written, each with its line: words within a token of several words are written with the token."""
        covered = 0
        for row in self.rows:
            several = _RANGE.fullmatch(row[0])
            if several:
                covered = int(several[2])
                yield row[1], row
            elif _WORD.fullmatch(row[0]) and int(row[0]) > covered:
                yield row[1], row


def read_conllu(path: FilePath) -> Iterator[ConlluSentence]:
    """Every sentence of a file."""
    comments: dict[str, str] = {}
    rows: list[list[str]] = []
    first = 1
    with reading(path), Path(path).open(encoding="utf-8-sig") as lines:
        for number, ended in enumerate([*lines, "\n"], 1):
            line = ended.rstrip("\n")
            if line.startswith("#"):
                key, _, value = line[1:].partition("=")
                comments[key.strip()] = value.strip()
            elif line.strip():
                first = first if rows else number
                rows.append(_columns(line, f"{path}, line {number}"))
            elif rows:
                yield ConlluSentence(f"{path}, line {first}", comments, rows)
                comments, rows = {}, []


def _columns(line: str, where: str) -> list[str]:
    columns = line.split("\t")
    if len(columns) != COLUMN_COUNT:
        raise BadFile(f"{where}: {len(columns)} columns between tabs; CoNLL-U has ten.")
    if not any(pattern.fullmatch(columns[0]) for pattern in (_WORD, _RANGE, _EMPTY_NODE)):
        raise BadFile(f"{where}: a word is numbered {columns[0]!r}.")
    return columns
