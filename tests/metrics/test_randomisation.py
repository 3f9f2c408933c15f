"""The randomisation test: its copy, and methods that do and do not depend on what a model has learned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_models import make_model
from toys import additive_model

import wherefrom
from wherefrom.api import Model
from wherefrom.doctor import examine
from wherefrom.errors import NotDefined
from wherefrom.metrics.spearman import spearman
from wherefrom.model.network import embedding_table
from wherefrom.model.randomised import randomised

TEXT = "the film was not bad , but very dull !"


def test_a_copy_has_the_same_numbers_at_other_places_and_leaves_the_model_alone() -> None:
    model = make_model("bert")
    before = {name: weight.clone() for name, weight in model.network.module.state_dict().items()}
    copy, again, other = randomised(model), randomised(model), randomised(model, seed=1)
    for name, weight in model.network.module.named_parameters():
        torch.testing.assert_close(weight, before[name], rtol=0, atol=0)
        shuffled = copy.network.module.get_parameter(name)
        torch.testing.assert_close(shuffled.flatten().sort().values, weight.flatten().sort().values, rtol=0, atol=0)
        torch.testing.assert_close(shuffled, again.network.module.get_parameter(name), rtol=0, atol=0)
    embeddings = [embedding_table(one.network) for one in (model, copy, other)]
    assert not torch.equal(embeddings[0], embeddings[1])
    assert not torch.equal(embeddings[1], embeddings[2])


def test_tied_weights_stay_tied() -> None:
    copy = randomised(make_model("gpt2", task="causal_lm")).network.module
    assert copy.get_input_embeddings().weight is copy.get_output_embeddings().weight


def test_the_value_is_the_correlation_with_the_same_method_and_target_on_the_copy() -> None:
    reader = make_model("bert", dtype=torch.float64)
    model = Model(reader)
    (grades,) = model.compare(TEXT, ["attn_lrp"], ["randomisation"], target="LABEL_1", check=False).grades
    own = np.array(model.explain(TEXT, "attn_lrp", "LABEL_1").scores)[1:-1]
    theirs = np.array(Model(randomised(reader)).explain(TEXT, "attn_lrp", "LABEL_1").scores)[1:-1]
    assert grades[0].value == pytest.approx(abs(spearman(own, theirs)))
    again = model.evaluate(model.explain(TEXT, "attn_lrp", "LABEL_1"), ["randomisation"]).grades[0][0]
    assert again.value == pytest.approx(grades[0].value)


def test_scores_that_know_nothing_of_the_model_survive() -> None:
    model = Model(make_model("bert"))
    names = ["random", "saliency"]
    (floor,), (saliency,) = model.compare(TEXT, names, ["randomisation"], check=False).grades
    assert floor.value == pytest.approx(1.0)
    assert saliency.value is not None
    assert saliency.value < 0.999


def test_what_was_made_by_hand_and_what_has_no_weights_have_no_value() -> None:
    model = Model(additive_model(good=1.0))
    explanation = model.explain("good film", "random")
    by_hand = wherefrom.Explanation.from_dict({**explanation.to_dict(), "method": "mine"})
    (grades,) = model.evaluate(by_hand, ["randomisation"]).grades
    assert grades[0].value is None

    def answer(texts: list[str]) -> object:
        return np.array([[0.4, 0.6] for _ in texts])

    function = wherefrom.load(answer, labels=["bad", "good"])
    with pytest.raises(NotDefined, match="no weights"):
        randomised(function.text_model)
    (grades,) = function.compare("a good film it is", ["random"], ["randomisation"], check=False).grades
    assert "no weights" in grades[0].why


def test_the_doctor_shows_it() -> None:
    found = examine(Model(make_model("bert")))
    assert "rank correlation" in found["facts"]["left when weights are shuffled"]
