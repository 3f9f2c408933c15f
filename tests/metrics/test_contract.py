"""What a metric may be: with or without questions, with the logits of every class, for one explanation or for many."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import make_model, tiny
from toys import additive_model

import wherefrom
from wherefrom import optimus, registry
from wherefrom.api import Model
from wherefrom.core.arrays import Flags
from wherefrom.errors import BadOption, NotDefined
from wherefrom.grading import grade
from wherefrom.grading.evidence import Answers, Evidence
from wherefrom.grading.grade import ConfiguredMetric, score_many, shared_questions
from wherefrom.model.hiding import fill_token
from wherefrom.registry import all_metrics, find_metric, metric

TEXT = "the film was not bad, but dull!"
PAIR = ("is the plot good ?", "a fine film . the acting was never dull")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test registers is gone after it."""
    all_metrics()
    monkeypatch.setitem(registry._known, "metric", dict(registry._known["metric"]))


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The metrics of plugin.py, loaded through their entry point."""
    monkeypatch.delitem(sys.modules, "metrics.plugin", raising=False)
    entry = EntryPoint("flips", "metrics.plugin", "wherefrom.metrics")
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry] if group == "wherefrom.metrics" else [])
    registry._load.cache_clear()
    all_metrics()
    yield
    sys.modules.pop("metrics.plugin", None)


def masked_model(**weights: float) -> Model:
    return Model(additive_model(**weights))


@pytest.mark.usefixtures("plugins")
def test_decision_flips_by_hand() -> None:
    """The classes' logits are 0 and the sum of the words' weights. Of 2.0 - 0.5 - 1.0 = 0.5, without "good" -1.5."""
    model = masked_model(good=2.0, bad=-0.5, film=-1.0)
    (grades,) = model.compare("good bad film", ["input_x_gradient"], ["decision_flip:fill=unk"], target=1).grades
    assert grades[0].value == pytest.approx(1 / 3)
    assert grades[0].details["hidden"] == 1
    assert grades[0].details["flips"][:2] == [True, True]
    # 2.0 + 1.5 - 1.0: without "good" 0.5, without "bad" too -1.0
    model = masked_model(good=2.0, bad=1.5, film=-1.0)
    (grades,) = model.compare("good bad film", ["input_x_gradient"], ["decision_flip:fill=unk"], target=1).grades
    assert grades[0].value == pytest.approx(2 / 3)
    assert grades[0].details["flips"][:2] == [False, True]


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize("task", ["classification", "multi_label", "question_answering", "causal_lm"])
@pytest.mark.parametrize("fill", ["unk", "delete"])
def test_the_logits_of_every_class_are_those_of_the_rows_that_were_asked(
    task: str, fill: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question put to the network alone gives the logits that the metric was given for it."""
    kinds: dict[str, Any] = {
        "classification": {},
        "multi_label": {"labels": 5, "problem_type": "multi_label_classification"},
        "question_answering": {"task": "question_answering"},
        "causal_lm": {"task": "causal_lm"},
    }
    reader = make_model("gpt2" if task == "causal_lm" else "bert", dtype=torch.float64, **kinds[task])
    seen: list[tuple[Evidence, Answers]] = []
    row = find_metric("decision_flip").function

    def watched(self: Any, evidence: Evidence, answers: Answers) -> float:
        seen.append((evidence, answers))
        return 0.0

    monkeypatch.setattr(row, "score", watched)
    text = PAIR if task == "question_answering" else TEXT
    encoding = reader.encode(*(text if isinstance(text, tuple) else (text,)))
    (explanation,) = Model(reader).compare(text, ["random"], [f"decision_flip:fill={fill}"]).explanations
    ((evidence, answers),) = seen
    assert answers.independent == (task == "multi_label")
    assert answers.keep.tolist() == evidence.without(range(1, len(evidence) + 1)).tolist()
    assert len(answers.logits) == len(answers.probabilities) == len(answers.keep)
    if task == "question_answering":
        assert answers.logits.shape == (len(evidence), 2, len(encoding))
        chances = np.exp(answers.logits) / np.exp(answers.logits).sum(-1, keepdims=True)
        ends = [chances[:, int(target.boundary == "end"), target.index] for target in explanation.components]
        assert len(ends) == 2
        np.testing.assert_allclose(answers.probabilities, ends[0] * ends[1], rtol=1e-9)
        return
    for kept, logits in zip(answers.keep, answers.logits, strict=True):
        hidden = np.where(kept, encoding.input_ids, fill_token(reader, "unk")).tolist()
        left = [place for place, keep in enumerate(kept) if keep or fill != "delete"]
        if not left:
            continue
        ids = torch.tensor([[hidden[place] for place in left]])
        with torch.no_grad():
            expected = reader.network.module(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0]
        expected = expected[-1] if task == "causal_lm" else expected
        np.testing.assert_allclose(logits, expected.numpy(), rtol=0, atol=1e-9)


