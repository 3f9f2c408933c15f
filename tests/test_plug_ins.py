"""Families, tasks and data readers of other packages: a user's own architecture is a row outside of our tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import tiny_models
import torch
from tiny_models import SIZES, make_model, tokenizer
from toy_family_plugin import ARCEE, REVIEWS, read_reviews
from toy_task_plugin import NEXT_SENTENCE, NextSentence
from transformers import BertConfig, BertForNextSentencePrediction, PreTrainedModel, PreTrainedTokenizerBase

import wherefrom
from wherefrom import DataReader, Family, registry
from wherefrom.benchmark.datasets import DataSet
from wherefrom.doctor import examine
from wherefrom.errors import BadOption, NotSeen, WherefromError, WrongModel
from wherefrom.model.families import FAMILIES, family_of, known_types
from wherefrom.registry import all_families, all_readers, all_tasks
from wherefrom.testing import check_task


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """What a test registers is forgotten after it."""
    all_families(), all_readers(), all_tasks()
    before = {kind: dict(registry._known[kind]) for kind in ("family", "task", "reader")}
    yield
    registry._known.update(before)
    registry._load.cache_clear()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make entry points known, as an installed package would."""

    def install(**groups: dict[str, str]) -> None:
        found = {
            f"wherefrom.{group}": [EntryPoint(name, value, f"wherefrom.{group}") for name, value in entries.items()]
            for group, entries in groups.items()
        }
        monkeypatch.setattr(registry, "entry_points", lambda group: found.get(group, []))
        registry._load.cache_clear()

    return install


def arcee(monkeypatch: pytest.MonkeyPatch) -> wherefrom.Model:
    monkeypatch.setitem(tiny_models.CONFIGS, "arcee", (SIZES, 0, "none"))
    return wherefrom.Model(make_model("arcee"))


def test_a_family_of_another_package(installed: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotSeen, match="is built as this arcee model is"):
        arcee(monkeypatch).explain("the film was not bad", "attcat")
    installed(families={"arcee": "toy_family_plugin:ARCEE"})
    model = arcee(monkeypatch)
    assert len(model.explain("the film was not bad", "attcat").scores) == 5
    found = examine(model)
    assert not found["broken"]
    assert found["facts"]["blocks rebuilt from their parts"].endswith("as it should be")
    assert found["methods"]["attcat"] is None


def test_the_doctor_finds_a_wrong_row(monkeypatch: pytest.MonkeyPatch) -> None:
    wherefrom.register_family(replace(ARCEE, order="parallel"))
    found = examine(arcee(monkeypatch))
    assert found["broken"]
    assert "NOT what the model computes" in found["facts"]["blocks rebuilt from their parts"]


def test_a_name_is_taken_once() -> None:
    wherefrom.register_family(ARCEE)
    assert wherefrom.register_family(replace(ARCEE)) == ARCEE  # the same row again is no conflict
    with pytest.raises(BadOption, match="There is a family called 'arcee' already"):
        wherefrom.register_family(replace(ARCEE, reads="first"))
    with pytest.raises(BadOption, match="There is a family called 'bert' already"):
        wherefrom.register_family(replace(ARCEE, model_types=("new", "bert")))
    assert family_of("new") is None  # nothing of a row that was refused is kept
    assert family_of("bert") is FAMILIES[0]


