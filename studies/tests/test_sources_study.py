"""The study of sources: its questions, numbers computed by hand, and a study that is stopped and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import make_network, tokenizer
from typer.testing import CliRunner

from wherefrom import load
from wherefrom.cli.main import app, register_commands
from wherefrom.errors import BadFile
from wherefrom_studies.claims import corrected
from wherefrom_studies.journal import read_records
from wherefrom_studies.pages import claims_table, markdown_tables
from wherefrom_studies.sources import measuring
from wherefrom_studies.sources.measuring import METHODS, METRICS
from wherefrom_studies.sources.questions import answer_questions, contains_answer, grounding_questions
from wherefrom_studies.sources.tables import area_under_roc, by_paragraph, judged, tables

PARAGRAPHS = [f"the film was dull {word} . it is a good film ." for word in ("and", "but", "not", "very")]


def squad_row(number: int, paragraph: str, answer: str, impossible: bool = False) -> dict[str, Any]:
    spans = [] if impossible else [{"text": answer, "start": 0, "end": 5}]
    return {
        "id": f"q{number}", "text_a": "is it good", "text_b": paragraph, "title": paragraph,
        "answer": {"is_impossible": impossible, "spans": spans},
    }  # fmt: skip


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_paragraph_with_the_answer_is_among_paragraphs_of_other_articles(tmp_path: Path) -> None:
    rows = [squad_row(number, PARAGRAPHS[number % 4], "dull") for number in range(8)]
    file = write(tmp_path / "squad.jsonl", rows)
    questions = answer_questions(file, 3)
    assert {question.paragraph for question in questions[:4]} == {text[:40] for text in PARAGRAPHS}
    for question in questions:
        assert len(set(question.passages)) == 3
        ((document, start, end),) = question.gold
        assert question.passages[document][:40] == question.paragraph
        assert (start, end) == (0, 5)
    assert answer_questions(file, 3) == questions
    assert len({question.gold for question in questions}) > 1  # not always at the same place


def test_questions_for_grounding_are_those_that_can_or_cannot_be_answered(tmp_path: Path) -> None:
    rows = [squad_row(number, PARAGRAPHS[number], "dull", impossible=number > 0) for number in range(3)]
    file = write(tmp_path / "squad.jsonl", rows)
    assert [question.name for question in grounding_questions(file, True)] == ["q0"]
    assert sorted(question.name for question in grounding_questions(file, False)) == ["q1", "q2"]
    bad = write(tmp_path / "bad.jsonl", [{"id": 1}])
    with pytest.raises(BadFile, match="line 1: needs text_a"):
        grounding_questions(bad, True)


@pytest.mark.parametrize(
    ("text", "contained"),
    [("It was 308 points.", True), ("It was 3,089.", False), ("three hundred", False), ("308", True)],
)
def test_an_answer_is_contained_as_whole_words(text: str, contained: bool) -> None:
    assert contains_answer(text, ["308"]) is contained


def record(number: int, paragraph: str, **gold: float) -> dict[str, Any]:
    grades = {
        method: {metric: gold.get(method, 0.0) for metric in METRICS} | {"forwards": 3, "backwards": 1}
        for method in METHODS
    }
    return {
        "set": "1 passage", "id": str(number), "paragraph": paragraph, "seconds": 1.0, "counts": True, "sources": 4,
        "methods": grades,
    }  # fmt: skip


def test_questions_about_one_paragraph_count_once() -> None:
    records = [record(0, "a", attn_lrp=1.0), record(1, "a", attn_lrp=0.0), record(2, "b", attn_lrp=1.0)]
    means = by_paragraph(records, [lambda row: float(row["methods"]["attn_lrp"]["gold_at_1"]), lambda _: None])
    assert means[:, 0].tolist() == [0.5, 1.0]
    assert np.isnan(means[:, 1]).all()
    shown = {table.title: dict(table.rows) for table in tables(records)}
    estimate = shown["gold_at_1"]["`attn_lrp`"][0].estimate
    assert estimate is not None
    assert (estimate.value, estimate.texts) == (0.75, 2)
    assert shown["Cost"]["`random`"][0].measured == "3.0 + 1.0"


def test_no_interval_leaves_the_range_of_its_metric() -> None:
    records = [record(number, str(number), attn_lrp=float(number > 0)) for number in range(40)]
    estimate = dict(tables(records)[0].rows)["`attn_lrp`"][0].estimate
    assert estimate is not None
    assert estimate.high == 1.0
    assert estimate.value < 1.0


def test_a_method_that_finds_the_sentence_more_often_is_confirmed() -> None:
    records = [
        record(number, str(number), leave_one_out=1.0, attn_lrp=float(number % 3 > 0), random=float(number % 4 == 0))
        for number in range(24)
    ]
    verdicts = {claim.claim.words: claim.verdict for claim in judged(records)}
    assert verdicts["`leave_one_out` finds it more often than `attn_lrp`"] == "confirmed"
    assert verdicts["`saliency` finds the sentence with the answer more often than chance"] == "refuted"


def test_the_area_under_the_curve_counts_ties_half() -> None:
    estimate = area_under_roc(np.array([3.0, 1.0]), np.array([1.0, 0.0]))
    assert estimate.value == pytest.approx((1 + 1 + 0.5 + 1) / 4)
    assert estimate.low is not None
    assert estimate.low <= estimate.value


def test_the_whole_study_resumes_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "TOKENS", 6)  # the tiny model reads 64
    torch.manual_seed(0)
    make_network("llama", task="causal_lm").save_pretrained(tmp_path / "decoder")
    tokenizer().save_pretrained(tmp_path / "decoder")
    model = load(tmp_path / "decoder")
    answers = [model.answer("is it good", [text], tokens=6) for text in PARAGRAPHS]
    rows = [squad_row(number, text, answers[number]) for number, text in enumerate(PARAGRAPHS)]
    data, out = tmp_path / "data", tmp_path / "out"
    write(data / "squad_v1.1.jsonl", [*rows, squad_row(9, "a wrong answer .", "zebra")])
    write(data / "squad_v2.jsonl", [*rows[:2], *(squad_row(5 + n, PARAGRAPHS[n], "", True) for n in range(2))])
    register_commands()
    command = ["study", "sources", "--data-dir", str(data), "--out", str(out), "--model", str(tmp_path / "decoder")]
    call = [*command, "--questions", "1=4", "--grounding", "2"]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    journal = out / "sources.jsonl"
    records = read_records(journal)
    assert [row["counts"] for row in records].count(True) == 8
    page = json.loads((out / "sources.json").read_text(encoding="utf-8"))
    assert [table["title"] for table in page["tables"]] == [*METRICS, "Cost", "Grounding"]
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:3]) + lines[3][:20])  # killed while the fourth was written
    assert CliRunner().invoke(app, call).exit_code == 0
    without_times = [{**row, "seconds": 0} for row in read_records(journal)]
    assert without_times == [{**row, "seconds": 0} for row in records]
    assert CliRunner().invoke(app, ["study", "sources", "--out", str(out)]).exit_code == 0  # the page alone


@pytest.mark.parametrize("questions", ["1:3", "x=2", "0=4", "1="])
def test_sizes_that_cannot_be_read_are_refused(tmp_path: Path, questions: str) -> None:
    register_commands()
    done = CliRunner().invoke(app, ["study", "sources", "--out", str(tmp_path), "--questions", questions])
    assert done.exit_code != 0
    assert "PASSAGES=QUESTIONS" in str(done.exception) + done.output


ROOT = Path(__file__).parents[2]


def test_the_page_in_the_docs_is_that_of_the_committed_records() -> None:
    records = read_records(ROOT / "studies" / "results" / "sources.jsonl")
    written = (ROOT / "docs" / "appendix" / "studies" / "sources.md").read_text(encoding="utf-8")
    assert markdown_tables(tables(records)) in written
    assert claims_table(corrected(judged(records))) in written
