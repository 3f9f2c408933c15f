"""Methods for sources, graded by removals: against a slow rewrite, and where the source is known."""

from __future__ import annotations

import json
import random
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata
from typer.testing import CliRunner

from sources.planted import copying_model, question
from wherefrom.cli.main import app, register_commands
from wherefrom.core.source_grades import SourcesComparison
from wherefrom.errors import BadFile, BadOption
from wherefrom.sources.compare import LDS_REMOVALS, LDS_SEED
from wherefrom.sources.rows import RowResult, grounding_auc, read_rows, run_rows, summary

METHODS = ("leave_one_out", "context_cite", "kernel_shap", "attn_lrp", "random")


def log_probability(asked: str, sentences: list[str], answer: str) -> float:
    """By the network alone, with another prompt for each choice."""
    model = copying_model().text_model
    before = f"Context:\n{' '.join(sentences)}\n\n" if sentences else ""
    ids = model.reading.tokenizer(f"{before}Question: {asked}\nAnswer:", return_tensors="pt")["input_ids"]
    logits = model.network.module(ids).logits[0, -1].detach().log_softmax(-1)
    return float(logits[model.reading.tokenizer(answer)["input_ids"][0]])


def test_every_figure_is_that_of_a_slow_rewrite() -> None:
    draw = random.Random(3)
    sentences, asked, answer, gold = question(draw, 4)
    c = copying_model().compare_sources(
        asked, " ".join(sentences), methods=("leave_one_out", "attn_lrp", "random"), gold=[(0, gold)], tokens=1
    )
    assert c.answer.strip() == answer
    everything = log_probability(asked, sentences, answer)
    assert c.log_probability == pytest.approx(everything, abs=1e-4)
    drawn = np.random.default_rng(LDS_SEED).random((LDS_REMOVALS, 4)) < 0.5
    for grade in c.grades:
        order = sorted(range(4), key=lambda place: -grade.scores[place])
        for count, drop in ((1, grade.top_1_drop), (3, grade.top_3_drop), (5, grade.top_5_drop)):
            kept = [sentences[place] for place in range(4) if place not in order[:count]]
            assert drop == pytest.approx(everything - log_probability(asked, kept, answer), abs=1e-3)
        used = {(True,) * 4, *(tuple(place != gone for place in range(4)) for gone in range(4))}
        rows = {tuple(row.tolist()) for row in drawn} - (used if grade.method == "leave_one_out" else set())
        choices = sorted(rows)
        actual = [
            log_probability(asked, [s for s, k in zip(sentences, row, strict=True) if k], answer) for row in choices
        ]
        expected = [sum(score for score, k in zip(grade.scores, row, strict=True) if k) for row in choices]
        spearman = np.corrcoef(rankdata(np.round(expected, 9)), rankdata(np.round(actual, 9)))[0, 1]
        assert grade.lds == pytest.approx(float(spearman), abs=0.05)
        assert grade.gold_at_1 == float(order[0] == gold)
        assert grade.gold_recall == float(gold in order[:3])


def test_where_the_source_is_known_removals_find_it_and_chance_does_not() -> None:
    model, draw = copying_model(), random.Random(5)
    found = {name: list[float]() for name in METHODS}
    for _ in range(24):
        sentences, asked, _, gold = question(draw, 4)
        c = model.compare_sources(asked, sentences, methods=METHODS, gold=[(gold, 0)], tokens=1)
        for grade in c.grades:
            assert grade.gold_at_1 is not None
            found[grade.method].append(grade.gold_at_1)
    assert np.mean(found["leave_one_out"]) == np.mean(found["kernel_shap"]) == 1.0
    assert np.mean(found["random"]) < 0.6


def test_a_method_that_has_used_all_removals_has_no_lds() -> None:
    sentences, asked, _, _ = question(random.Random(1), 3)
    c = copying_model().compare_sources(asked, sentences, methods=("kernel_shap", "leave_one_out"), tokens=1)
    assert [grade.lds for grade in c.grades] == [None, None]  # eight choices of three sources in all


def test_without_the_test_there_is_no_verdict_and_everything_else_is_the_same() -> None:
    sentences, asked, _, gold = question(random.Random(3), 4)
    with_test, without = (
        copying_model().compare_sources(asked, " ".join(sentences), gold=[(0, gold)], tokens=1, test=test)
        for test in (True, False)
    )
    assert all(grade.verdict for grade in with_test.grades if max(grade.scores) > 0)
    for tested, grade in zip(with_test.grades, without.grades, strict=True):
        assert grade.verdict is None
        assert grade.top_3_drop == pytest.approx(tested.top_3_drop, abs=1e-6)
        assert grade.lds == pytest.approx(tested.lds, abs=1e-6)
        assert grade.gold_at_1 == tested.gold_at_1


def test_the_answer_is_the_one_that_sources_explains() -> None:
    sentences, asked, answer, _ = question(random.Random(5), 4)
    context = " ".join(sentences)
    assert copying_model().answer(asked, context, tokens=1).strip() == answer
    assert (
        copying_model().answer(asked, [context], tokens=2) == copying_model().sources(asked, context, tokens=2).answer
    )


def test_gold_may_be_given_in_characters() -> None:
    text = "ann has saw. bob has fig."
    c = copying_model().compare_sources("Which fruit?", [text], gold=[(0, 21, 24)], methods=["random"], tokens=1)
    assert c.gold == (1,)