@pytest.mark.usefixtures("plugins")
def test_a_metric_that_grades_many_at_once_chooses_as_one_that_grades_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it comes from a plug-in; and then no explanation is graded alone."""
    model = Model(tiny("bert", torch.float64))
    row = find_metric("signed_gain")
    together = model.explain(TEXT, "optimus", metric="signed_gain", all_scores=True, raw="A*").selection[0]
    asked_together = optimus.fit(model, ["a dull film", "a great plot !"], metric="signed_gain", raw="A*")
    with monkeypatch.context() as without:
        without.delattr(row.function, "score_many")
        assert not row.grades_many
        alone = model.explain(TEXT, "optimus", metric="signed_gain", all_scores=True, raw="A*").selection[0]
        asked_alone = optimus.fit(model, ["a dull film", "a great plot !"], metric="signed_gain", raw="A*")
    for matrix, table in alone["scores"]["A*"]["scores"].items():
        np.testing.assert_allclose(together["scores"]["A*"]["scores"][matrix], table, rtol=1e-9, atol=1e-12)
    assert asked_together.score == pytest.approx(asked_alone.score)

    def not_called(*_: object) -> None:
        raise AssertionError("graded one by one")

    monkeypatch.setattr(row.function, "score", not_called)
    assert model.explain(TEXT, "optimus", metric="signed_gain", raw="A*").selection[0]["score"] == together["score"]


@pytest.mark.parametrize("name", [row.name for row in all_metrics() if row.grades_many])
def test_many_at_once_are_graded_as_each_alone(name: str) -> None:
    generator = np.random.default_rng(0)
    special = np.asarray([True, False, False, False, False, True])
    scores = np.round(generator.normal(size=(7, 6)), 1)
    scores[0] = 0
    scores[1, 1:3] = 0.4
    one = ConfiguredMetric.read(name)
    answers = Answers(0.6, generator.uniform(size=4), shared_questions(one, special))
    each = [one.metric.score(Evidence(row, special), answers) for row in scores]
    np.testing.assert_allclose(score_many(scores[:, ~special], one, answers), each, rtol=1e-12)


def test_questions_that_depend_on_the_scores_cannot_serve_many() -> None:
    @metric(better="higher", paper="none")
    @dataclass(frozen=True, kw_only=True)
    class Wrong:
        fill: str = "unk"

        def questions(self, evidence: Evidence) -> Flags:
            return evidence.without([1])

        def score(self, evidence: Evidence, answers: Answers) -> float:
            return 0.0

        def score_many(self, scores: Any, answers: Answers) -> Any: ...

    with pytest.raises(BadOption, match=r"wrong has score_many.*its questions depend on the scores"):
        Model(tiny("bert", torch.float64)).explain(TEXT, "optimus", metric="wrong")


@pytest.mark.parametrize("given", ["number", "reason"])
def test_what_many_cannot_be_graded_by(given: str) -> None:
    @metric(better="higher", paper="none")
    @dataclass(frozen=True, kw_only=True)
    class Odd:
        fill: str = "unk"

        def questions(self, evidence: Evidence) -> Flags:
            return evidence.each()

        def score(self, evidence: Evidence, answers: Answers) -> float:
            return 0.0

        def score_many(self, scores: Any, answers: Answers) -> Any:
            if given == "reason":
                raise NotDefined("for no reason")
            return 3.0

    model = Model(tiny("bert", torch.float64))
    if given == "number":
        with pytest.raises(BadOption, match=r"must return one number for each, but returned an array of shape \(\)"):
            model.explain(TEXT, "optimus", metric="odd")
    else:
        with pytest.raises(NotDefined, match="odd is not defined for anything"):
            model.explain(TEXT, "optimus", metric="odd")


def test_logits_are_for_metrics_that_want_them() -> None:
    answers = Answers(0.5, np.zeros(1), np.ones((1, 2), dtype=np.bool_))
    for name in ("logits", "whole_logits"):
        with pytest.raises(BadOption, match="wants_logits = True"):
            getattr(answers, name)


def test_no_branch_on_a_metrics_class() -> None:
    """The code that grades and searches knows metrics by what they declare."""
    import ast
    from pathlib import Path

    names = {row.function.__name__ for row in all_metrics() if row.function.__module__.startswith("wherefrom.")}
    root = Path(wherefrom.__file__).parent
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                kinds = {one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)}
                assert not kinds & names, f"{path}: {kinds & names}"


def each(self: Any, evidence: Evidence) -> Flags:
    return evidence.each()


def three(self: Any, evidence: Evidence, whole: float, answers: Any) -> float:
    return 0.0


def two(self: Any, evidence: Evidence, answers: Any) -> float:
    return 0.0


def one(self: Any, evidence: Evidence) -> float:
    return 0.0


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, r"'toy' has no method score\(self, evidence\)"),
        ({"score": 3}, r"'toy' has no method score\(self, evidence\)"),
        ({"score": three}, r"score of the metric 'toy' takes .*whole.* called as score\(self, evidence\)"),
        ({"score": two}, r"in a metric without questions it is called as score\(self, evidence\)"),
        ({"score": three, "questions": each, "fill": "unk"}, r"called as score\(self, evidence, answers\)"),
        ({"score": one, "questions": each, "fill": "unk"}, r"called as score\(self, evidence, answers\)"),
        ({"score": two, "questions": two, "fill": "unk"}, r"called as questions\(self, evidence\)"),
        ({"score": two, "questions": each}, "needs a field `fill`"),
        (
            {"score": two, "questions": each, "fill": "unk", "score_many": one},
            r"called as score_many\(self, scores, answers\)",
        ),
        ({"score": one, "score_many": two}, "has score_many, which is for metrics that hide words"),
        ({"score": one, "wants_logits": True}, "has wants_logits, which is for metrics that hide words"),
    ],
)
def test_a_class_that_fits_neither_form_is_refused(members: dict[str, Any], message: str) -> None:
    fields = {"__annotations__": {"fill": str} if "fill" in members else {}}
    toy: Any = dataclass(frozen=True, kw_only=True)(type("Toy", (), {**members, **fields}))
    with pytest.raises(BadOption, match=message):
        metric(better="higher", paper="none")(toy)
    assert "toy" not in registry._known["metric"]


def test_both_forms_are_accepted() -> None:
    declare = metric(better="higher", paper="none")
    declare(dataclass(frozen=True)(type("Plain", (), {"score": one})))
    members = {"score": two, "questions": each, "fill": "unk", "__annotations__": {"fill": str}}
    declare(dataclass(frozen=True, kw_only=True)(type("Asking", (), members)))
    assert not find_metric("plain").asks
    assert find_metric("asking").asks
    assert grade.ConfiguredMetric.read("asking:fill=pad").insists
