"""Methods for sources, graded on every question that the model answers rightly. A line of JSON is kept for every
question as soon as it is measured, so that a study that was killed loses at most the question it was at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wherefrom import Model, SourceGrade, WherefromError
from wherefrom_studies.journal import Record, append_record, read_records
from wherefrom_studies.progress import Watch
from wherefrom_studies.sources.questions import Question, answer_questions, contains_answer, grounding_questions

METHODS = (
    "leave_one_out", "hierarchical", "context_cite", "attn_lrp", "cp_lrp", "saliency", "input_x_gradient", "random",
)  # fmt: skip
METRICS = ("gold_at_1", "gold_recall", "top_1_drop", "top_3_drop", "top_5_drop", "lds")
TOKENS = 48  # of an answer at most
ANSWERABLE, UNANSWERABLE = "squad2 answerable", "squad2 unanswerable"


@dataclass(frozen=True)
class QuestionSet:
    """Questions of one kind, and how many of them are to be measured."""

    name: str
    questions: Sequence[Question]
    wanted: int
    measure: Callable[[Model, Question], Record]


def question_sets(data: Path, sizes: Mapping[int, int], grounding: int) -> list[QuestionSet]:
    """The sets of the study.

    sizes: how many questions with so many passages.
    grounding: how many questions of SQuAD 2 that can be answered, and how many that cannot.
    """
    first, second = data / "squad_v1.1.jsonl", data / "squad_v2.jsonl"
    sets = [
        QuestionSet(set_name(documents), answer_questions(first, documents), wanted, _graded)
        for documents, wanted in sizes.items()
        if wanted
    ]
    if grounding:
        sets += [
            QuestionSet(name, grounding_questions(second, name == ANSWERABLE), grounding, _grounded)
            for name in (ANSWERABLE, UNANSWERABLE)
        ]
    return sets


def set_name(documents: int) -> str:
    return f"{documents} passage{'s' if documents > 1 else ''}"


def measure_sets(model: Model, sets: Sequence[QuestionSet], journal: Path, watch: Watch) -> list[Record]:
    """All records of these sets, those that are missing measured now."""
    records = read_records(journal)
    done = {(record["set"], record["id"]) for record in records}
    for questions in sets:
        counted = sum(record["set"] == questions.name and record["counts"] for record in records)
        with watch(f"questions with {questions.name}") as report:
            for question in questions.questions:
                if report is not None:
                    report(min(counted, questions.wanted), questions.wanted)
                if counted >= questions.wanted:
                    break
                if (questions.name, question.name) in done:
                    continue
                record = _record(model, questions, question)
                append_record(journal, record)
                records.append(record)
                counted += record["counts"]
    return records


def _record(model: Model, questions: QuestionSet, question: Question) -> Record:
    started = time.process_time()
    try:
        measured = questions.measure(model, question)
    except WherefromError as error:  # such as a prompt that is longer than the model reads
        measured = {"counts": False, "error": str(error)}
    seconds = round(time.process_time() - started, 2)
    return {
        "set": questions.name, "id": question.name, "paragraph": question.paragraph, "seconds": seconds, **measured,
    }  # fmt: skip


def _graded(model: Model, question: Question) -> Record:
    """Counts if the generated answer contains the right one."""
    answer = model.answer(question.text, question.passages, tokens=TOKENS)
    if not contains_answer(answer, question.answers):
        return {"counts": False}
    compared = model.compare_sources(
        question.text, question.passages, answer, methods=METHODS, gold=question.gold, tokens=TOKENS, test=False
    )
    grounding = compared.grounding
    return {
        "counts": True,
        "sources": len(compared.sources),
        "gold": len(compared.gold),
        "log_probability": _rounded(compared.log_probability),
        "grounding": _rounded(grounding.drop),
        "margin": _rounded(grounding.margin),
        "methods": {grade.method: _plain(grade) for grade in compared.grades},
    }


def _plain(grade: SourceGrade) -> dict[str, Any]:
    numbers = {metric: _rounded(getattr(grade, metric)) for metric in METRICS}
    return {**numbers, "forwards": grade.forwards, "backwards": grade.backwards}


def _grounded(model: Model, question: Question) -> Record:
    """How far the log-probability of the generated answer falls without the passage."""
    answer = model.answer(question.text, question.passages, tokens=TOKENS)
    sources = model.sources(
        question.text, question.passages, answer, by="document", method="random", statements=[(0, len(answer))],
        tokens=TOKENS, regenerate=False,
    )  # fmt: skip
    statement = sources.statement(0)
    return {
        "counts": True,
        "grounding": _rounded(statement.grounding.drop),
        "margin": _rounded(statement.grounding.margin),
        "tokens": statement.tokens,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)
