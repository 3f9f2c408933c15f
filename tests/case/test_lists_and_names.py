"""Lists of texts, and one name for one token."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import ANY

import pytest
import torch
from tiny_models import make_model, tiny
from toys import additive_model

from wherefrom.api import Model
from wherefrom.core.explanation import Explanation, ExplanationList
from wherefrom.core.units import words
from wherefrom.errors import BadOption, EmptyText
from wherefrom.registry import auto_methods
from wherefrom.report.wording import predicted


def test_an_empty_text_of_a_list_is_named_by_its_place() -> None:
    model = Model(tiny("bert"))
    with pytest.raises(EmptyText, match=r"Text number 1 of the list \(counted from 0\) is empty or blank"):
        model.explain(["a fine film", "  ", "dull"])
    with pytest.raises(EmptyText, match="There is no text to explain"):
        model.explain(" ")


def test_lists_of_texts_and_of_targets_can_be_looked_at() -> None:
    model = Model(tiny("bert"))
    assert isinstance(model.explain(["a fine film", "dull"]), ExplanationList)
    assert isinstance(model.explain("a fine film", target=list(model.labels)), ExplanationList)


def test_the_automatic_method_is_the_first_that_can_look_into_the_model() -> None:
    known = Model(tiny("bert"))
    first = auto_methods(known.text_model.task.name)[0]
    assert known.explain("a fine film").method == first
    assert known.explain("a fine film") == replace(known.explain("a fine film", first), seconds=ANY)

    unknown = Model(additive_model(good=1.0, bad=-1.0))  # no family's row says where its parts are
    found = unknown.explain("a good film", target=1)
    assert found.method == "integrated_gradients"
    assert found.scores == unknown.explain("a good film", "integrated_gradients", 1).scores
    (note,) = found.notes
    assert note.startswith(f"Explained by integrated_gradients, because {first} cannot be used with this model: ")
    several = unknown.explain(text for text in ("a good film", "a bad film"))
    assert [one.notes for one in several] == [(note,), (note,)]
    with pytest.raises(BadOption, match="'steps' is an option of some method: name the method, too"):
        unknown.explain("a good film", steps=5)


@pytest.mark.parametrize("asked", ["bad", " bad"])
def test_a_token_has_one_name_however_it_was_asked_for(asked: str) -> None:
    model = Model(make_model("gpt2", task="causal_lm", dtype=torch.float64))
    found = model.explain("the film was not", "saliency", asked)
    assert found.target == "bad"
    same = model.explain("the film was not", "saliency", f" {found.prediction}")
    assert same.target == same.prediction
    assert predicted(same) is None  # nothing says that the model predicts something else


LIST = ["a fine film", "dull", "the plot was not bad", "a fine film", "so the film is a good one and not dull"]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("occlusion", {}),
        ("kernel_shap", {"samples": 12}),
        ("lime", {"samples": 12}),
        ("optimus", {}),
        ("optimus", {"metric": "comprehensiveness"}),  # its questions depend on the weights: asked text by text
    ],
)
@pytest.mark.parametrize(("family", "task"), [("bert", "classification"), ("gpt2", "causal_lm")])
def test_a_list_is_asked_together_and_neither_its_order_nor_its_batches_change_anything(
    method: str, options: dict[str, Any], family: str, task: str
) -> None:
    model = Model(make_model(family, task=task, dtype=torch.float64))
    alone, passes_alone = _explained_in_passes(model, LIST, method, options, one_by_one=True)
    together, passes = _explained_in_passes(model, LIST, method, options)
    turned, _ = _explained_in_passes(model, LIST[::-1], method, options)
    for one, two, three in zip(alone, together, turned[::-1], strict=True):
        assert two.scores == pytest.approx(one.scores, rel=1e-9, abs=1e-12)
        assert three.scores == pytest.approx(one.scores, rel=1e-9, abs=1e-12)
        assert (one.tokens, one.target, one.params) == (two.tokens, two.target, two.params)
    # Deleting words can make one row of two texts, and a row is run once.
    assert [one.forwards for one in alone[:3]] == [
        two.forwards if family == "bert" else max(two.forwards, one.forwards)
        for one, two in zip(alone[:3], together[:3], strict=True)
    ]
    assert together[3].forwards <= 1  # the same text once more: no question is put twice
    assert passes < passes_alone


def _explained_in_passes(
    model: Model, texts: list[str], method: str, options: dict[str, Any], *, one_by_one: bool = False
) -> tuple[list[Explanation], int]:
    """The explanations, and how often the network was called for them."""
    calls = []
    handle = model.text_model.network.module.register_forward_pre_hook(lambda *_: calls.append(1))
    try:
        if one_by_one:
            return [model.explain(text, method, **options) for text in texts], len(calls)
        return list(model.explain(texts, method, **options)), len(calls)
    finally:
        handle.remove()


def test_what_is_wrong_with_a_question_of_a_list_is_said_as_for_one_text() -> None:
    model = Model(tiny("bert"))
    for texts in ("a fine film", ["a fine film", "the plot was not bad"]):
        with pytest.raises(BadOption, match="kernel_shap takes at least 4 samples, not 2"):
            model.explain(texts, "kernel_shap", samples=2)


def test_joined_emoji_are_one_word() -> None:
    text = "so 👩\u200d👩\u200d👧 nice❤\ufe0f"
    assert [text[start:end] for start, end in words(text)] == ["so", "👩\u200d👩\u200d👧", "nice", "❤\ufe0f"]
