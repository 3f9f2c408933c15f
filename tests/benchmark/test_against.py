"""Several models at once in a run: metrics that compare two models give the mean over the pairs, as single comparisons
do.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import make_network, tokenizer
from tolerances import TOLERANCE

import wherefrom
from benchmark.films import TEXTS
from benchmark.tables import same_tables
from wherefrom.benchmark import Run, RunPlan
from wherefrom.benchmark.run import run
from wherefrom.benchmark.store import FolderTaken
from wherefrom.cli import main as cli
from wherefrom.core.comparison import Grade
from wherefrom.errors import BadOption
from wherefrom.grading.other_readings import mean_over_pairs
from wherefrom.model.loading import quiet

METHODS, TWO = ["attcat", "occlusion", "random"], ["spearman", "jaccard_25"]
NAMES = {0: "NEGATIVE", 1: "POSITIVE"}


def saved(folder: Path, **more: Any) -> Path:
    given: dict[str, Any] = {"labels": 2, "id2label": NAMES} | more
    with quiet():
        make_network("bert", **given).save_pretrained(folder)
        tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Models as other seeds give them."""
    root = tmp_path_factory.mktemp("others")
    return [saved(root / f"seed{seed}", seed=seed) for seed in (1, 2, 3)]


def plan(texts: Path, model_folder: Path, others: Sequence[Any], **more: Any) -> RunPlan:
    given: dict[str, Any] = {"methods": METHODS, "metrics": [*TWO, "entropy"], "workers": 1, "examples_per_part": 4}
    return RunPlan(str(texts), str(model_folder), against=[str(one) for one in others], **(given | more))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, texts: Path, model_folder: Path, others: list[Path]) -> Run:
    return run(plan(texts, model_folder, others), tmp_path_factory.mktemp("run") / "whole")


def test_the_mean_over_all_pairs(whole: Run, model_folder: Path, others: list[Path]) -> None:
    """Beside the slow way: every pair compared by itself, one text and one model after the other."""
    model, loaded = wherefrom.load(str(model_folder)), [wherefrom.load(str(one)) for one in others]
    rows = {(row["example"], row["method"], row["metric"]): row for row in whole.rows("scores")}
    pairs = set()
    for number, text in enumerate(TEXTS):
        single = [model.compare(text, METHODS, TWO, against=other, check=False) for other in loaded]
        for method in METHODS:
            for metric in TWO:
                known = [value for one in single if (value := one.grade(method, metric).value) is not None]
                row = rows[f"f{number}", method, metric]
                pairs.add(len(known))
                if not known:
                    assert row["value"] is None
                    assert "the models decide differently: " in row["why"]
                    continue
                assert row["value"] == pytest.approx(sum(known) / len(known), abs=TOLERANCE[torch.float32]), row
                assert json.loads(row["details"])["pairs"] == len(known)
    assert max(pairs) > 1
    assert len(pairs) > 1  # the models do not decide alike on every text


def test_several_models_beside_a_single_text(model_folder: Path, others: list[Path]) -> None:
    model = wherefrom.load(str(model_folder))
    target = model.explain(TEXTS[1], "random").target
    found = model.compare(TEXTS[1], METHODS, TWO, target, against=[str(one) for one in others], check=False)
    for method in METHODS:
        each = [model.compare(TEXTS[1], [method], TWO, target, against=one, check=False) for one in others]
        for place, metric in enumerate(TWO):
            grade = found.grade(method, metric)
            values = [one.grades[0][place].value or 0.0 for one in each]
            assert grade.value == pytest.approx(sum(values) / 3, abs=TOLERANCE[torch.float32])
            assert grade.details["pairs"] == 3
            assert grade.details["values"] == pytest.approx(values, abs=TOLERANCE[torch.float32])
    assert found.metrics == TWO
    assert model.compare(TEXTS[1], ["random"], ["entropy"], against=[], check=False).metrics == ["entropy"]


def test_the_mean_by_hand() -> None:
    one, other = Grade("spearman", 0.5, "higher"), Grade("spearman", -0.25, "higher")
    none = Grade("spearman", None, "higher", why="the models decide differently: A and B")
    equal = replace(none, why="all scores by one of the models are equal")
    assert mean_over_pairs([one, other]) == replace(one, value=0.125, details={"pairs": 2, "values": [0.5, -0.25]})
    assert mean_over_pairs([none, other]) == replace(other, details={"pairs": 1, "values": [-0.25]})
    assert mean_over_pairs([replace(one, details={"x": 1})]) == replace(one, details={"x": 1, "pairs": 1})
    assert mean_over_pairs([none, none]) == none
    assert mean_over_pairs([none, equal]).why == f"{none.why}; {equal.why}"


