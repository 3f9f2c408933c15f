"""The checks of `wherefrom.testing` accept what is ours, and find what is wrong on purpose, law by law."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import numpy as np
import pytest
import torch
from task_table import ASKED, model_of
from tiny_models import CHEAP, CONFIGS, make_model, tiny
from torch import Tensor

from wherefrom import registry, testing
from wherefrom.api import Model
from wherefrom.case.case import Attribution, Case
from wherefrom.core.arrays import Flags
from wherefrom.errors import NotSeen
from wherefrom.grading.evidence import Answers, Evidence
from wherefrom.model.network import NetworkCall
from wherefrom.model.tasks.classification import Classification
from wherefrom.registry import all_families, all_methods, all_metrics, find_method, method, metric
from wherefrom.testing import LawBroken, check_family, check_method, check_metric, check_task


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test registers is gone after it."""
    all_methods(), all_metrics(), all_families()
    for kind in ("method", "metric", "family"):
        monkeypatch.setitem(registry._known, kind, dict(registry._known[kind]))


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(tiny("bert", torch.float64))


def test_it_imports_without_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; import wherefrom.testing"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- methods: a right one, and one for every law that it breaks


def right(case: Case) -> Tensor:
    """Input x gradient."""
    return (case.embeddings * case.embedding_gradient).sum(-1)


def declare(function: Any, **facts: Any) -> None:
    declared: dict[str, Any] = {
        "signed": True,
        "per_class": True,
        "reads": "embeddings",
        "paper": "none",
        "family": "toy",
    }
    function.__name__, function.__kwdefaults__ = "toy", None
    method(**(declared | facts))(function)


def test_a_right_method_passes(model: Model) -> None:
    declare(lambda case: right(case))
    check_method("toy", model)
    check_method("toy")  # on the embedded model


def one_too_many(case: Case) -> Tensor:
    return torch.ones(len(case.encoding) + 1)


def infinite(case: Case) -> Tensor:
    return right(case) / 0


def none_for_words(case: Case) -> Tensor:
    return right(case)[: len(case.units)] if case.level == "token" else torch.ones(1)


def same_for_all_classes(case: Case) -> Tensor:
    return case.embeddings.sum(-1)


def leaves_a_hook(case: Case) -> Tensor:
    case.anatomy.blocks[0].module.register_forward_hook(lambda *_: None)
    return right(case)


def leaves_a_hook_after_an_error(case: Case) -> Tensor:
    handle = case.anatomy.blocks[0].module.register_forward_hook(lambda *_: None)
    nothing = torch.zeros(1, len(case.encoding), dtype=torch.bool)
    case.ask(nothing, "mask")
    handle.remove()
    return right(case)


def swallows_errors(case: Case) -> Tensor:
    try:
        case.ask(torch.zeros(1, len(case.encoding), dtype=torch.bool), "mask")
    except RuntimeError:
        return same_for_all_classes(case)
    return right(case)


def rolled(case: Case) -> Tensor:
    return right(case).roll(1, -1)


@pytest.mark.parametrize(
    ("function", "facts", "law"),
    [
        (one_too_many, {}, r"toy: each token or word has one finite score; on 'the film was not bad"),
        (infinite, {}, "toy: each token or word has one finite score.*not finite"),
        (none_for_words, {"scores_units": True}, r"toy: each token or word has one finite score.*shape \(1,\)"),
        (right, {"signed": False}, "toy: no negative score, because signed=False"),
        (right, {"per_class": False}, "toy: scores do not depend on the class, because per_class=False"),
        (same_for_all_classes, {}, "toy: scores depend on the class, because per_class=True"),
        (leaves_a_hook, {}, r"toy: the model is left unchanged; on \['hooks'\]"),
        (leaves_a_hook_after_an_error, {}, "toy, after an error inside pass 2: the model is left unchanged"),
        (swallows_errors, {}, "toy: it swallows no error of the model"),
        (rolled, {}, "toy: scores follow their tokens"),
    ],
)
def test_a_method_that_breaks_a_law(function: Any, facts: dict[str, Any], law: str) -> None:
    declare(lambda case: function(case), **facts)
    with pytest.raises(LawBroken, match=law):
        check_method("toy", Model(make_model("bert", dtype=torch.float64)))


@pytest.mark.parametrize(
    ("calls", "law"),
    [
        (5, "toy: the same scores alone and in a list"),
        (9, "toy: the same scores in any order of the list"),
        (13, "toy: the same scores inside torch.no_grad"),
        (14, "toy: the same scores inside torch.inference_mode"),
    ],
)
def test_a_method_that_remembers_how_often_it_was_called(calls: int, law: str, model: Model) -> None:
    count = itertools.count(1)
    declare(lambda case: right(case) * (1 if next(count) <= calls else 2))
    with pytest.raises(LawBroken, match=law):
        check_method("toy", model)


