"""Audits of every kind of model, from data to numbers that are counted by hand, and what stops and refuses one."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark.films import TEXTS
from tiny_models import make_model

import wherefrom
from audit.planted import LABELS, WORD, texts, trained
from wherefrom.api import Model
from wherefrom.audit import build
from wherefrom.audit.build import RESULT, audit
from wherefrom.audit.plan import AuditPlan
from wherefrom.benchmark.store import Run
from wherefrom.benchmark.summary import summarise
from wherefrom.core.audit import LEAST, Audit, Estimate
from wherefrom.errors import BadFile, BadOption

ROWS = [{"id": f"f{number}", "text": text} for number, text in enumerate(TEXTS)]


def function_model(seed: int = 0, planted: str = "positive") -> Model:
    generator = np.random.default_rng(seed)
    learnt = texts(300, generator, planted=planted)
    return wherefrom.load(trained(learnt), labels=LABELS, outputs="probabilities")


def data(count: int = 60, seed: int = 5) -> list[dict[str, Any]]:
    return texts(count, np.random.default_rng(seed), planted="anywhere")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Audit, Path, Model, list[dict[str, Any]]]:
    folder, model, rows = tmp_path_factory.mktemp("audit"), function_model(), data()
    for number, row in enumerate(rows):
        row["source"] = "web" if number % 2 else "print"
    found = model.audit(rows, folder, metadata=["source"], groups={"things": ["film", "movie"]})
    return found, folder, model, rows


def test_every_number_is_counted_by_hand(done: tuple[Audit, Path, Model, list[dict[str, Any]]]) -> None:
    found, _, model, rows = done
    predicted = [answer.prediction for answer in model.predict([row["text"] for row in rows])]
    right = sum(now == row["label"] for now, row in zip(predicted, rows, strict=True))
    assert found.performance.accuracy.value == right / 60
    matrix = [[0, 0], [0, 0]]
    for now, row in zip(predicted, rows, strict=True):
        matrix[LABELS.index(row["label"])][LABELS.index(now)] += 1
    assert found.performance.confusion == tuple(map(tuple, matrix))
    f1 = [2 * matrix[k][k] / (sum(matrix[k]) + matrix[0][k] + matrix[1][k]) for k in (0, 1)]
    assert found.performance.macro_f1.value == pytest.approx(np.mean(f1))
    flips = 0
    for now, row in zip(predicted, rows, strict=True):
        words = row["text"].split()
        shorter = [" ".join(other for other in words if other != word) for word in dict.fromkeys(words)]
        flips += any(answer.prediction != now for answer in model.predict(shorter))
    assert found.fragility.one_word.value == pytest.approx(flips / 60)
    in_web = [now == row["label"] for now, row in zip(predicted, rows, strict=True) if row["source"] == "web"]
    (group,) = [group for group in found.performance.groups if group.name == "source = web"]
    assert (group.accuracy.value, group.accuracy.texts) == (np.mean(in_web), 30)
    swaps = {change.name for change in found.fragility.changes if change.group == "things"}
    assert swaps == {"film -> movie", "movie -> film"}


def test_every_number_is_over_five_texts_or_is_none(done: tuple[Audit, Path, Model, list[dict[str, Any]]]) -> None:
    def estimates(value: Any) -> list[Estimate]:
        if isinstance(value, Estimate):
            return [value]
        if is_dataclass(value):
            return [one for field in fields(value) for one in estimates(getattr(value, field.name))]
        return [one for item in value for one in estimates(item)] if isinstance(value, tuple) else []

    found = estimates(done[0])
    assert len(found) > 20
    for one in found:
        assert (one.value is None) == (one.texts < LEAST)
        if one.value is not None:
            assert one.low is not None
            assert one.high is not None
            assert one.low <= one.value <= one.high


def test_an_audit_is_saved_whole(done: tuple[Audit, Path, Model, list[dict[str, Any]]], tmp_path: Path) -> None:
    found, folder, *_ = done
    assert Audit.load(folder / RESULT) == found
    assert json.loads(found.to_json())["wherefrom_audit"] == 1
    assert found.to_markdown().startswith("## What this model leans on")
    assert list(summarise(Run.load(folder / "run")).boards) == ["comprehensiveness"]  # probes are no metric's scores


def test_an_older_model_beside_it(done: tuple[Audit, Path, Model, list[dict[str, Any]]], tmp_path: Path) -> None:
    found, _, model, rows = done
    older = function_model(1, planted="anywhere")
    both = model.audit(rows, tmp_path, against=older)
    now, before = (
        [answer.prediction for answer in one.predict([row["text"] for row in rows])] for one in (model, older)
    )
    assert both.changes is not None
    assert both.changes.decisions.value == pytest.approx(np.mean([a != b for a, b in zip(now, before, strict=True)]))
    gold = [row["label"] for row in rows]
    assert both.changes.fixed == sum(a == g != b for a, b, g in zip(now, before, gold, strict=True))
    assert both.changes.broken == sum(b == g != a for a, b, g in zip(now, before, gold, strict=True))
    assert both.performance == found.performance or both.performance.accuracy == found.performance.accuracy
    assert WORD in [word.word for word in both.changes.words]
    same = model.audit(rows, tmp_path / "same", against=model)
    assert same.changes is not None
    assert (same.changes.decisions.value, same.changes.words, same.changes.new_shortcuts) == (0.0, (), ())


@pytest.mark.parametrize(
    ("rows", "more", "kind"),
    [
        (ROWS, {"labels": 3}, "labels"),
        ([row | {"label": "LABEL_1"} for row in ROWS], {"labels": 3}, "labels"),
        ([row | {"label": ["LABEL_0", "LABEL_2"]} for row in ROWS], {"labels": 3, "several": True}, "labels"),
        ([row | {"pair": "the plot was bad", "label": 0} for row in ROWS], {"labels": 3}, "labels"),
        ([row | {"label": 0.5} for row in ROWS], {"labels": 1}, "value"),
        (ROWS, {"labels": 3, "task": "token_classification"}, "tags"),
    ],
    ids=["no labels", "labels", "several labels", "pairs", "values", "tags"],
)
def test_every_kind_of_model(rows: list[dict[str, Any]], more: dict[str, Any], kind: str, tmp_path: Path) -> None:
    options = dict(more)
    if options.pop("several", False):
        options["problem_type"] = "multi_label_classification"
    if options.get("task") == "token_classification":
        options["id2label"] = {0: "O", 1: "B-PER", 2: "B-LOC"}
    found = Model(make_model("bert", **options)).audit(rows, tmp_path)
    assert (found.kind, found.texts, found.failed) == (kind, 10, 0)
    assert found.decisions >= 5
    if kind == "value":
        assert found.performance.error.texts == 10
        assert found.fragility.values.value is not None
        assert found.fragility.one_word.value is None
    elif kind == "labels":
        assert found.fragility.one_word.texts == 10 or "several" in more
        assert (found.performance.accuracy.value is None) == ("label" not in rows[0])
    if "several" in more:
        assert found.performance.accuracy.texts == 10  # also those for which nothing is predicted
        assert found.performance.confusion == ()
    for view in (found.to_html(), found.to_markdown()):
        assert "None" not in view.replace("None is suspected", "").replace("No label", "")
    found.show()
    assert Audit.from_json(found.to_json()) == found


def test_a_stopped_audit_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after a part of the run, and once more after the run; the result is that of an audit in one go."""
    model, rows = function_model(), data(48)

    class Stop(Exception):
        pass

    done = list[int]()

    def stop_late(so_far: int, _: int) -> None:
        done.append(so_far)
        if so_far >= 16:
            raise Stop

    with pytest.raises(Stop):
        model.audit(rows, tmp_path / "stopped", progress=stop_late)
    reading = build._audited
    monkeypatch.setattr(build, "_audited", lambda *_: (_ for _ in ()).throw(Stop()))
    resumed = list[int]()
    with pytest.raises(Stop):
        model.audit(rows, tmp_path / "stopped", progress=lambda so_far, _: resumed.append(so_far))
    assert resumed[0] >= 16  # what was done is not done again
    monkeypatch.setattr(build, "_audited", reading)
    finished = list[int]()
    again = model.audit(rows, tmp_path / "stopped", progress=lambda so_far, _: finished.append(so_far))
    assert finished == [48]
    whole = model.audit(rows, tmp_path / "whole")
    assert again.to_dict() | {"examples": ()} == whole.to_dict() | {"examples": ()}  # examples have times in them


def test_what_an_audit_refuses(tmp_path: Path) -> None:
    model = function_model()
    with pytest.raises(BadOption, match="list of mappings"):
        model.audit([], tmp_path)
    with pytest.raises(BadOption, match="list of at least two"):
        model.audit(data(5), tmp_path, groups={"names": ["Anna"]})
    with pytest.raises(BadFile, match="no column 'source'"):
        model.audit(data(5), tmp_path, metadata=["source"])
    with pytest.raises(BadOption, match="decides among labels"):
        audit(AuditPlan(data="sample:reviews", model=make_model("gpt2", task="causal_lm")), tmp_path / "language")