class StoppedHere(Exception):
    pass


@pytest.mark.slow
def test_stopped_and_gone_on_by_two_workers(
    whole: Run, tmp_path: Path, texts: Path, model_folder: Path, others: list[Path]
) -> None:
    def stop(done: int, _: int) -> None:
        if done:
            raise StoppedHere

    with pytest.raises(StoppedHere):
        run(plan(texts, model_folder, others), tmp_path / "run", on_progress=stop)
    kept = Run.load(tmp_path / "run").plan  # from its folder alone
    assert kept.against == [str(one) for one in others]
    same_tables(run(replace(kept, workers=2), tmp_path / "run"), whole)
    with pytest.raises(FolderTaken, match="against"):
        run(plan(texts, model_folder, others[:2]), tmp_path / "run")


def test_a_run_without_other_models_is_the_run_it_was(texts: Path, model_folder: Path) -> None:
    written = plan(texts, model_folder, [], metrics=["entropy"]).to_manifest()
    assert "against" not in written["plan"]  # or runs of earlier versions would be of another configuration


@pytest.mark.parametrize(
    ("other", "metrics", "message"),
    [
        ({"labels": 3}, TWO, r"knows the labels LABEL_0, .* but .* they would never decide alike"),
        ({"task": "question_answering"}, TWO, r"is made for question_answering, but .* for classification"),
        ({}, ["entropy"], r"None of these metrics compares two models.* Name such a metric \(spearman, jaccard_25\)"),
    ],
)
def test_models_that_cannot_be_compared(
    other: dict[str, Any], metrics: list[str], message: str, tmp_path: Path, texts: Path, model_folder: Path
) -> None:
    given = saved(tmp_path / "other", **({"id2label": None} | other if other else {}))
    with pytest.raises(BadOption, match=message):
        run(plan(texts, model_folder, [given], metrics=metrics), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_metrics_that_need_another_model_are_refused_without(tmp_path: Path, texts: Path, model_folder: Path) -> None:
    with pytest.raises(BadOption, match="spearman compares two models: name the other one with --against"):
        run(plan(texts, model_folder, [], metrics="spearman"), tmp_path / "run")
    with pytest.raises(BadOption, match=r"Other models are given in a list: against=\['embedded'\]"):
        RunPlan(str(texts), against="embedded")


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["wherefrom", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def test_the_command(
    tmp_path: Path, texts: Path, model_folder: Path, others: list[Path], whole: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = [argument for one in others for argument in ("--against", str(one))]
    chosen = ["--methods", ",".join(METHODS), "--metrics", ",".join([*TWO, "entropy"]), "--workers", "1", "--part", "4"]
    arguments = ["run", str(texts), "--out", str(tmp_path / "run"), "--model", str(model_folder), *again, *chosen]
    assert command(monkeypatch, *arguments) == 0
    same_tables(Run.load(tmp_path / "run"), whole)
    assert command(monkeypatch, *arguments[:6], "--metrics", "spearman") == 2


def test_a_text_that_another_model_cannot_explain_costs_only_the_pair(
    tmp_path: Path, model_folder: Path, others: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the other model's family is not known."""
    model, broken = wherefrom.load(str(model_folder)), wherefrom.load(str(others[0]))
    usual = type(broken.text_model).encode

    def encode(self: Any, *texts: str) -> Any:
        if self is broken.text_model:
            raise BadOption("it reads nothing")
        return usual(self, *texts)

    monkeypatch.setattr(type(broken.text_model), "encode", encode)
    path = tmp_path / "two.txt"
    path.write_text("a fine film\nnot bad\n")
    found = run(
        RunPlan(str(path), model, methods=["attcat"], metrics=["spearman", "entropy"], against=[broken, model]),
        tmp_path / "run",
    )
    assert found.errors.empty
    two = found.scores[found.scores["metric"] == "spearman"]
    assert two["value"].tolist() == pytest.approx([1.0, 1.0])
    assert [json.loads(one)["pairs"] for one in two["details"]] == [1, 1]
    only = model.compare("not bad", ["attcat"], ["spearman"], against=broken, check=False).grades[0][0]
    assert only.why == "the other model could not explain this text: it reads nothing"
