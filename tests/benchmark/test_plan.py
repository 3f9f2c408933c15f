"""The plan of a run: checked at once, written into the manifest, and read back from there."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import wherefrom
from benchmark.films import TEXTS
from wherefrom.benchmark import Run, RunPlan
from wherefrom.benchmark.columns import EXPLANATION_COLUMNS, explanation_of
from wherefrom.benchmark.plan import HOW
from wherefrom.benchmark.run import run
from wherefrom.benchmark.thermostat import BESIDE, LEFT_OUT, RENAMED
from wherefrom.core.explanation import Explanation
from wherefrom.errors import BadFile


def test_there_and_back(tmp_path: Path) -> None:
    plan = RunPlan(
        "reviews.csv",
        model="some/model",
        methods=["alti:norm=l2", "random"],
        metrics=["aopc"],
        target="label",
        level="word",
        limit=7,
        seed=3,
        data_dir=str(tmp_path),
        columns={"text": "body"},
        labels={"1": "POSITIVE"},
        spread=0.9,
        against=["other/model"],
        device="cpu",
        engine="ray",
        workers=2,
        candidates=["good", "bad"],
        template="It is {}.",
        multi_label=True,
        address="auto",
        storage="s3://bucket/run",
        strict=True,
        examples_per_part=5,
        probes={"names": ["Anna", "Mohammed"]},
    )
    usual = RunPlan("reviews.csv")
    assert all(
        getattr(plan, field.name) != getattr(usual, field.name) for field in fields(plan) if field.name != "data"
    )
    for one in (plan, usual):
        written = json.loads(json.dumps(one.to_manifest()))
        assert RunPlan.from_manifest({"configuration": {"plan": written["plan"]}, "how": written["how"]}) == one
    assert RunPlan("x", data_dir=tmp_path).to_manifest()["how"]["data_dir"] == str(tmp_path)
    assert set(HOW) < {field.name for field in fields(RunPlan)}


@pytest.mark.parametrize("manifest", [{}, {"configuration": {"plan": {"what": 1}}, "how": {}}])
def test_what_is_no_plan(manifest: dict[str, Any]) -> None:
    with pytest.raises(BadFile, match="holds no plan of a run"):
        RunPlan.from_manifest(manifest)


def test_a_run_continues_from_its_folder_alone(tmp_path: Path, model_folder: Path, texts: Path) -> None:
    class Stop(Exception):
        pass

    def stop(done: int, _: int) -> None:
        if done:
            raise Stop

    plan = RunPlan(
        str(texts), model=str(model_folder), methods="attcat,random", metrics="all", workers=1, examples_per_part=3
    )
    with pytest.raises(Stop):
        run(plan, tmp_path, on_progress=stop)
    stopped = Run.load(tmp_path)
    assert not stopped.finished
    assert stopped.plan.methods == ["attcat", "random"]
    assert stopped.plan.metrics is not None
    assert "auprc" in stopped.plan.metrics  # the data have rationales, so "all" has what needs them
    finished = run(stopped.plan, tmp_path)
    assert finished.finished
    assert len(finished.explanations) == 2 * len(TEXTS)
    assert finished.manifest == stopped.manifest


def test_how_the_work_is_done_may_change(tmp_path: Path, model_folder: Path, texts: Path) -> None:
    chosen: dict[str, Any] = {"model": str(model_folder), "methods": "random", "metrics": "entropy", "limit": 2}
    first = run(RunPlan(str(texts), workers=1, **chosen), tmp_path)
    again = run(RunPlan(str(texts), workers=2, strict=True, columns={"text": "text"}, **chosen), tmp_path)
    assert again.manifest == first.manifest
    given = wherefrom.load(str(model_folder))
    assert run(RunPlan(str(texts), **chosen | {"model": given}), tmp_path).manifest == first.manifest


def test_the_columns_are_those_of_an_explanation(tmp_path: Path, model_folder: Path, texts: Path) -> None:
    known = {field.name for field in fields(Explanation)}
    assert {column.name for column in EXPLANATION_COLUMNS if column.field} < known
    assert not {column.name for column in EXPLANATION_COLUMNS if not column.field} & known
    needed = {"text", "tokens", "scores", "offsets", "segment", "target", "probability", "prediction", "method"}
    assert needed < {column.name for column in EXPLANATION_COLUMNS}
    assert {*BESIDE, *RENAMED, *LEFT_OUT} == {column.name for column in EXPLANATION_COLUMNS}
    chosen: dict[str, Any] = {"model": str(model_folder), "methods": "integrated_gradients:steps=3", "limit": 1}
    found = run(RunPlan(str(texts), metrics="entropy", workers=1, **chosen), tmp_path)
    (row,) = found.rows("explanations")
    assert list(row) == [column.name for column in EXPLANATION_COLUMNS]
    kept = explanation_of(row)
    direct = wherefrom.load(str(model_folder)).explain(TEXTS[0], "integrated_gradients", steps=3)
    assert kept.scores == pytest.approx(direct.scores, abs=1e-5)
    assert kept.gap == pytest.approx(direct.gap, abs=1e-4)
    for name in ("text", "pair", "tokens", "offsets", "segment", "target", "prediction", "level", "signed", "params"):
        assert getattr(kept, name) == getattr(direct, name), name


def test_the_docs_list_every_column() -> None:
    page = (Path(__file__).parents[2] / "docs" / "running-a-benchmark.md").read_text(encoding="utf-8")
    table = page.partition("`explanations`:")[2].partition("`errors`:")[0]
    assert [column.name for column in EXPLANATION_COLUMNS if f"`{column.name}`" not in table] == []
