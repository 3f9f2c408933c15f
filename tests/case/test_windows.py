"""Texts longer than the model reads, explained in windows that overlap."""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from tiny_models import make_model, tiny, tokenizer
from tolerances import TOLERANCE, assert_close
from toys import additive_model

from wherefrom.api import Model
from wherefrom.case.explain import explain_texts
from wherefrom.case.windows import windows_of
from wherefrom.core.explanation import Explanation
from wherefrom.errors import BadOption, UnknownName
from wherefrom.model.text_model import TextModel
from wherefrom.registry import check_options, find_method

SENTENCE = "the film was not bad , but the plot is dull and the acting was never very fine ! "
LONG = SENTENCE * 8  # 152 tokens beside the special ones; the tiny models read 64


def test_a_text_that_fits_is_explained_as_it_is() -> None:
    model = Model(tiny("bert", torch.float64))
    for method in ("attcat", "occlusion"):
        plain, found = (model.explain(SENTENCE, method, level="word", long=way) for way in ("cut", "windows"))
        assert replace(found, seconds=0.0) == replace(plain, seconds=0.0)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_windows_cover_the_text_and_overlap(family: str) -> None:
    model = tiny(family, torch.float64)
    whole = model.reading.tokenize(LONG, None, None)
    windows = windows_of(model, whole)
    assert len(windows) > 2
    special = {place for place, added in enumerate(whole.special) if added}
    for window in windows:
        assert len(window.encoding) <= (model.reading.limit or 0)
        assert special <= set(window.places)
        assert window.encoding.input_ids == tuple(whole.input_ids[place] for place in window.places)
        assert window.encoding.offsets == tuple(whole.offsets[place] for place in window.places)
    assert {place for window in windows for place in window.places} == set(range(len(whole)))
    for one, other in pairwise(windows):
        assert (set(one.places) & set(other.places)) - special


@pytest.mark.parametrize("method", ["attcat", "saliency", "occlusion"])
def test_scores_are_the_means_of_the_windows_own(method: str) -> None:
    model = tiny("bert", torch.float64)
    found = Model(model).explain(LONG, method, 1, long="windows")
    whole = model.reading.tokenize(LONG, None, None)
    windows = windows_of(model, whole)
    row = find_method(method)
    options = check_options(method, row.function, {})
    alone = explain_texts(model, [one.encoding for one in windows], 1, row, options, "token")
    expected = []
    for place in range(len(whole)):
        scores = [
            one.scores[window.places.index(place)]
            for window, one in zip(windows, alone, strict=True)
            if place in window.places
        ]
        expected.append(sum(scores) / len(scores))
    assert found.tokens == whole.tokens
    assert_close(torch.tensor(found.scores), torch.tensor(expected), tolerance=TOLERANCE[torch.float32])
    assert found.probability == pytest.approx(sum(one.output for one in alone) / len(alone))
    best = max(range(len(alone)), key=lambda number: alone[number].output)
    assert f"number {best + 1}, characters" in found.notes[0]
    assert found.cut == 0
    assert Explanation.from_json(found.to_json()) == found


def test_a_sum_of_words_is_the_same_in_every_window() -> None:
    words = deepcopy(tokenizer())
    words.model_max_length = 8
    model = TextModel.of(additive_model(good=2.0, bad=-3.0, film=0.5).network.module, words)
    text = "good film bad bad film good film good good bad film film good bad"
    weights = {"good": 2.0, "bad": -3.0, "film": 0.5}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is cut
        found = Model(model).explain(text, "input_x_gradient", long="windows")
    assert [unit.score for unit in found.units()] == pytest.approx([weights[word] for word in text.split()])
    assert [unit.text for unit in found.words()] == text.split()


def test_the_class_is_the_likeliest_on_average() -> None:
    model = tiny("gpt2", torch.float64)
    found = Model(model).explain(LONG, "attcat", long="windows")
    assert found.prediction == found.target == max(found.probabilities, key=lambda label: found.probabilities[label])
    assert sum(found.probabilities.values()) == pytest.approx(1)
    assert found.layers is not None
    assert [sum(column) for column in zip(*found.layers, strict=True)] == pytest.approx(found.scores)


def refused(model: TextModel, text: Any, **more: Any) -> str:
    with pytest.raises(BadOption) as error:
        Model(model).explain(text, "saliency", long="windows", **more)
    return str(error.value)


def test_what_has_no_windows_says_so() -> None:
    assert "no pair" in refused(tiny("bert"), (LONG, LONG))
    assert "one target" in refused(tiny("bert"), LONG, target=[0, 1])
    assert "causal_lm" in refused(make_model("gpt2", task="causal_lm"), LONG)
    with pytest.raises(UnknownName, match="Did you mean 'windows'"):
        Model(tiny("bert")).explain(LONG, "saliency", long="window")  # type: ignore[call-overload]


def test_a_list_of_texts_is_read_one_by_one() -> None:
    model = Model(tiny("bert", torch.float64))
    found = model.explain([LONG, SENTENCE], "saliency", long="windows")
    assert [len(one.notes) for one in found] == [1, 0]
    assert found[0].scores == pytest.approx(model.explain(LONG, "saliency", long="windows").scores)
