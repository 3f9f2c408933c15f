"""Rerankers, multiple choice and zero-shot labels: against the network itself, asked row by row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from tiny_models import CONFIGS, make_model, make_network, tokenizer

import wherefrom
from wherefrom.api import Model
from wherefrom.errors import BadOption, NotSeen, UnknownName, WherefromError, WrongModel
from wherefrom.model.loading import quiet

NLI = {0: "contradiction", 1: "neutral", 2: "entailment"}
TEXT = "the film was not bad"
LABELS = ["good", "dull", "fine movie"]
CHOICES = "it was good\nthe plot is very dull\nfine"


def nli(family: str = "bert") -> tuple[Any, Any]:
    _, pad, ends = CONFIGS[family]
    named = {label: number for number, label in NLI.items()}
    return make_network(family, id2label=NLI, label2id=named, dtype=torch.float64), tokenizer(pad, ends)


@torch.no_grad()
def scores_of(network: Any, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """The classes of rows of ids, one at a time. (row, class)"""
    return torch.cat([network(input_ids=torch.tensor([row])).logits for row in rows])


# Zero-shot


def entailed(network: Any, cutter: Any, ids: Sequence[int], template: str) -> torch.Tensor:
    """ids: the text with its special tokens, perhaps with some left out. (label, class)"""
    tails = [cutter("a", template.format(label))["input_ids"][3:] for label in LABELS]  # behind [CLS] a [SEP]
    return scores_of(network, [[*ids, *tail] for tail in tails])


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_labels_by_brute_force(family: str) -> None:
    network, cutter = nli(family)
    template = "it is {}."
    model = wherefrom.load((network, cutter), labels=LABELS, template=template)
    assert model.labels == LABELS
    ids = cutter(TEXT)["input_ids"]
    whole = entailed(network, cutter, ids, template)[:, 2]
    found = model.explain(TEXT, "occlusion", "dull", fill="delete")
    assert found.probabilities == pytest.approx(dict(zip(LABELS, whole.softmax(-1).tolist(), strict=True)))
    assert found.tokens == tuple(cutter.convert_ids_to_tokens(ids))  # the text alone: no hypothesis
    for place in range(1, len(ids) - 1):
        left = [*ids[:place], *ids[place + 1 :]]
        lost = whole[1] - entailed(network, cutter, left, template)[1, 2]
        assert found.scores[place] == pytest.approx(lost.item()), place


def test_several_labels_may_be_right() -> None:
    network, cutter = nli()
    model = wherefrom.load((network, cutter), labels=LABELS, multi_label=True)
    both = entailed(network, cutter, cutter(TEXT)["input_ids"], "This example is {}.")
    chances = (both[:, 2] - both[:, 0]).sigmoid().tolist()
    assert model.explain(TEXT, "random").probabilities == pytest.approx(dict(zip(LABELS, chances, strict=True)))
    alone = wherefrom.load((network, cutter), labels=LABELS[:1])
    assert alone.explain(TEXT, "random").probability == pytest.approx(chances[0])


def test_gradients_of_a_label_add_up() -> None:
    model = wherefrom.load(nli(), labels=LABELS)
    one = model.explain(TEXT, "integrated_gradients", "good", steps=200)
    assert one.gap == pytest.approx(0, abs=1e-2)
    saliency = [model.explain(TEXT, "input_x_gradient", spec).scores for spec in (("good", "dull"), "good", "dull")]
    assert saliency[0] == pytest.approx([a - b for a, b in zip(saliency[1], saliency[2], strict=True)])
    with pytest.raises(NotSeen, match="once for every candidate label"):
        model.explain(TEXT, "attcat")


def test_what_labels_have(tmp_path: Path) -> None:
    from wherefrom.benchmark.plan import RunPlan
    from wherefrom.benchmark.run import run

    model = wherefrom.load(nli(), labels=LABELS)
    found = model.explain(TEXT, "saliency", check=True)
    assert found.check is not None
    assert found.task == "zero_shot"
    assert found.prediction in found.to_html()
    model.flip(TEXT)
    comparison = model.compare(TEXT, "occlusion,saliency,random", "comprehensiveness,truthfulness")
    assert comparison.grades[0][0].value is not None
    path = tmp_path / "films.jsonl"
    path.write_text(json.dumps({"text": TEXT, "label": "dull"}) + "\n", encoding="utf-8")
    done = run(RunPlan(str(path), model=model, methods="saliency", metrics="comprehensiveness"), tmp_path / "run")
    assert done.errors.empty
    assert done.explanations["label"].tolist() == ["dull"]


def test_a_zero_shot_pipeline() -> None:
    network, cutter = nli()
    pipe = transformers.pipeline("zero-shot-classification", model=network, tokenizer=cutter)
    found = wherefrom.load(pipe, labels=LABELS).explain(TEXT, "random").probabilities
    theirs = pipe(TEXT, candidate_labels=LABELS)
    assert found == pytest.approx(dict(zip(theirs["labels"], theirs["scores"], strict=True)))


def test_what_zero_shot_refuses() -> None:
    with pytest.raises(WrongModel, match=r"need a model of entailment; the classes of .* are negative, positive"):
        wherefrom.load("embedded", labels=LABELS)
    with pytest.raises(BadOption, match=r"template has \{\}"):
        wherefrom.load(nli(), labels=LABELS, template="it is good")
    with pytest.raises(BadOption, match="named twice"):
        wherefrom.load(nli(), labels=["a", "a"])
    with pytest.raises(BadOption, match="given in a list"):
        wherefrom.load(nli(), labels="good")
    with pytest.raises(BadOption, match="belong to candidate labels"):
        wherefrom.load(nli(), template="it is {}")
    with pytest.raises(WherefromError, match="reads one text"):
        wherefrom.load(nli(), labels=LABELS).explain((TEXT, "other"))


# Multiple choice


def choosing(family: str = "bert") -> tuple[Any, Any]:
    _, pad, ends = CONFIGS[family]
    return make_network(family, task="multiple_choice", dtype=torch.float64), tokenizer(pad, ends)


@torch.no_grad()
def chosen(network: Any, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """The scores of choices, each by itself."""
    return torch.cat([network(input_ids=torch.tensor([[row]])).logits[0] for row in rows])


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_choices_by_brute_force(family: str) -> None:
    network, cutter = choosing(family)
    model = wherefrom.load((network, cutter))
    rows = [cutter(TEXT, choice)["input_ids"] for choice in CHOICES.split("\n")]
    whole = chosen(network, rows)
    found = model.explain((TEXT, CHOICES), "occlusion", 1, fill="delete")
    assert found.target == "the plot is very dull"
    assert list(found.probabilities.values()) == pytest.approx(whole.softmax(-1).tolist())
    edge = len(cutter(TEXT)["input_ids"])
    assert len(found.scores) == edge + sum(len(row) - edge for row in rows)
    own = range(edge + len(rows[0]) - edge, edge + len(rows[0]) - edge + len(rows[1]) - edge)
    for place, score in enumerate(found.scores):
        if found.segment[place] < 0 or not (place < edge or place in own):
            assert score == pytest.approx(0, abs=1e-12), place  # what another choice says does not count
            continue
        row = [*rows[1]]
        del row[place if place < edge else place - len(rows[0]) + edge]
        assert score == pytest.approx((whole[1] - chosen(network, [row])[0]).item()), place


def test_offsets_of_choices_are_those_of_the_second_text() -> None:
    model = wherefrom.load(choosing())
    found = model.explain((TEXT, CHOICES), "random", level="word")
    shown = [unit.text for unit in found.units() if unit.segment == 1]
    assert shown == CHOICES.split()
    assert model.explain((TEXT, CHOICES), "random", "fine").target == "fine"
    assert model.explain((TEXT, CHOICES), "random", (0, 2)).target == "it was good rather than fine"


def test_texts_with_different_numbers_of_choices(tmp_path: Path) -> None:
    from wherefrom.benchmark.plan import RunPlan
    from wherefrom.benchmark.run import run

    model = wherefrom.load(choosing())
    both = [(TEXT, CHOICES), (TEXT, "good\nbad")]
    together = model.explain(both, "saliency")
    alone = [model.explain(one, "saliency") for one in both]
    for one, other in zip(together, alone, strict=True):
        assert one.scores == pytest.approx(other.scores)
        assert one.probabilities == pytest.approx(other.probabilities)
    path = tmp_path / "choices.jsonl"
    path.write_text("".join(json.dumps({"text": a, "pair": b}) + "\n" for a, b in both), encoding="utf-8")
    done = run(
        RunPlan(str(path), model=model, methods="saliency,random", metrics="comprehensiveness"), tmp_path / "run"
    )
    assert done.errors.empty
    assert done.scores["value"].notna().all()


def test_what_choices_have() -> None:
    model = wherefrom.load(choosing())
    found = model.explain((TEXT, CHOICES), "integrated_gradients", check=True, steps=20)
    assert found.check is not None
    assert found.prediction in CHOICES.split("\n")
    found.to_html()
    again = model.evaluate(found, ["comprehensiveness", "log_odds"])
    assert all(grade.value is not None for grade in again.grades[0])
    model.flip((TEXT, CHOICES))
    with pytest.raises(NotSeen, match="once for every choice"):
        model.explain((TEXT, CHOICES), "alti")
    with pytest.raises(WherefromError, match="one a line"):
        model.explain((TEXT, "only one"))
    with pytest.raises(UnknownName, match="There is no choice 3"):
        model.explain((TEXT, CHOICES), "random", 3)
    with pytest.raises(UnknownName, match="Did you mean 'fine'"):
        model.explain((TEXT, CHOICES), "random", "finer")


# Rerankers


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}, True),
        ({"sbert_ce_default_activation_function": "torch.nn.modules.activation.Sigmoid"}, False),
        ({"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid", "version": "4.1"}}, False),
        ({}, True),
    ],
)
def test_a_reranker_is_a_value_or_a_probability_as_its_files_say(said: Any, value: bool, tmp_path: Path) -> None:
    network = make_network("bert", labels=1)
    with quiet():
        network.save_pretrained(tmp_path)
        tokenizer().save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | said))
    found = wherefrom.load(tmp_path).explain((TEXT, "good film"), "random")
    (logit,) = scores_of(network, [tokenizer()(TEXT, "good film")["input_ids"]])[0].double()
    assert (found.value if value else found.probability) == pytest.approx(float(logit if value else logit.sigmoid()))
    assert (found.probability is None) == value


@pytest.mark.parametrize(("activation", "value"), [(torch.nn.Identity(), True), (torch.nn.Sigmoid(), False)])
def test_a_reranker_in_memory(activation: Any, value: bool) -> None:
    network = make_network("bert", labels=1)
    given = SimpleNamespace(model=network, tokenizer=tokenizer(), activation_fn=activation)
    model = wherefrom.load(given)
    assert model.text_model.regression == value
    assert (model.explain((TEXT, "good film"), "attcat").value is not None) == value


@pytest.mark.parametrize("method", ["attn_lrp", "cp_lrp"])
def test_relevance_of_choices_and_labels_is_that_of_pairs(method: str) -> None:
    """A choice is a pair that a model with one output reads; a candidate label one that a model of entailment does."""
    text = "the film was not bad"
    chooser = make_model("bert", task="multiple_choice", dtype=torch.float64)
    scorer = make_network("bert", labels=1).double()
    scorer.load_state_dict(chooser.network.module.state_dict())
    pairs = wherefrom.load((scorer, chooser.reading.tokenizer))
    own = Model(chooser).explain((text, "good\ndull plot"), method, 1)
    expected = pairs.explain((text, "dull plot"), method)
    real = [place for place, part in enumerate(expected.segment) if part >= 0]
    chosen = [place for place, part in enumerate(own.segment) if part >= 0 and own.tokens[place] != "good"]
    assert [own.tokens[place] for place in chosen] == [expected.tokens[place] for place in real]
    assert [own.scores[place] for place in chosen] == pytest.approx([expected.scores[place] for place in real])
    entails = (make_network("bert", id2label={0: "contradiction", 1: "neutral", 2: "entailment"}).double(), tokenizer())
    alone = wherefrom.load(entails, labels=["good", "bad"], template="it is {} .").explain(text, method, "bad")
    both = wherefrom.load(entails).explain((text, "it is bad ."), method, "entailment")
    assert alone.scores[:6] == pytest.approx(both.scores[:6])
