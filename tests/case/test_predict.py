"""Predictions with words hidden are those of the network for the ids that are left."""

from __future__ import annotations

import pytest
import torch
from tiny_models import make_model, tiny

from wherefrom import Model
from wherefrom.core.encoding import TextOrPair
from wherefrom.core.prediction import spans_without
from wherefrom.errors import BadOption, UnknownName

TEXT = "the film was not bad, but the plot was dull"


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(make_model("bert"))


def chances(model: Model, ids: list[int]) -> list[float]:
    with torch.no_grad():
        logits = model.text_model.network.module(input_ids=torch.tensor([ids])).logits[0]
    return [float(chance) for chance in logits.double().softmax(-1)]


def test_the_whole_text(model: Model) -> None:
    prediction = model.predict(TEXT)
    expected = chances(model, list(model.text_model.encode(TEXT).input_ids))
    assert list(prediction.probabilities.values()) == pytest.approx(expected, rel=1e-5)
    assert prediction.probability == pytest.approx(max(expected), rel=1e-5)
    assert prediction.prediction == prediction.target == model.labels[expected.index(max(expected))]


@pytest.mark.parametrize("fill", ["delete", "mask", "unk"])
def test_every_occurrence_of_a_hidden_word_is_hidden(model: Model, fill: str) -> None:
    encoding = model.text_model.encode(TEXT)
    words = ["the", "film", "was", "not", "bad", ",", "but", "the", "plot", "was", "dull"]
    gone = [place for place, word in enumerate(encoding.word_of) if word >= 0 and words[word] in ("was", "plot")]
    if fill == "delete":
        ids = [token for place, token in enumerate(encoding.input_ids) if place not in gone]
    else:
        filler = int(getattr(model.text_model.reading.tokenizer, f"{fill}_token_id"))
        ids = [filler if place in gone else token for place, token in enumerate(encoding.input_ids)]
    prediction = model.predict(TEXT, target="LABEL_1", without=["was", "plot"], fill=fill)
    assert prediction.probability == pytest.approx(chances(model, ids)[1], rel=1e-5)
    assert len(prediction.hidden) == 3
    assert prediction.target == "LABEL_1"


def test_the_target_is_what_is_predicted_of_the_whole_text(model: Model) -> None:
    whole = model.predict(TEXT)
    for word in ("film", "not", "bad", "dull"):
        rest = model.predict(TEXT, without=[word])
        assert rest.target == whole.prediction
        assert rest.probability == pytest.approx(rest.probabilities[whole.prediction], rel=1e-9)
        assert rest.prediction == max(rest.probabilities, key=lambda label: rest.probabilities[label])


def test_texts_in_a_batch_are_what_they_are_alone(model: Model) -> None:
    texts: list[TextOrPair] = [TEXT, "a film", "it is dull, very dull", ("one text", "and its pair was bad")]
    together = model.predict(texts, without=["dull", "bad"], target="LABEL_0")
    for text, prediction in zip(texts, together, strict=True):
        words = [word for word in ("dull", "bad") if word in (text if isinstance(text, str) else text[1])]
        alone = model.predict(text, without=words, target="LABEL_0")
        assert prediction.probability == pytest.approx(alone.probability, rel=1e-4)
        assert prediction.hidden == alone.hidden
    nothing: list[str] = []
    assert model.predict(nothing) == []


def test_characters_instead_of_words(model: Model) -> None:
    first = model.predict(TEXT, without=[(0, 3)], target=0)
    both = model.predict(TEXT, without=["the"], target=0)
    assert first.hidden == ((0, 3, 0),)
    assert both.hidden == ((0, 3, 0), (26, 29, 0))
    assert first.probability != pytest.approx(both.probability, rel=1e-6)
    pair = model.predict(("a film", "a plot"), without=[(0, 1, 1)], target=0)
    assert pair.hidden == ((0, 1, 1),)


@pytest.mark.parametrize(
    ("word", "spans"),
    [
        ("art", [(8, 11, 0)]),  # not within "party"
        ("art.", [(8, 12, 0)]),
        ("a party", []),
        (" party ", [(0, 5, 0)]),
        ("", []),
        ((2, 4), [(2, 4, 0)]),
    ],
)
def test_words_are_found_as_they_are_written(word: str | tuple[int, int], spans: list[tuple[int, int, int]]) -> None:
    assert spans_without(tiny("bert").encode("party's art."), [word])[0] == spans


def test_mistakes_say_what_to_do(model: Model) -> None:
    with pytest.raises(BadOption, match="'gorgeous' is not in the text"):
        model.predict(TEXT, without=["gorgeous"])
    with pytest.raises(BadOption, match=r"in a list, as without=\['film'\]"):
        model.predict(TEXT, without="film")
    with pytest.raises(UnknownName, match="delete"):
        model.predict(TEXT, without=["film"], fill="delet")
    with pytest.raises(BadOption, match="outside"):
        model.predict(TEXT, without=[(10, 4000)])


def test_other_tasks_than_classification() -> None:
    causal = Model(make_model("gpt2", task="causal_lm"))
    explanation = causal.explain("the film was not", "saliency", target="but dull")
    prediction = causal.predict("the film was not", target="but dull")
    assert prediction.probability == pytest.approx(explanation.probability, rel=1e-4)
    answer = Model(make_model("bert", task="question_answering"))
    pair = ("was the film good?", "the plot was dull, but the film was fine.")
    assert answer.predict(pair).probability == pytest.approx(answer.explain(pair, "saliency").probability, rel=1e-4)
    assert answer.predict(pair, without=["dull"]).target == answer.predict(pair).target
