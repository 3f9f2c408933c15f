"""What a run explains of every row: all labels that are predicted, a row's own target and foil, a masked verb; and what
it leaves out and counts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tiny_models import make_model
from toys import additive_labels

from wherefrom.api import Model
from wherefrom.benchmark.counted import LabelledTexts
from wherefrom.benchmark.datasets import DataSet
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run
from wherefrom.benchmark.statistics import Energy, macro_f1
from wherefrom.benchmark.store import Run
from wherefrom.benchmark.summary import summarise
from wherefrom.benchmark.worker import asked_about
from wherefrom.core.example import Example, Mark
from wherefrom.errors import BadFile, BadOption
from wherefrom.report.benchmark import report_page

WEIGHTS = {"good": 2.0, "bad": -2.0}


@pytest.fixture(scope="module")
def labels() -> Model:
    return Model(additive_labels(**WEIGHTS))


def written(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def of_methods(done: Run, method: str) -> pd.DataFrame:
    return done.explanations[done.explanations["method"] == method].reset_index(drop=True)


def test_every_predicted_label_is_explained_and_what_predicts_nothing_is_counted(labels: Model, tmp_path: Path) -> None:
    rows = [
        {"id": "one", "text": "a good film", "label": ["fine"]},
        {"id": "two", "text": "a good and good film", "label": ["fine", "poor"]},
        {"id": "none", "text": "a film", "label": ["poor"]},
        {"id": "poor", "text": "the bad plot", "label": ["poor"]},
    ]
    plan = RunPlan(
        written(tmp_path / "rows.jsonl", rows),
        labels,
        ["occlusion", "random"],
        ["faithfulness"],
        target="all-predicted",
        examples_per_part=2,
    )
    out = tmp_path / "run"
    done = run(plan, out)
    found = of_methods(done, "occlusion")
    expected = {("one", "fine"), ("two", "fine"), ("two", "splendid"), ("poor", "poor")}
    assert set(zip(found["example"], found["target"], strict=True)) == expected
    assert len(found) == len(expected)
    assert len(done.scores) == 2 * len(expected)  # one metric, two methods
    assert done.errors.empty
    summary = summarise(done, Energy())
    assert summary.counts["nothing_predicted"] == 1
    assert summary.examples == 3
    # Of the texts that are explained: fine is right twice of twice, poor once of one and missed once, splendid wrong.
    assert summary.macro_f1 == pytest.approx((1 + 2 / 3 + 0) / 3)
    page = report_page([summary], Energy())
    assert "no label is predicted for" in page
    assert "its macro F1" in page
    # What is lost is computed again, to the same rows.
    next(iter((out / "receipts").glob("*.json"))).unlink()
    again = run(plan, out)
    columns = ["example", "target", "method", "probability"]
    pd.testing.assert_frame_equal(again.explanations[columns], done.explanations[columns])
    assert int(again.costs["nothing_predicted"].sum()) == 1


def test_macro_f1_by_hand() -> None:
    # a: one hit of two known and one predicted, 2/3; b: one hit of one known and two predicted, 2/3; c: never right.
    answers = [("a", ["a"]), ("a", ["b"]), ("b", ["b"]), ("c", [])]
    found = macro_f1([LabelledTexts(label, "a", predicted, 5) for label, predicted in answers])
    assert found == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
    assert macro_f1([]) is None


def test_a_row_names_its_own_target_and_foil(tmp_path: Path) -> None:
    model = Model(make_model("bert", labels=3))
    rows: list[dict[str, Any]] = [
        {"id": "pair", "text": "a good film", "label": "LABEL_2", "foil": "LABEL_0"},
        {"id": "two", "text": "a bad film", "explain": ["LABEL_1", "LABEL_2"]},
        {"id": "one", "text": "a fine film", "explain": "LABEL_1", "target": 0.5},
        {"id": "label", "text": "a dull film", "label": "LABEL_0"},
    ]
    data = written(tmp_path / "rows.jsonl", rows)
    done = run(RunPlan(data, model, ["occlusion"], ["faithfulness"], target="label"), tmp_path / "run")
    targets = dict(zip(done.explanations["example"], done.explanations["target"], strict=True))
    assert targets == {
        "pair": "LABEL_2 rather than LABEL_0",
        "two": "LABEL_1 rather than LABEL_2",
        "one": "LABEL_1",
        "label": "LABEL_0",
    }
    alone = model.explain("a good film", "occlusion", ("LABEL_2", "LABEL_0"))
    row = done.explanations.set_index("example").loc["pair"]
    assert row["scores"] == pytest.approx(alone.scores, abs=1e-4)
    with pytest.raises(BadFile, match=r"rows.jsonl, line 1: there is a foil"):
        DataSet(written(tmp_path / "rows.jsonl", [{"text": "a film", "foil": "b"}])).checked()


SENTENCES = [
    {"id": "is", "text": "the film is good", "label": "is", "foil": "was", "verb_span": [9, 11]},
    {"id": "was", "text": "a plot was not bad", "label": "was", "foil": "is", "verb_span": [7, 10]},
    {"id": "long", "text": "the acting xyzxyz it", "label": "xyzxyz", "foil": "is", "verb_span": [11, 17]},
]


@pytest.mark.parametrize(("family", "task"), [("bert", "masked_lm"), ("gpt2", "causal_lm")])
def test_a_language_model_is_asked_for_the_verb(family: str, task: str, tmp_path: Path) -> None:
    """The ready data set has no mask in its texts; which mask it is depends on the model."""
    written(tmp_path / "agreement_linzen.jsonl", SENTENCES)
    model = Model(make_model(family, task=task))
    common: dict[str, Any] = {"methods": ["occlusion"], "metrics": ["faithfulness"], "data_dir": tmp_path}
    done = run(RunPlan("agreement_linzen", model, **common), tmp_path / "predicted")
    assert done.errors.empty
    texts = dict(zip(done.explanations["example"], done.explanations["text"], strict=True))
    assert texts["is"] == {"masked_lm": "the film [MASK] good", "causal_lm": "the film"}[task]
    done = run(RunPlan("agreement_linzen", model, target="label", **common), tmp_path / "rather")
    found = done.explanations.set_index("example")
    assert found.loc["was", "target"] == "was rather than is"
    alone = model.explain(texts["was"], "occlusion", ("was", "is"))
    assert found.loc["was", "scores"] == pytest.approx(alone.scores, abs=1e-4)
    if task == "causal_lm":  # what is no single token is a continuation of several
        assert done.errors.empty
        whole = model.explain(texts["long"], "occlusion", ("xyzxyz", "is"))
        assert found.loc["long", "scores"] == pytest.approx(whole.scores, abs=1e-4)
        return
    assert list(done.errors["example"]) == ["long"]
    assert "not one token" in done.errors["error"][0]


def test_marks_move_with_their_words() -> None:
    model = make_model("bert", task="masked_lm")
    example = Example("1", "the film is good", rationale=(Mark(4, 8), Mark(9, 11), Mark(12, 16)), mask_span=(9, 11))
    asked = asked_about(example, model)
    assert asked.rationale is not None
    assert [asked.text[mark.start : mark.end] for mark in asked.rationale] == ["film", "good"]
    cut = asked_about(example, make_model("gpt2", task="causal_lm"))
    assert cut.rationale == (Mark(4, 8),)
    assert asked_about(example, make_model("bert")) is example


def test_a_pair_is_refused_before_a_causal_model_runs(tmp_path: Path) -> None:
    data = written(tmp_path / "rows.jsonl", [{"text": "a film", "pair": "a plot"}])
    with pytest.raises(BadOption, match=r"line 1: there is a second text"):
        run(RunPlan(data, Model(make_model("gpt2", task="causal_lm")), ["occlusion"], ["rft"]), tmp_path / "run")


def test_a_question_without_an_answer_is_not_graded_against_the_predicted_one(tmp_path: Path) -> None:
    context = "the film was good and the plot was not bad but the acting is dull and it is very very long a b c d"
    rows: list[dict[str, Any]] = [
        {"id": "known", "question": "was it good ?", "context": context, "answer": {"spans": [[4, 8]]}},
        {"id": "none", "question": "was it bad ?", "context": context, "answer": {"is_impossible": True, "spans": []}},
        {"id": "unknown", "question": "is it ?", "context": context},
    ]
    model = Model(make_model("bert", task="question_answering"))
    metrics = ["precision_at_k:k=3", "faithfulness"]
    plan = RunPlan(written(tmp_path / "rows.jsonl", rows), model, ["occlusion"], metrics)
    done = run(plan, tmp_path / "run")
    scores = done.scores.set_index(["example", "metric"])
    assert pd.isna(scores.loc[("none", "precision_at_k:k=3"), "value"])
    assert "has no answer" in scores.loc[("none", "precision_at_k:k=3"), "why"]
    assert not pd.isna(scores.loc[("known", "precision_at_k:k=3"), "value"])
    assert not pd.isna(scores.loc[("none", "faithfulness"), "value"])  # which asks about what is predicted
    summary = summarise(done, Energy())
    assert summary.counts["unanswerable"] == 1
    assert "questions without an answer" in report_page([summary], Energy())
