"""How loud colours may be, and what the views warn of."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

import wherefrom
from report.sentences import explain, film
from wherefrom.core.check import Check, HiddenUnits
from wherefrom.core.explanation import Explanation
from wherefrom.core.target import SavedTarget
from wherefrom.registry import all_methods
from wherefrom.report.effect import (
    LOG_PROBABILITY,
    LOGIT,
    PALE,
    Effect,
    effect_of,
    loudness_of,
    points,
    score_unit,
    shift,
    shift_of_log,
    warning,
)
from wherefrom.report.html import fragment, page
from wherefrom.report.wording import scale_ends, unit_rule


def checked(whole: float, hidden: float) -> Check:
    one = HiddenUnits((1,), ("fine",), hidden, hidden, 20, whole, whole, whole, 1.0, "weak")
    return Check("weak", whole, "delete", 1, strongest=one)


def test_scores_on_the_scale_of_the_logit_are_signed() -> None:
    assert all(row.signed for row in all_methods() if row.scale is not None)


@pytest.mark.parametrize(("probability", "step"), [(0.5, 1.0), (0.998, 0.01), (0.998, 8.0), (0.02, 3.0), (0.5, 2000.0)])
def test_a_shift_is_that_of_a_softmax(probability: float, step: float) -> None:
    """By two logits whose softmax it is; the derivative p (1 - p) where the step is small."""
    first = math.log(probability / (1 - probability))
    moved = [1 / (1 + math.exp(min(700.0, -(first + sign * step)))) for sign in (1, -1)]
    assert shift(probability, step) == pytest.approx(max(abs(one - probability) for one in moved))
    assert shift(probability, 1e-5) == pytest.approx(1e-5 * probability * (1 - probability), rel=1e-3)
    assert shift(1.0, step) == shift(0.0, step) == 0.0


def test_where_the_effect_comes_from() -> None:
    """The scores where they share out the logit; else the check; else the derivatives; else nobody knows."""
    check = checked(0.75, 0.5)
    by_scores = Effect(shift(0.75, 3.5), measured=False)  # 0, 2, -1, 0.5
    assert effect_of(film(method="lrp", check=check)) == by_scores
    assert effect_of(film(method="attcat", check=check)) == Effect(0.25, measured=True)
    assert effect_of(film(method="attcat")) == by_scores
    assert effect_of(film(method="saliency", check=check)) == Effect(0.25, measured=True)
    assert effect_of(film(method="saliency")) is None
    assert effect_of(film(method="integrated_gradients", signed=False)) is None  # reduce=l2 gives lengths, not logits
    assert loudness_of(film(method="saliency")) == 1.0
    with_ends = film(method="lrp", ends=4.0)
    assert effect_of(with_ends) == by_scores
    assert effect_of(with_ends, special=True) == Effect(shift(0.75, 11.5), measured=False)


@pytest.mark.parametrize(("size", "loudness"), [(0.0, PALE), (0.009, PALE), (0.05, 0.5), (0.1, 1.0), (0.9, 1.0)])
def test_loudness(size: float, loudness: float) -> None:
    assert Effect(size, measured=True).loudness == pytest.approx(loudness)


def saturated(**more: Any) -> Explanation:
    """Scores of a few thousandths of a logit at 99.8%."""
    return explain("gorgeous film", (0, 8, -0.003), (9, 13, 0.002), probability=0.998, **more)


def test_a_saturated_model_is_told_in_words_and_stays_pale() -> None:
    told = warning(saturated())
    assert told == (
        "The scores are tiny: the model is saturated. All of them together could move the probability by less than 0.1"
        " points, so the colours stay pale."
    )
    for html in (page([saturated()]), fragment(saturated())):
        assert told in html
        assert f"--s:{PALE}" in html
        assert "--s:1;" not in html


def test_a_measured_effect_is_told_as_such() -> None:
    told = warning(explain("a b", (0, 1, 1.0), (2, 3, 2.0), signed=False, method="alti", check=checked(0.75, 0.745)))
    assert told == (
        "The effect is tiny. Hiding the tokens that the scores name moved the probability by 0.5 points, so the colours"
        " stay pale."
    )


def test_rounding_is_told() -> None:
    alike = explain("a b", (0, 1, 0.5), (2, 3, 0.5), signed=False, method="raw_attention")
    assert warning(alike).startswith("Differences here are rounding")
    assert warning(explain("a b", (0, 1, 1e-8), (2, 3, -1e-9))).startswith("Differences here are rounding")


def test_nothing_is_warned_of_without_need() -> None:
    assert warning(film()) == ""
    assert warning(explain("a", (0, 1, 0.0))) == ""
    assert warning(film(method="saliency", signed=False)) == ""


def test_points() -> None:
    assert [points(one) for one in (0.0001, 0.012, 0.5)] == ["less than 0.1 points", "1.2 points", "50.0 points"]


def test_what_hiding_moved_is_never_more_than_what_the_scores_could_move() -> None:
    """Scores of opposite sign cancel in a sentence, so that hiding it may move more than its score says."""
    sentence = saturated(method="lrp", check=checked(0.998, 0.1))
    assert effect_of(sentence) == Effect(pytest.approx(0.898), measured=True)  # type: ignore[arg-type]
    assert warning(sentence) == ""


def test_scores_in_log_probability() -> None:
    """Of words hidden from a language model; of an output of two tokens, half of the scores count for each."""
    next_token = film(method="occlusion", task="causal_lm")  # 0, 2, -1, 0.5
    assert score_unit(next_token) == LOG_PROBABILITY
    assert score_unit(film(method="occlusion")) == score_unit(film(method="lrp", task="causal_lm")) == LOGIT
    assert score_unit(film(method="saliency", task="causal_lm")) is None
    assert effect_of(next_token) == Effect(pytest.approx(0.75 - 0.75 * math.exp(-3.5)), measured=False)  # type: ignore[arg-type]
    rare = replace(next_token, probability=0.001)
    assert effect_of(rare) == Effect(pytest.approx(0.001 * math.exp(3.5) - 0.001), measured=False)  # type: ignore[arg-type]
    output = replace(next_token, components=(SavedTarget(1, step=0), SavedTarget(2, step=1)))
    assert effect_of(output) == Effect(pytest.approx(0.75 - 0.75 * math.exp(-1.75)), measured=False)  # type: ignore[arg-type]
    assert shift_of_log(0.9, 1e9) == pytest.approx(0.9)
    for view in (page([next_token]), fragment(next_token)):
        assert "in log-probability (natural)" in view
    assert "in logits" in page([film(method="lrp")])


def test_means_are_not_taken_for_sums() -> None:
    text = "Not bad. Fun!"
    tokens = explain(text, (0, 3, -3.0), (4, 7, 0.5), (7, 8, 0.0), (9, 12, 2.0), (12, 13, -0.5), method="lrp")
    tokens = replace(tokens, sentence_of=(0, 0, 0, 1, 1), gap=0.1, unassigned=0.2)
    sums, means = tokens.at("sentence"), tokens.at("sentence", "mean")
    assert sum(sums.scores) == sum(tokens.scores)
    assert (sums.gap, sums.unassigned, means.gap, means.unassigned) == (0.1, 0.2, None, None)
    assert effect_of(sums) == Effect(shift(0.75, 4.0), measured=False)
    assert effect_of(means) is None
    assert unit_rule(sums) == "the score of a sentence is the sum of its tokens' scores"
    assert unit_rule(means) == "the score of a sentence is the mean of its tokens' scores"
    assert unit_rule(tokens) == ""


def test_no_sentence_is_called_tiny_that_decides_alone() -> None:
    """Its own test takes the probability from 99.3% to 9.8%."""
    text = "The cast is fine and the jokes land. But the plot drags on and on, and the ending is a mess."
    embedded = wherefrom.load("embedded")
    e = embedded.explain(f"{text} I would not see it again.", level="sentence", check=True)
    assert e.check is not None
    assert e.check.effect > 0.8
    assert warning(e) == ""
    tokens = embedded.explain(e.text)
    assert sum(e.scores) == pytest.approx(sum(tokens.scores))
    assert unit_rule(embedded.explain(text, "occlusion", level="sentence")).endswith("each sentence as a whole")


def test_a_difference_names_the_two_methods() -> None:
    saliency = replace(film(method="saliency"), scores=(2.0, 1.0, 0.0, 0.0))
    both = film(method="attcat").minus(saliency)
    assert scale_ends(both) == ("more by saliency", "more by attcat")
    assert scale_ends(film()) == ("against", "for")
    assert "more by saliency" in page([both])