@pytest.mark.parametrize("name", [row.name for row in all_methods() if row.family != "floor"])
def test_scores_of_any_method_that_are_rolled_by_one_token(
    name: str, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = find_method(name)

    @wraps(row.function)
    def rolled(case: Case, **options: Any) -> Tensor | Attribution:
        scores: Tensor | Attribution = row.function(case, **options)
        if isinstance(scores, Tensor):
            return scores.roll(1, -1)
        return replace(scores, scores=scores.scores.roll(1, -1))

    blind, options = testing._without_positions(model), CHEAP.get(name, {})
    assert blind is not None
    testing._check_scores_follow_tokens(name, blind, options, 1e-9)
    monkeypatch.setitem(registry._known["method"], name, replace(row, function=rolled, asks=None, same_as=None))
    with pytest.raises(LawBroken, match="scores follow their tokens"):
        testing._check_scores_follow_tokens(name, blind, options, 1e-9)


# ---- metrics


@dataclass(frozen=True, kw_only=True)
class Right:
    fill: str = "mask"

    def questions(self, evidence: Evidence) -> Flags:
        return evidence.each()

    def score(self, evidence: Evidence, answers: Answers) -> float:
        return float(evidence.scores[evidence.real] @ answers.drops)

    def score_many(self, scores: Any, answers: Answers) -> Any:
        return scores @ answers.drops


values = itertools.count()


def hides_special(self: Any, evidence: Evidence) -> Flags:
    return ~np.eye(len(evidence.scores), dtype=np.bool_)


def changes_scores(self: Any, evidence: Evidence, answers: Answers) -> float:
    evidence.scores[:] = 0
    return 0.0


def changes_answers(self: Any, evidence: Evidence, answers: Answers) -> float:
    answers.probabilities[:] = 0
    return 0.0


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        ({}, None),
        ({"questions": lambda self, evidence: evidence.each().astype(int)}, "questions are rows of a flag"),
        ({"questions": lambda self, evidence: evidence.each()[:, 1:]}, "questions are rows of a flag for each unit"),
        ({"questions": hides_special}, "questions never hide a special token"),
        ({"score": lambda self, evidence, answers: float("nan")}, "a finite number, or NotDefined.*nan"),
        ({"score": lambda self, evidence, answers: next(values)}, "the same scores have the same value"),
        ({"score": changes_scores}, "it changes nothing that it is given; on 'scores'"),
        ({"score": changes_answers}, "it changes nothing that it is given; on 'answers'"),
        ({"score_many": lambda self, scores, answers: scores @ answers.drops + 1}, "score_many gives the values"),
        ({"questions": lambda self, evidence: evidence.without([1])}, "with score_many, questions do not depend"),
    ],
)
def test_a_metric_that_breaks_a_law(wrong: dict[str, Any], law: str | None) -> None:
    if "score" in wrong:  # without score_many
        toy = type("Toy", (), {"questions": Right.questions, "fill": "mask", "__annotations__": {"fill": str}} | wrong)
    elif "questions" in wrong:
        toy = type("Toy", (Right,), {"score": lambda self, evidence, answers: 0.0} | wrong)
    else:
        toy = type("Toy", (Right,), wrong)
    metric(better="higher", paper="none")(dataclass(frozen=True, kw_only=True)(toy))
    if law is None:
        check_metric("toy")
        return
    with pytest.raises(LawBroken, match=f"toy: {law}"):
        check_metric("toy")


@pytest.mark.parametrize("name", [row.name for row in all_metrics()])
def test_our_metrics(name: str) -> None:
    check_metric(name)


# ---- families


@pytest.mark.parametrize("name", CONFIGS)
def test_our_families(name: str) -> None:
    model = Model(make_model(name, dtype=torch.float64))
    if all_families()[name].unseen is None:
        check_family(model)
        return
    with pytest.raises(NotSeen, match=f"Not defined for {name}"):
        check_family(model)


@pytest.mark.parametrize(
    ("name", "wrong", "law"),
    [
        ("bert", {"order": "pre"}, "blocks are rebuilt from their parts"),
        ("bert", {"attention_norm": "output.LayerNorm"}, "blocks are rebuilt from their parts"),
        ("bert", {"reads": "last"}, r"the decision is read at reads='last'.*\[0\]"),
        ("bert", {"reads": "every"}, "the decision is read at reads='every'"),
        ("llama", {"reads": "first"}, "the decision is read at reads='first'"),
        ("llama", {"attention_norm": "post_attention_layernorm"}, "the attention reads what attention_norm gives"),
        ("llama", {"mlp_norm": "input_layernorm"}, "blocks are rebuilt from their parts"),
    ],
)
def test_a_row_that_is_wrong(name: str, wrong: dict[str, Any], law: str) -> None:
    registry._known["family"][name] = replace(all_families()[name], **wrong)
    with pytest.raises(LawBroken, match=f"{name}: {law}"):
        check_family(Model(make_model(name, dtype=torch.float64)))


