"""Texts with several masks: each against a masked language model that is asked by hand."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import pytest
import torch
from tiny_models import CHEAP, make_model
from tolerances import assert_close, tolerance_of
from torch import Tensor

from wherefrom.api import Model
from wherefrom.case.asking import Asker
from wherefrom.core.explanation import Explanation
from wherefrom.errors import BadOption, UnknownName, WherefromError
from wherefrom.model.text_model import TextModel
from wherefrom.registry import all_methods

TEXT = "the [MASK] was not [MASK] but dull"
PLACES = [2, 5]  # behind [CLS]
TEXTS = [TEXT, "a [MASK]", "never a [MASK] plot and [MASK] [MASK] bad", "the film was [MASK] bad"]


@pytest.fixture(scope="module")
def network() -> TextModel:
    return make_model("bert", task="masked_lm", dtype=torch.float64)


@pytest.fixture(scope="module")
def model(network: TextModel) -> Model:
    return Model(network)


def by_hand(network: TextModel, words: list[str]) -> Tensor:
    """The network's own logits for these tokens. (token, word)"""
    ids = torch.tensor([network.reading.tokenizer.convert_tokens_to_ids(words)])
    with torch.no_grad():
        found: Tensor = network.network.module(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0]
    return found


def number(network: TextModel, word: str) -> int:
    found: Any = network.reading.tokenizer.convert_tokens_to_ids(word)
    return int(found)


def test_what_is_likeliest_at_each_is_explained_unless_said(network: TextModel, model: Model) -> None:
    logits = by_hand(network, list(network.encode(TEXT).tokens))[PLACES]  # (mask, word)
    found = model.explain(TEXT, "occlusion")
    best = [int(one.argmax()) for one in logits]
    assert found.target == found.prediction == " ".join(network.reading.tokenizer.convert_ids_to_tokens(best))
    chances = logits.softmax(-1)
    assert found.probability == pytest.approx((chances[0, best[0]] * chances[1, best[1]]).item(), rel=1e-9)
    pairs = product(range(chances.shape[1]), repeat=2)
    five = sorted(((chances[0, a] * chances[1, b]).item() for a, b in pairs), reverse=True)[:5]
    assert list(found.probabilities.values()) == pytest.approx(five, rel=1e-9)
    assert "2 masks are added up" in found.notes[0]


@pytest.mark.parametrize("masks", [(0, 1), (1,)])
def test_occlusion_by_hand(network: TextModel, model: Model, masks: tuple[int, ...]) -> None:
    """What the logits of the words lose together, at the masks that are asked about."""
    wanted = ["film", "good"]
    target = "film good" if len(masks) == 2 else "#2: good"
    tokens = list(network.encode(TEXT).tokens)

    def score(words: list[str]) -> float:
        logits = by_hand(network, words)
        return sum(logits[PLACES[mask], number(network, wanted[mask])].item() for mask in masks)

    found = model.explain(TEXT, "occlusion", target, fill="unk")
    assert found.target == target
    for place, (token, given) in enumerate(zip(tokens, found.scores, strict=True)):
        hidden = [*tokens[:place], "[UNK]", *tokens[place + 1 :]]
        expected = 0.0 if token in ("[CLS]", "[SEP]", "[MASK]") else score(tokens) - score(hidden)
        assert given == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", [row.name for row in all_methods() if row.name not in ("best", "optimus", "random")])
def test_all_masks_are_the_sum_of_each(model: Model, name: str) -> None:
    both = model.explain(TEXT, name, "film good", **CHEAP.get(name, {}))
    each = [model.explain(TEXT, name, one, **CHEAP.get(name, {})) for one in ("#1: film", "#2: good")]
    if name not in ("lime", "kernel_shap"):  # those fit what all masks lose together
        summed = [sum(pair) for pair in zip(*(one.scores for one in each), strict=True)]
        assert_close(both.scores, summed, tolerance=tolerance_of(model.text_model), what=name)
    assert both.probability == pytest.approx(each[0].probability * each[1].probability, rel=1e-9)  # type: ignore[operator]