def test_what_a_comparison_refuses() -> None:
    model = copying_model()
    with pytest.raises(BadOption, match="no source 7 in document 0"):
        model.compare_sources("Which tool?", ["ann has saw."], gold=[(0, 7)], tokens=1)
    with pytest.raises(BadOption, match="No source is at the characters 40 to 50 of document 0"):
        model.compare_sources("Which tool?", ["ann has saw."], gold=[(0, 40, 50)], tokens=1)
    with pytest.raises(BadOption, match="none twice"):
        model.compare_sources("Which tool?", ["ann has saw."], methods=["random", "random"], tokens=1)


def test_a_comparison_is_saved_and_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    c = copying_model().compare_sources("Which tool?", ["ann has saw.", "bob has fig."], gold=[(0, 0)], tokens=1)
    c.save(tmp_path / "c.json")
    assert SourcesComparison.load(tmp_path / "c.json") == c
    assert len(c.to_pandas()) == len(c.grades)
    c.show()
    shown = capsys.readouterr().out
    assert "leave_one_out" in shown
    assert "gold at 1" in shown


# Files of questions


def file_of_rows(path: Path, count: int) -> Path:
    draw, lines = random.Random(2), []
    for number in range(count):
        sentences, asked, _, gold = question(draw, 4)
        row = {"id": f"q{number}", "question": asked, "context": {"a": " ".join(sentences)}, "gold": [[0, gold]]}
        lines.append(json.dumps(row | {"answerable": number % 2 == 0}))
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_run_resumes_where_it_was_stopped(tmp_path: Path) -> None:
    model = copying_model().text_model
    rows = read_rows(file_of_rows(tmp_path / "rows.jsonl", 6))
    whole = run_rows(model, rows, tmp_path / "whole", methods=("leave_one_out", "random"), tokens=1)

    class Stopped(Exception):
        pass

    def stop(done: int, _: int) -> None:
        if done == 3:
            raise Stopped

    with pytest.raises(Stopped):
        run_rows(model, rows, tmp_path / "part", methods=("leave_one_out", "random"), tokens=1, progress=stop)
    kept = tmp_path / "part" / "rows.jsonl"
    assert len(kept.read_text(encoding="utf-8").splitlines()) == 3
    with kept.open("a", encoding="utf-8") as lines:
        lines.write('{"name": "q3", "comp')  # killed while writing
    resumed = run_rows(model, rows, tmp_path / "part", methods=("leave_one_out", "random"), tokens=1)
    for one, two in zip(whole, resumed, strict=True):
        assert one.comparison is not None
        assert two.comparison is not None
        assert one.comparison.grades == two.comparison.grades
    assert (tmp_path / "part" / "summary.json").read_bytes() == (tmp_path / "whole" / "summary.json").read_bytes()
    with pytest.raises(BadOption, match="another methods"):
        run_rows(model, rows, tmp_path / "part", methods=("random",), tokens=1)


def test_the_summary_has_means_and_what_failed(tmp_path: Path) -> None:
    rows = read_rows(file_of_rows(tmp_path / "rows.jsonl", 5))
    results = run_rows(copying_model().text_model, rows, tmp_path / "out", methods=("leave_one_out",), tokens=1)
    told = summary([*results, RowResult("x", None, "too long")])
    assert (told["rows"], told["failed"]) == (6, 1)
    assert told["methods"]["leave_one_out"]["gold_at_1"]["mean"] == 1.0
    assert told["methods"]["leave_one_out"]["gold_at_1"]["rows"] == 5


def test_the_area_under_the_curve_is_that_of_all_pairs(tmp_path: Path) -> None:
    rows = read_rows(file_of_rows(tmp_path / "rows.jsonl", 6))
    results = run_rows(copying_model().text_model, rows, tmp_path / "out", methods=("random",), tokens=1)
    drops = [(r.comparison.grounding.drop, r.answerable) for r in results if r.comparison]
    pairs = [(a, b) for (a, x), (b, y) in combinations(drops, 2) if x and not y]
    pairs += [(b, a) for (a, x), (b, y) in combinations(drops, 2) if y and not x]
    assert grounding_auc(results) == pytest.approx(np.mean([float(a > b) + 0.5 * (a == b) for a, b in pairs]))
    assert grounding_auc(results[:1]) is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"context": ["a"]}', "'question' must be a text"),
        ('{"question": "a", "context": []}', "'context' must be a list of texts"),
        ('{"question": "a", "context": ["b"], "gold": [[0]]}', "'gold' must contain"),
        ('{"question": "a", "context": ["b"], "gold": [[0, "x"]]}', "'gold' must contain"),
        ('{"question": "a", "context": ["b"], "gold": 3}', "'gold' must be a list"),
        ('{"question": "a", "context": ["b"], "answer": 3}', "'answer' must be a text"),
        ("", "has no rows"),
    ],
)
def test_rows_that_cannot_be_read_are_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "rows.jsonl").write_text(line, encoding="utf-8")
    with pytest.raises(BadFile, match=message):
        read_rows(tmp_path / "rows.jsonl")


def test_the_command_prints_the_means(tmp_path: Path) -> None:
    register_commands()
    data = file_of_rows(tmp_path / "rows.jsonl", 3)
    folder = tmp_path / "model"
    copying_model().text_model.network.module.save_pretrained(folder)
    copying_model().text_model.reading.tokenizer.save_pretrained(folder)
    command = ["run", str(data), "--task", "sources", "--model", str(folder), "--out", str(tmp_path / "out")]
    shown = CliRunner().invoke(app, [*command, "--methods", "leave_one_out,random"], env={"COLUMNS": "100"})
    assert shown.exit_code == 0, shown.output
    assert "3 questions" in shown.output
    assert "leave_one_out" in shown.output
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["rows"] == 3
    refused = CliRunner().invoke(app, ["run", str(data), "--task", "sources", "--out", str(tmp_path / "out")])
    assert refused.exit_code != 0
