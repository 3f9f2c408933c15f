"""Padding changes no answer: a text has the same logits alone and beside longer ones, whatever the family and task."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
import transformers
from tiny_models import CHEAPLY_TESTED, CONFIGS, FAMILIES, make_model, make_network, tokenizer
from tolerances import assert_close
from transformers import AutoConfig

from wherefrom.api import Model, load
from wherefrom.case.asking import Asker
from wherefrom.model.network import ModuleNetwork, inputs_of
from wherefrom.model.tasks import find_task
from wherefrom.model.text_model import TextModel
from wherefrom.registry import all_tasks

TEXTS = ("a film", "the film was not bad, but dull!", "very good", "it is a great film")
SECOND = ("the plot was dull. it was", "a film", "it is not a bad plot, and the acting was fine", "good and dull, but")
CHOICES = ("good\nbad", "a fine film\nbad", "dull\nvery good\nnot bad", "good\nbad and dull")
# Convolutions, windows, pooling, positions: what padding may change; and one usual model of each kind.
SENSITIVE = ("convbert", "mobilebert", "nystromformer", "funnel", "longformer", "xlnet", "xlm", "big_bird")
USUAL = ("bert", "roberta", "deberta-v2", "modernbert", "gpt2", "qwen2", "t5", "bart")
# They have no encoder that runs by itself, or several.
WITHOUT = {(family, "similarity") for family in ("funnel", "t5", "mt5")}


def supported(family: str, task: str) -> bool:
    """Whether transformers has such a model, and its tokenizer the tokens that the task needs."""
    config, ends = AutoConfig.for_model(family), CONFIGS[family][2]
    if (family, task) in WITHOUT or (task == "masked_lm" and ends in ("none", "end")):
        return False
    return type(config) in getattr(transformers, find_task(task).auto)._model_mapping


def cells(families: tuple[str, ...] | list[str]) -> list[tuple[str, str]]:
    return [(family, task) for family in families for task in all_tasks() if supported(family, task)]


@cache
def model_for(family: str, task: str) -> TextModel:
    return make_model(family, task=task, dtype=torch.float64)


def texts_for(task: str) -> list[tuple[str, str | None]]:
    second = {"question_answering": SECOND, "similarity": SECOND, "multiple_choice": CHOICES}.get(task)
    if second is not None:
        return list(zip(TEXTS, second, strict=True))
    return [(text.replace("film", "[MASK]") if task == "masked_lm" else text, None) for text in TEXTS if "film" in text]


def check_alone_equals_in_a_list(model: TextModel) -> None:
    encodings = [model.encode(text, pair) for text, pair in texts_for(model.task.name)]
    asker = Asker(model)
    answers = [asker.note(row, np.ones((1, len(row)), dtype=np.bool_), "delete") for row in encodings]
    asker.run()
    for row, answer in zip(encodings, answers, strict=True):
        with torch.no_grad():
            alone = model.run(inputs_of(model.network, [row]))[0]
        assert_close(answer.logits[0], alone, tolerance=1e-6, what=row.text)


@pytest.mark.parametrize(("family", "task"), cells((*SENSITIVE, *USUAL)))
def test_a_text_has_the_same_answer_alone_and_in_a_list(family: str, task: str) -> None:
    check_alone_equals_in_a_list(model_for(family, task))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "task"), cells([name for name in (*FAMILIES, *CHEAPLY_TESTED) if name not in (*SENSITIVE, *USUAL)])
)
def test_the_same_on_all_other_families(family: str, task: str) -> None:
    check_alone_equals_in_a_list(model_for(family, task))


@pytest.mark.parametrize("task", ["question_answering", "multiple_choice", "similarity", "token_classification"])
@pytest.mark.parametrize("family", ["convbert", "mobilebert", "nystromformer"])
def test_a_model_that_convolves_padding_reads_one_row_at_a_time(family: str, task: str) -> None:
    model = model_for(family, task)
    assert not model.network.facts.takes_batches
    # The law above is no empty one: in a batch these models do answer otherwise.
    assert isinstance(model.network, ModuleNetwork)
    with pytest.raises(AssertionError):
        check_alone_equals_in_a_list(replace(model, network=model.network.with_facts(takes_batches=True)))


@pytest.mark.parametrize("family", ["convbert", "mobilebert", "nystromformer", "roformer", "longformer", "bert"])
def test_choices_are_answered_as_the_network_answers_each_alone(family: str) -> None:
    """Three choices of different lengths, of which the network itself reads one at a time, without padding."""
    model, text = model_for(family, "multiple_choice"), "a film"
    choices = ("dull", "very good and not dull", "not bad")
    reader, module = model.reading.tokenizer, model.network.module
    with torch.no_grad():
        rows = [torch.tensor([[reader(text, choice)["input_ids"]]]) for choice in choices]
        expected = torch.cat([module(input_ids=row).logits[0] for row in rows])
        answer = model.run(inputs_of(model.network, [model.encode(text, "\n".join(choices))]))[0]
    assert_close(answer[: len(choices)], expected, tolerance=1e-6)


def test_the_answer_of_convbert_to_a_question_is_the_same_in_a_list() -> None:
    model = Model(make_model("convbert", task="question_answering"))
    contexts = ("the film was not bad, but dull!", "a film", "it is a very, very fine plot")
    rows = [("is it good?", context) for context in contexts]
    together = model.explain(rows, "random")
    assert [one.prediction for one in together] == [model.explain(row, "random").prediction for row in rows]


def test_a_model_that_fails_on_a_batch_is_run_row_by_row() -> None:
    """A trial that raises says nothing good about padding."""
    module = make_model("bert").network.module

    def refuses_batches(_: torch.nn.Module, ids: tuple[torch.Tensor, ...], __: object) -> None:
        if ids and len(ids[0]) > 1:
            raise RuntimeError("one row at a time")

    handle = module.get_input_embeddings().register_forward_hook(refuses_batches)
    try:
        model = TextModel.of(module, tokenizer())
        assert not model.network.facts.takes_batches
        check_alone_equals_in_a_list(model)
    finally:
        handle.remove()


@pytest.mark.parametrize("family", ["bert", "convbert"])
def test_candidate_labels_are_answered_alike_by_ids_and_by_word_vectors(family: str) -> None:
    """The hypotheses of two labels have different lengths, so that one row is padded."""
    classes = {0: "contradiction", 1: "neutral", 2: "entailment"}
    network = make_network(family, dtype=torch.float64, id2label=classes)
    check_alone_equals_in_a_list(load((network, tokenizer()), labels=["good", "a very dull film"]).text_model)