def test_one_rather_than_another(network: TextModel, model: Model) -> None:
    logits = by_hand(network, list(network.encode(TEXT).tokens))[PLACES]
    gaps = [
        logits[mask, number(network, one)] - logits[mask, number(network, other)]
        for mask, (one, other) in enumerate([("film", "plot"), ("good", "bad")])
    ]
    both = model.explain(TEXT, "saliency", ("film good", "plot bad"))
    assert both.target == "film good rather than plot bad"
    assert both.probability == pytest.approx((gaps[0].sigmoid() * gaps[1].sigmoid()).item(), rel=1e-9)
    second = model.explain(TEXT, "saliency", ("#2: good", "bad"))
    assert second.probability == pytest.approx(gaps[1].sigmoid().item(), rel=1e-9)
    # Where both say the same word at a mask, the other mask is what tells them apart.
    same = model.explain(TEXT, "saliency", ("film good", "film bad"))
    assert same.scores == pytest.approx(second.scores, rel=1e-9)


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert"])
def test_texts_with_different_numbers_of_masks_share_batches(family: str) -> None:
    model = Model(make_model(family, task="masked_lm", dtype=torch.float64))
    tolerance = tolerance_of(model.text_model)
    for method in ("saliency", "occlusion", "gae", "attn_lrp", "kernel_shap"):
        for text, together in zip(TEXTS, model.explain(TEXTS, method), strict=True):
            alone = model.explain(text, method)
            assert (alone.target, alone.prediction) == (together.target, together.prediction)
            assert_close(together.probability, alone.probability, tolerance=tolerance)
            assert_close(together.scores, alone.scores, tolerance=tolerance, what=method)


def test_questions_about_them_share_an_asker(network: TextModel) -> None:
    """A text with one mask and one with two have answers of different lengths."""
    asker = Asker(network)
    encodings = [network.encode(text) for text in TEXTS]
    asked = [asker.note(one, torch.eye(len(one), dtype=torch.bool), "delete") for one in encodings]
    asker.run()
    for encoding, found in zip(encodings, asked, strict=True):
        alone = Asker(network)
        apart = alone.note(encoding, torch.eye(len(encoding), dtype=torch.bool), "delete")
        alone.run()
        assert_close(found.logits, apart.logits, tolerance=tolerance_of(network))
        target = network.task.predicted(network, apart.logits[0], encoding)
        assert_close(found.probability([target]), apart.probability([target]), tolerance=tolerance_of(network))


def test_erasure_by_hand(network: TextModel, model: Model) -> None:
    tokens = list(network.encode(TEXT).tokens)

    def chance(words: list[str]) -> float:
        logits = by_hand(network, words)
        places = [place for place, word in enumerate(words) if word == "[MASK]"]
        return (logits[places[0]].softmax(-1)[film] * logits[places[1]].softmax(-1)[good]).item()

    film, good = number(network, "film"), number(network, "good")
    explanation = model.explain(TEXT, "saliency", "film good")
    (grade,) = model.evaluate(explanation, ["aopc"]).grades[0]
    ranked = sorted((-score, place) for place, score in enumerate(explanation.scores) if not explanation.special[place])
    hidden = [place for _, place in ranked[:2]]  # of five words
    left = [token for place, token in enumerate(tokens) if place not in hidden]
    assert grade.details["curve"][4] == pytest.approx(chance(tokens) - chance(left), rel=1e-6)  # at 40%


def test_flip_against_every_set(network: TextModel, model: Model) -> None:
    tokens = list(network.encode(TEXT).tokens)

    def decided(words: list[str]) -> list[int]:
        return [int(row.argmax()) for row, word in zip(by_hand(network, words), words, strict=True) if word == "[MASK]"]

    words = [place for place, token in enumerate(tokens) if token not in ("[CLS]", "[SEP]", "[MASK]")]
    sets = [hidden for size in range(1, len(words)) for hidden in combinations(words, size)]
    left = {hidden: [token for place, token in enumerate(tokens) if place not in hidden] for hidden in sets}
    flipping = [hidden for hidden in sets if decided(left[hidden]) != decided(tokens)]
    found = model.flip(TEXT, level="token")
    assert len(found.hidden) == (len(flipping[0]) if flipping else 0)
    if flipping:
        assert found.becomes not in (None, found.decision)
        again = model.flip(TEXT, to=found.becomes, level="token")
        assert again.becomes == found.becomes


def test_saved_and_graded_again(model: Model, tmp_path: Any) -> None:
    for target in (None, "#2: good", ("film good", "plot bad")):
        before = model.explain(TEXT, "saliency", target)
        before.save(tmp_path / "one.json")
        after = Explanation.load(tmp_path / "one.json")
        assert after == before
        assert (
            model.evaluate(after, ["comprehensiveness"]).grades == model.evaluate(before, ["comprehensiveness"]).grades
        )


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("good", BadOption, "2 masks, and the target 'good' names 1 token. Give a token for each"),
        (5, BadOption, "choose a mask, as in '#2: good'"),
        ("a good film", BadOption, "names 3 tokens"),
        ("#3: good", UnknownName, "no mask number 3: the text has 2"),
        ("film xyzxyz", UnknownName, "not one token"),
        (("film good", "#2: bad"), BadOption, "different masks"),
        (("film good", "film good"), BadOption, "mean the same"),
    ],
)
def test_what_cannot_be_asked(model: Model, target: Any, error: type[WherefromError], message: str) -> None:
    with pytest.raises(error, match=message):
        model.explain(TEXT, "saliency", target)
    with pytest.raises(BadOption, match="one mask, and the target 'film good' names 2 tokens"):
        model.explain("a [MASK]", "saliency", "film good")
