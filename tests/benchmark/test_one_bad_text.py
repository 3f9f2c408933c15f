"""One bad text or one bad method costs itself, and nothing that was computed together with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import make_network, tokenizer
from torch import Tensor

import wherefrom
from benchmark.films import TEXTS
from wherefrom.benchmark import Run
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run
from wherefrom.case.case import Case
from wherefrom.errors import ModelFailed, SomeTextsFailed
from wherefrom.registry import _known, method

METHODS, METRICS = ("attcat", "lime:samples=20", "transatt", "random"), ("aopc", "log_odds", "rft")
BAD = [number for number, text in enumerate(TEXTS) if "dull" in text]
SOUND = [text for text in TEXTS if "dull" not in text]


def model_that_breaks_on(word: str) -> wherefrom.Model:
    """It answers NaN to every text with this word in it."""
    network, reader = make_network("bert", labels=2), tokenizer()
    with torch.no_grad():
        network.get_input_embeddings().weight[reader.convert_tokens_to_ids(word)] = float("nan")  # type: ignore[operator]
    return wherefrom.load((network, reader))


def written(path: Path, texts: dict[int, str]) -> str:
    path.write_text("".join(json.dumps({"id": f"f{number}", "text": text}) + "\n" for number, text in texts.items()))
    return str(path)


def numbers(found: Run) -> dict[Any, Any]:
    rows = {(row["example"], row["method"]): (row["scores"], row["probability"]) for row in found.rows("explanations")}
    grades = {(row["example"], row["method"], row["metric"]): row["value"] for row in found.rows("scores")}
    return rows | grades


def test_the_others_come_out_as_if_the_bad_text_were_not_there(tmp_path: Path) -> None:
    model, every = model_that_breaks_on("dull"), dict(enumerate(TEXTS))
    plan: dict[str, Any] = {"model": model, "methods": METHODS, "metrics": METRICS, "examples_per_part": 16}
    found = run(RunPlan(written(tmp_path / "all.jsonl", every), **plan), tmp_path / "all")
    sound = {number: text for number, text in every.items() if number not in BAD}
    without = run(RunPlan(written(tmp_path / "sound.jsonl", sound), **plan), tmp_path / "sound")
    assert BAD
    assert sorted(row["example"] for row in found.rows("errors")) == [f"f{number}" for number in BAD]
    assert all("NaN" in row["error"] for row in found.rows("errors"))
    assert numbers(found) == numbers(without)
    assert len(numbers(found)) == len(SOUND) * len(METHODS) * (1 + len(METRICS))


def test_a_list_of_texts_names_the_bad_one_and_keeps_the_others() -> None:
    model = model_that_breaks_on("dull")
    object.__setattr__(model.text_model, "batch_tokens", 30)  # so that there are several batches
    with pytest.raises(SomeTextsFailed, match=r"for 2 of 10 texts: number 2 \('the plot was dull.*number 5") as failed:
        model.explain(TEXTS, "attcat")
    kept = failed.value.explanations
    assert sorted(kept) == [number for number in range(len(TEXTS)) if number not in BAD]
    alone = model.explain(SOUND, "attcat")
    assert [one.scores for _, one in sorted(kept.items())] == [one.scores for one in alone]  # type: ignore[attr-defined]
    with pytest.raises(ModelFailed, match=r"^The model answered NaN"):
        model.explain([TEXTS[BAD[0]]], "attcat")


def test_a_question_without_an_answer_costs_only_who_asked_it() -> None:
    """Where a hidden word makes the model answer NaN, what hides no words is as it would be."""
    model = model_that_breaks_on("[MASK]")
    both = model.compare("a fine film", "all", ["aopc:fill=mask", "aopc:fill=pad"])
    grades = {(name, grade.metric): grade for name, row in zip(both.names, both.grades, strict=True) for grade in row}
    assert "NaN" in grades["attcat", "aopc:fill=mask"].why
    assert grades["attcat", "aopc:fill=mask"].value is None
    assert grades["attcat", "aopc:fill=pad"].value is not None


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_known, "method", dict(_known["method"]))

    @method(family="floor", signed=True, per_class=True, reads="nothing", paper="none")
    def breaking(case: Case, *, kind: str = "MemoryError") -> Tensor:
        if "dull" in case.encoding.text:
            raise {"MemoryError": MemoryError, "TypeError": TypeError, "Plain": Exception}[kind]("no luck")
        return torch.arange(len(case.encoding), dtype=torch.float32)

    @method(family="floor", signed=True, per_class=False, reads="nothing", paper="none")
    def short(case: Case) -> Tensor:
        return torch.arange(len(case.encoding) - ("dull" in case.encoding.text), dtype=torch.float32)


@pytest.mark.usefixtures("breaking")
def test_whatever_a_method_raises_costs_its_own_explanation_only(tmp_path: Path, model_folder: Path) -> None:
    every = dict(enumerate(TEXTS))
    methods = ["attcat", "breaking", "breaking:kind=TypeError", "breaking:kind=Plain", "short"]
    plan = RunPlan(
        written(tmp_path / "all.jsonl", every),
        model=str(model_folder),
        methods=methods,
        metrics=["aopc", "truthfulness"],
        workers=1,
    )
    found = run(plan, tmp_path / "run")
    explained = {(row["example"], row["method"]) for row in found.rows("explanations")}
    failed = {(f"f{number}", name) for number in BAD for name in methods[1:]}
    assert explained == {(f"f{number}", name) for number in every for name in methods} - failed
    errors = {(row["example"], row["method"]): row["error"] for row in found.rows("errors")}
    assert set(errors) == failed
    bad = f"f{BAD[0]}"
    assert errors[bad, "breaking:kind=TypeError"] == "TypeError: no luck"
    assert "memory" in errors[bad, "breaking"].lower()
    assert "gave scores of shape" in errors[bad, "short"]


@pytest.mark.usefixtures("breaking")
def test_the_other_methods_of_one_text_are_compared(model_folder: Path) -> None:
    found = wherefrom.load(str(model_folder)).compare("never a dull plot", "all", ["aopc"])
    assert found.failed["breaking"].startswith("There is not enough memory for a text of 6 tokens.")
    assert "attcat" in found.names