def test_a_broken_plug_in_does_no_harm(installed: Callable[..., None]) -> None:
    installed(
        families={"bad": "no_such_module:ROW", "arcee": "toy_family_plugin:ARCEE"},
        readers={"bad": "toy_family_plugin:NOTHING", "reviews": "toy_family_plugin:REVIEWS"},
    )
    with pytest.warns(UserWarning, match=r"plug-in 'bad' \(no_such_module:ROW\) could not be loaded"):
        assert {"bert", "arcee"} <= set(known_types())
    with pytest.warns(UserWarning, match=r"plug-in 'bad' \(toy_family_plugin:NOTHING\) could not be loaded"):
        assert {"jsonl", "reviews"} <= set(all_readers())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"model_types": "arcee"}, "model_types of a family is a tuple of names"),
        ({"mlp": "mlp"}, "mlp of a family is a tuple of names"),
        ({"order": "before"}, r"order of a family is post \| pre \| parallel \| sandwich, not 'before'"),
        ({"reads": "all"}, r"reads of a family is first \| last \| every, not 'all'"),
        ({"order": "sandwich"}, "needs attention_after and mlp_after"),
    ],
)
def test_a_row_that_cannot_be_right(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        replace(ARCEE, **wrong)


def test_a_reader_of_another_package(installed: Callable[..., None], tmp_path: Path) -> None:
    path = tmp_path / "some.reviews"
    path.write_text("1 a fine film\n0 a dull plot\n")
    with pytest.raises(WherefromError, match="does not tell its format"):
        list(DataSet(str(path)))
    installed(readers={"reviews": "toy_family_plugin:REVIEWS"})
    assert [(one.text, one.label) for one in DataSet(str(path))] == [("a fine film", 1), ("a dull plot", 0)]
    assert [one.where for one in DataSet(f"reviews:{path}@0")] == [f"{path}, line 2"]
    assert DataSet(str(path)).name == "some"


def test_a_reader_that_is_registered_by_hand(tmp_path: Path) -> None:
    wherefrom.register_reader(REVIEWS)
    with pytest.raises(BadOption, match="There is a reader called 'csv' already"):
        wherefrom.register_reader(DataReader("csv", read_reviews))
    with pytest.raises(BadOption, match=r"Files that end in '\.csv' are read by 'csv' already"):
        wherefrom.register_reader(DataReader("other", read_reviews, (".csv",)))
    assert "other" not in all_readers()


def next_sentence_pair() -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    sizes: dict[str, Any] = {**SIZES, "vocab_size": len(tokenizer()), "pad_token_id": 0}
    torch.manual_seed(0)
    network = BertForNextSentencePrediction(BertConfig(**sizes)).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "norm" not in name.lower() and parameter.ndim > 1:
                parameter.normal_(0, 0.35)
    return network, tokenizer()


def test_a_task_of_another_package(installed: Callable[..., None], tmp_path: Path) -> None:
    """Loaded, explained, compared, checked and run without an edit of ours."""
    with pytest.raises(WrongModel, match=r"has no head for .* \(it is a BertForNextSentencePrediction"):
        wherefrom.load(next_sentence_pair())
    installed(tasks={"next": "toy_task_plugin:NEXT_SENTENCE"})
    network, words = next_sentence_pair()
    model, pair = wherefrom.load((network, words)), ("the film was not bad", "it was a very good plot")
    assert model.labels == ["follows", "does not follow"]
    with torch.no_grad():
        logits = network(**words(*pair, return_tensors="pt")).logits[0].double()
    explanation = model.explain(pair, "saliency", check=True)
    assert explanation.prediction == model.labels[int(logits.argmax())]
    assert explanation.probability == pytest.approx(float(logits.softmax(-1).max()), rel=1e-4)
    assert explanation.check is not None
    assert model.explain(pair, "attcat", target=("follows", "does not follow")).target.startswith("follows rather")
    assert model.compare(pair, ["saliency", "occlusion"], ["comprehensiveness"]).grades
    check_task(model, [pair, ("a film", "dull")])
    with pytest.raises(WherefromError, match="Next sentence needs two texts"):
        model.explain("the film was not bad")
    (tmp_path / "data.jsonl").write_text('{"text": "a film", "pair": "it was good"}\n{"text": "it", "pair": "dull"}\n')
    plan = wherefrom.RunPlan(
        str(tmp_path / "data.jsonl"), model, methods="saliency", metrics="comprehensiveness", workers=1
    )
    assert len(wherefrom.run(plan, tmp_path / "run").explanations) == 2


def test_tasks_that_cannot_be_registered() -> None:
    wherefrom.register_task(NEXT_SENTENCE)
    wherefrom.register_task(NEXT_SENTENCE)  # the same again is no conflict
    with pytest.raises(BadOption, match="There is a task called 'next_sentence' already"):
        wherefrom.register_task(NextSentence())
    with pytest.raises(BadOption, match="The task NextSentence is a class; give an object of it"):
        wherefrom.register_task(NextSentence)
    with pytest.raises(BadOption, match="The task object has no name and no auto"):
        wherefrom.register_task(object())


def test_a_class_of_two_tasks_is_loaded_for_ours_unless_the_other_is_named() -> None:
    class Doubt(wherefrom.Task):
        name, auto, has_labels = "doubt", "AutoModelForSequenceClassification", True

    wherefrom.register_task(Doubt())
    model = make_model("bert")
    pair = (model.network.module, model.reading.tokenizer)
    assert wherefrom.load(pair).text_model.task.name == "classification"
    assert wherefrom.load(pair, task="doubt").text_model.task.name == "doubt"
    with pytest.raises(WrongModel, match="made for classification, not for causal_lm"):
        wherefrom.load(pair, task="causal_lm")


def test_families_are_public() -> None:
    assert Family is type(FAMILIES[0])
