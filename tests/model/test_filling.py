"""The fill "sample": by hand with a masked language model that always expects one word, and against a plain loop."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import numpy as np
import pytest
import torch
from tiny_models import make_model, tokenizer
from toys import additive_model

import wherefrom
from wherefrom.api import Model
from wherefrom.case.asking import Asker
from wherefrom.errors import BadOption, MissingToken, WrongModel
from wherefrom.model.filling import SampledWords
from wherefrom.model.text_model import TextModel

TEXT = "the film was not bad and the plot was good"
WEIGHTS = {"good": 2.0, "bad": -3.0, "film": 0.5}


def s(logit: float) -> float:
    return 1 / (1 + exp(-logit))


def expecting(word: str) -> TextModel:
    """A masked language model that expects this word everywhere."""
    model = make_model("bert", task="masked_lm")
    head = model.network.module.get_output_embeddings()
    with torch.no_grad():
        head.bias.zero_()
        head.bias[tokenizer().convert_tokens_to_ids(word)] = 1000.0
    return model


def toy(word: str = "good") -> Model:
    source = additive_model(**WEIGHTS)
    return Model(replace(source, sampled_words=SampledWords.of(source, expecting(word))))


def test_a_hidden_word_is_replaced_by_the_one_that_is_expected() -> None:
    model = toy()
    assert model.predict("bad film", target=1, without=["bad"], fill="sample").probability == pytest.approx(s(2.5))
    occlusion = model.explain("bad film", "occlusion", 1, fill="sample")
    assert occlusion.scores == pytest.approx((0, -5.0, -1.5, 0))  # bad for good, film for good
    (grades,) = model.compare(
        "bad film", ["input_x_gradient"], ["comprehensiveness:fill=sample"], 1, check=False
    ).grades
    # film scores 0.5, bad -3: at 5, 10, 20 and 50% film is replaced
    assert grades[0].value == pytest.approx(4 * (s(-2.5) - s(-1.0)) / 6)
    assert grades[0].fill == "sample"


def test_the_check_hides_words_so_where_a_model_is_named() -> None:
    text = "bad film good the plot was not very dull"
    with_words = toy().explain(text, "input_x_gradient", 1, check=True).check
    assert with_words is not None
    assert with_words.fill == "sample"
    plain = Model(additive_model(**WEIGHTS)).explain(text, "input_x_gradient", 1, check=True).check
    assert plain is not None
    assert plain.fill == "delete"


def test_a_model_is_named_when_another_is_loaded() -> None:
    reader = make_model("bert")
    pair = (reader.network.module, reader.reading.tokenizer)
    model = wherefrom.load(pair, fill_model=Model(expecting("film")), fill_draws=3)
    assert model.text_model.sampled_words is not None
    assert model.text_model.sampled_words.draws == 3
    replaced = model.predict("the plot was good", without=["plot"], fill="sample").probability
    assert replaced == pytest.approx(model.predict("the film was good").probability, abs=1e-6)


def sampled(draws: int = 5) -> TextModel:
    model = make_model("bert", dtype=torch.float64)
    return replace(model, sampled_words=SampledWords.of(model, make_model("bert", task="masked_lm"), draws))


def test_answers_are_the_mean_over_draws() -> None:
    model = sampled()
    encoding = model.encode(TEXT)
    keep = np.ones((2, len(encoding)), dtype=bool)
    keep[0, [2, 4]], keep[1, 5] = False, False
    asker = Asker(model)
    pending = asker.note(encoding, keep, "sample")
    asker.run()
    target = model.target(1)
    assert model.sampled_words is not None
    rows = model.sampled_words.fill(encoding, keep)
    assert rows.shape == (2, 5, len(encoding))
    for number, draws in enumerate(rows.tolist()):
        logits = []
        for ids in draws:
            assert [a == b for a, b, kept in zip(ids, encoding.input_ids, keep[number], strict=True) if kept].count(
                False
            ) == 0
            inputs = {
                "input_ids": torch.tensor([ids]),
                "attention_mask": torch.ones(1, len(ids), dtype=torch.long),
                "token_type_ids": torch.zeros(1, len(ids), dtype=torch.long),
            }
            logits.append(model.run(inputs)[0].detach())
        torch.testing.assert_close(pending.logits[number], torch.stack(logits).mean(0))
        chances = [float(target.probability(row[None])) for row in logits]
        assert pending.probability([target])[number] == pytest.approx(np.mean(chances))


def test_draws_depend_on_the_text_and_what_is_hidden_alone_and_are_words() -> None:
    words = sampled(20).sampled_words
    assert words is not None
    encoding = make_model("bert").encode(TEXT)
    keep = np.ones((1, len(encoding)), dtype=bool)
    keep[0, 3] = False
    other = keep.copy()
    other[0, 4] = False
    first = words.fill(encoding, keep)
    np.testing.assert_array_equal(first, words.fill(encoding, np.concatenate([other, keep]))[1:])
    drawn = first[0, :, 3]
    assert len(set(drawn.tolist())) > 1
    assert not set(drawn.tolist()) & set(tokenizer().all_special_ids)


def test_what_cannot_fill_in_words_is_refused() -> None:
    model = make_model("bert")
    with pytest.raises(MissingToken, match="fill_model"):
        Model(model).predict(TEXT, without=["film"], fill="sample")
    with pytest.raises(WrongModel, match="no masked language model"):
        SampledWords.of(model, make_model("bert"))
    with pytest.raises(BadOption, match="At least one word"):
        SampledWords.of(model, make_model("bert", task="masked_lm"), 0)
    with pytest.raises(BadOption, match="not for a function"):
        wherefrom.load(lambda texts: [[0.5, 0.5] for _ in texts], fill_model="x")


def test_a_model_with_another_vocabulary_is_refused() -> None:
    with pytest.raises(WrongModel, match="same vocabulary"):
        SampledWords.of(wherefrom.load("embedded").text_model, make_model("bert", task="masked_lm"))
