"""Data sets in the form their authors published them: ERASER, HateXplain, e-SNLI, SQuAD, CoNLL-U."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from wherefrom.benchmark.formats import read_csv
from wherefrom.core import conllu
from wherefrom.core.files import read_json, read_json_lines, reading
from wherefrom.core.units import Span
from wherefrom.errors import BadFile
from wherefrom.registry import Record


def required(row: Any, field: str, where: str) -> Any:
    if not isinstance(row, Mapping):
        raise BadFile(f"{where}: there should be an object with the field {field}, not {str(row)[:40]!r}.")
    if row.get(field) is None:
        raise BadFile(f"{where}: the field {field} is missing.")
    return row[field]


def read_eraser(path: Path, split: str | None) -> Iterator[Record]:
    """ERASER: a folder with docs and a file of annotations for each split. The document is the text; where there are
    two, a pair.
    """
    yield from _eraser(path, split, with_query=False)


def read_eraser_query(path: Path, split: str | None) -> Iterator[Record]:
    """ERASER where every example has its own question: (query, document)."""
    yield from _eraser(path, split, with_query=True)


def _eraser(path: Path, split: str | None, *, with_query: bool) -> Iterator[Record]:
    file = path / f"{split or 'val'}.jsonl" if path.is_dir() else path
    documents = _documents(file.parent)
    for where, row in read_json_lines(file):
        evidence = [item for group in required(row, "evidences", where) for item in group]
        names = (
            row.get("docids")
            or list(dict.fromkeys(item["docid"] for item in evidence))
            or [required(row, "annotation_id", where)]
        )
        if len(names) > 2:
            raise BadFile(f"{where}: {len(names)} documents ({', '.join(map(str, names))}); one or two can be read.")
        texts = [documents(str(name), where) for name in names]
        marks: list[list[Span]] = [[] for _ in names]
        for item in evidence:
            if item["docid"] not in names:
                raise BadFile(f"{where}: evidence in document {item['docid']!r}, which is not among {names}.")
            place = names.index(item["docid"])
            words = [found.span() for found in re.finditer(r"\S+", texts[place])]
            start, end = item["start_token"], item["end_token"]
            if not 0 <= start < end <= len(words):
                raise BadFile(
                    f"{where}: evidence [{start}, {end}] does not fit document {names[place]!r} of {len(words)} tokens."
                )
            marks[place].append((words[start][0], words[end - 1][1]))
        first = {"id": row.get("annotation_id"), "label": row.get("classification")}
        if with_query:
            if len(names) > 1:
                raise BadFile(f"{where}: a query and {len(names)} documents are more than a pair; read it as eraser.")
            yield where, first | {"text": required(row, "query", where), "pair": texts[0], "pair_rationale": marks[0]}
        elif len(names) == 2:
            yield where, first | {"text": texts[0], "pair": texts[1], "rationale": marks[0], "pair_rationale": marks[1]}
        else:
            yield where, first | {"text": texts[0], "rationale": marks[0]}


def _documents(folder: Path) -> Any:
    """Documents by name: files in docs/, or lines of docs.jsonl."""
    listed = folder / "docs.jsonl"
    kept = (
        {str(required(row, "docid", where)): required(row, "document", where) for where, row in read_json_lines(listed)}
        if listed.is_file()
        else {}
    )

    @lru_cache(maxsize=64)
    def find(name: str, where: str) -> str:
        if name in kept:
            return str(kept[name])
        file = folder / "docs" / name
        if not file.is_file():
            raise BadFile(f"{where}: there is no document {file}.")
        with reading(file):
            return file.read_text(encoding="utf-8")

    return find


def read_hatexplain(path: Path, split: str | None) -> Iterator[Record]:
    """HateXplain: dataset.json, and post_id_divisions.json beside it. Label and rationale are those of the majority of
    annotators; posts without a majority are left out, as its authors do.
    """
    file = path / "dataset.json" if path.is_dir() else path
    posts = read_json(file)
    if not isinstance(posts, dict):
        raise BadFile(f"{file}: a HateXplain file holds one object with a post under every id.")
    chosen: Iterable[str] = posts
    if split is not None:
        divisions = read_json(file.with_name("post_id_divisions.json"))
        if split not in divisions:
            raise BadFile(
                f"{file.with_name('post_id_divisions.json')}: there is no split {split!r}, only {', '.join(divisions)}."
            )
        chosen = divisions[split]
    for name in chosen:
        where = f"{file}, post {name}"
        if name not in posts:
            raise BadFile(f"{where}: it is in the list of the split, but not in the file.")
        post = posts[name]
        words = required(post, "post_tokens", where)
        label, votes = Counter(item["label"] for item in required(post, "annotators", where)).most_common(1)[0]
        if votes < 2:
            continue
        given = post.get("rationales") or []
        for item in given:
            if len(item) != len(words):
                raise BadFile(f"{where}: a rationale of {len(item)} marks does not fit {len(words)} tokens.")
        spans = _spans_of(words)
        marked = [
            span for place, span in enumerate(spans) if given and sum(item[place] for item in given) * 2 >= len(given)
        ]
        yield where, {"id": name, "text": " ".join(words), "label": label, "rationale": marked}


def _spans_of(words: Sequence[str]) -> list[Span]:
    """Where each word is when they are joined with spaces."""
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return spans


def read_esnli(path: Path, split: str | None) -> Iterator[Record]:
    """e-SNLI: a CSV file in which annotators put *stars* around words. What at least half of them starred is the
    rationale.
    """
    del split
    for where, row in read_csv(path, None):
        texts = required(row, "Sentence1", where), required(row, "Sentence2", where)
        rationales = []
        for number, text in enumerate(texts, 1):
            marked = [value for key, value in row.items() if key.startswith(f"Sentence{number}_marked_") and value]
            votes = Counter(place for item in marked for span in _starred(item, text, where) for place in range(*span))
            rationales.append(_consecutive(sorted(place for place, count in votes.items() if count * 2 >= len(marked))))
        yield (
            where,
            {
                "id": row.get("pairID"),
                "text": texts[0],
                "pair": texts[1],
                "label": row.get("gold_label"),
                "rationale": rationales[0],
                "pair_rationale": rationales[1],
            },
        )


def _consecutive(places: Sequence[int]) -> list[Span]:
    """Positions that follow each other, as spans."""
    spans: list[Span] = []
    for place in places:
        if spans and spans[-1][1] == place:
            spans[-1] = (spans[-1][0], place + 1)
        else:
            spans.append((place, place + 1))
    return spans


def _starred(marked: str, text: str, where: str) -> list[Span]:
    pieces = marked.split("*")
    plain = "".join(pieces)
    if " ".join(plain.split()) != " ".join(text.split()):
        if "*" in text:  # a star that belongs to the text cannot be told from a mark
            return []
        raise BadFile(f"{where}: the marked sentence {marked!r} is not the sentence {text!r}.")
    visible = [place for place, character in enumerate(text) if not character.isspace()]
    spans: list[Span] = []
    count = 0
    for number, piece in enumerate(pieces):
        length = sum(not character.isspace() for character in piece)
        if number % 2 and length:
            spans.append((visible[count], visible[count + length - 1] + 1))
        count += length
    return spans


def read_squad(path: Path, split: str | None) -> Iterator[Record]:
    """SQuAD 1.1 and 2.0: (question, context) and its answers; none where the question cannot be answered."""
    del split
    content = read_json(path)
    articles = content.get("data") if isinstance(content, dict) else None
    if not isinstance(articles, list):
        raise BadFile(f"{path}: a SQuAD file holds an object with a list `data`.")
    for a, article in enumerate(articles):
        for p, paragraph in enumerate(required(article, "paragraphs", f"{path}, data[{a}]")):
            here = f"{path}, data[{a}].paragraphs[{p}]"
            context = required(paragraph, "context", here)
            for q, question in enumerate(required(paragraph, "qas", here)):
                where = f"{here}.qas[{q}]"
                spans = {}
                for item in question.get("answers") or ():
                    start, answer = required(item, "answer_start", where), required(item, "text", where)
                    if type(start) is not int or not isinstance(answer, str):
                        raise BadFile(f"{where}: the answer {item!r} needs a text, and a whole number where it starts.")
                    spans[start] = {"start": start, "end": start + len(answer), "text": answer}
                yield (
                    where,
                    {
                        "id": question.get("id"),
                        "question": required(question, "question", where),
                        "context": context,
                        "answer": {"spans": list(spans.values())} if "answers" in question else None,
                    },
                )


def read_conllu(path: Path, split: str | None) -> Iterator[Record]:
    """CoNLL-U: every sentence is a text, as its comment gives it or as its words and their spaces do."""
    del split
    for sentence in conllu.read_conllu(path):
        yield sentence.where, {"id": sentence.comments.get("sent_id"), "text": sentence.text}