def test_a_path_that_is_wrong() -> None:
    registry._known["family"]["bert"] = replace(all_families()["bert"], attention="attention.nothing")
    with pytest.raises(NotSeen, match="not laid out as its family usually is"):
        check_family(Model(make_model("bert")))


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        (lambda layers: layers[1:], "one attention for each block that runs"),
        (lambda layers: [replace(layer, probs=layer.probs[..., 1:]) for layer in layers], r"\(head, token, token\)"),
        (lambda layers: [replace(layer, probs=layer.probs * 2) for layer in layers], "attention sums to at most one"),
        (lambda layers: [replace(layer, scores=layer.scores * 2) for layer in layers], "is the softmax of its scores"),
    ],
)
def test_attention_that_is_not_what_it_should_be(wrong: Any, law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = testing._case

    def tampered(model: Model, text: Any) -> Case:
        case = make(model, text)
        case.__dict__["capture"] = replace(case.capture, attention=wrong(case.capture.attention))
        return case

    monkeypatch.setattr(testing, "_case", tampered)
    with pytest.raises(LawBroken, match=f"bert: .*{law}"):
        check_family(Model(make_model("bert", dtype=torch.float64)))


def test_a_model_that_answers_otherwise_when_it_is_looked_at() -> None:
    bert = make_model("bert", dtype=torch.float64)
    module: Any = bert.network.module
    module.base_model.embeddings.LayerNorm.register_forward_hook(
        lambda module, args, output: output * (2 if torch.is_grad_enabled() else 1)
    )
    with pytest.raises(LawBroken, match="looking inside does not change the answer"):
        check_family(Model(bert))


# ---- tasks


@pytest.mark.parametrize("name", [name for name in ASKED if name != "a function"])
def test_our_tasks(name: str) -> None:
    _, text = ASKED[name]
    longer = (f"{text[0]} and dull", text[1]) if isinstance(text, tuple) else f"a dull {text}"
    check_task(model_of(name), [text, longer])


def another(self: Any, model: Any, spec: Any, logits: Tensor, encoding: Any) -> Any:
    return [] if spec is not None else self.others(model, self.predicted(model, logits, encoding))


def depends_on_batch(self: Any, output: Any, inputs: Any, positions: Any) -> Tensor:
    logits: Tensor = output.logits
    return logits * len(logits)


def wrong_order(self: Any, output: Any, inputs: Any, positions: Any) -> Tensor:
    logits: Tensor = output.logits
    return logits * (-1 if len(logits) > 1 else 1)


def forgets_vectors(self: Any, model: Any, inputs: Any, embeddings: Any) -> NetworkCall:
    return NetworkCall(dict(inputs), ())


def doubles_vectors(self: Any, model: Any, inputs: Any, embeddings: Any) -> NetworkCall:
    return NetworkCall(dict(inputs), ((inputs["input_ids"], None if embeddings is None else embeddings * 2),))


def hooked(self: Any, model: Any, target: Any) -> Any:
    model.network.module.register_forward_hook(lambda *_: None)
    return []


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        ({}, None),
        ({"logits": wrong_order}, "the same target and prediction in a list"),
        ({"logits": depends_on_batch}, "the same probability in a list"),
        ({"targets": another}, "without a target, the prediction is explained"),
        ({"probabilities": lambda *_: {"a": 1.5}}, "probabilities are between zero and one"),
        ({"probabilities": lambda *_: {"a": 0.8, "b": 0.8}}, "exclude each other sum to at most one"),
        ({"restored": lambda self, model, *_: [model.target(1), model.target(0)]}, "a restored target has the same"),
        ({"others": lambda self, model, target: [target]}, "the other classes differ from the target"),
        ({"call": forgets_vectors}, "hiding hides"),
        ({"call": doubles_vectors}, "the words' own vectors give the same answer"),
        ({"others": hooked}, "the model is left unchanged"),
    ],
)
def test_a_task_that_breaks_a_law(wrong: dict[str, Any], law: str | None) -> None:
    task: Any = type("Toy", (Classification,), wrong | {"name": "toy"})()
    model = Model(replace(make_model("bert", dtype=torch.float64), task=task))
    if law is None:
        check_task(model, ["a great film", "dull"])
        return
    with pytest.raises(LawBroken, match=f"toy: .*{law}"):
        check_task(model, ["a great film", "dull"])
