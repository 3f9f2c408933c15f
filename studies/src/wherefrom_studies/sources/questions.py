"""Questions about passages, from SQuAD: the paragraph with the answer among paragraphs of other articles."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wherefrom.errors import BadFile
from wherefrom.files import read_json_lines

SEED = 17


class Question(NamedTuple):
    """A question with its passages."""

    name: str
    text: str
    passages: list[str]
    paragraph: str  # the name of the paragraph it was asked about: questions about the same one are not independent
    answers: tuple[str, ...]  # none where the passages do not contain it
    gold: tuple[tuple[int, int, int], ...]  # document, start and end of every answer


def answer_questions(file: Path, documents: int) -> list[Question]:
    """All questions of SQuAD 1.1, each with so many passages: its own paragraph at a random place among paragraphs of
    other articles. Every paragraph's first question comes before any second one.
    """
    rows = _rows(file)
    paragraphs = {row["text_b"]: row["title"] for row in rows}
    questions = []
    for row in _one_per_paragraph_first(rows):
        chance = random.Random(f"{SEED} {documents} {row['id']}")
        others = chance.sample([text for text, title in paragraphs.items() if title != row["title"]], documents - 1)
        place = chance.randrange(documents)
        spans = row["answer"]["spans"]
        questions.append(
            Question(
                str(row["id"]),
                row["text_a"],
                [*others[:place], row["text_b"], *others[place:]],
                _name(row["text_b"]),
                tuple(dict.fromkeys(span["text"] for span in spans)),
                tuple(sorted({(place, span["start"], span["end"]) for span in spans})),
            )
        )
    return questions


def grounding_questions(file: Path, answerable: bool) -> list[Question]:
    """The questions of SQuAD 2 that their paragraph answers, or those that it does not."""
    rows = [row for row in _rows(file) if row["answer"]["is_impossible"] is not answerable]
    return [
        Question(str(row["id"]), row["text_a"], [row["text_b"]], _name(row["text_b"]), (), ())
        for row in _one_per_paragraph_first(rows)
    ]


def contains_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether a text contains one of the answers as whole words, whatever the case and punctuation."""
    return any(f" {_words(answer)} " in f" {_words(text)} " for answer in answers)


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _name(paragraph: str) -> str:
    return paragraph[:40]


def _one_per_paragraph_first(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    drawn = list(rows)
    random.Random(SEED).shuffle(drawn)
    seen: dict[str, int] = {}
    turns = []
    for row in drawn:
        seen[row["text_b"]] = seen.get(row["text_b"], -1) + 1
        turns.append(seen[row["text_b"]])
    return [row for _, row in sorted(zip(turns, drawn, strict=True), key=lambda pair: pair[0])]


def _rows(file: Path) -> list[dict[str, Any]]:
    rows = []
    for where, row in read_json_lines(file):
        answer = row.get("answer")
        if not isinstance(answer, dict) or not all(isinstance(row.get(key), str) for key in ("text_a", "text_b")):
            raise BadFile(f"{where}: needs text_a (question), text_b (context) and answer.")
        rows.append(row)
    return rows
