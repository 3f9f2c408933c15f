from __future__ import annotations

import math

import pytest

from report.sentences import film
from wherefrom.core.check import Check, HiddenUnits, Verdict
from wherefrom.report.wording import (
    between,
    classes_heading,
    combination,
    doubts,
    facts,
    findings,
    number,
    options,
    percent,
    predicted,
)


@pytest.mark.parametrize(
    ("probability", "expected"),
    [(0.9421, "94.2%"), (0.99999, ">99.9%"), (1.0, "100.0%"), (1e-5, "<0.1%"), (0.0, "0.0%"), (0.9994, "99.9%")],
)
def test_percent(probability: float, expected: str) -> None:
    assert percent(probability) == expected


@pytest.mark.parametrize(
    ("score", "scale", "signed", "expected"),
    [
        (0.5, 1.0, True, "+0.500"),
        (-0.5, 1.0, True, "-0.500"),
        (0.5, 1.0, False, "0.500"),
        (-0.0001, 1.0, True, "0.000"),
        (0.0, 0.0, True, "0.000"),
        (1.5e-5, 1.5e-5, True, "+1.50e-05"),
        (0.0, 1.5e-5, True, "0.00e+00"),
        (-123456.0, 123456.0, True, "-1.23e+05"),
        (math.nan, 1.0, True, "+nan"),
        (-math.inf, 1.0, True, "-inf"),
    ],
)
def test_number(score: float, scale: float, signed: bool, expected: str) -> None:
    assert number(score, scale, signed=signed) == expected


def test_the_prediction_is_named_only_where_it_differs() -> None:
    assert predicted(film()) is None
    assert predicted(film(prediction="negative")) == "negative"
    assert predicted(film(prediction="negative", probabilities={"negative": 0.6})) == "negative (60.0%)"


def test_options_of_one_method_and_of_a_difference() -> None:
    assert options({"steps": 50, "baseline": "pad"}) == "steps=50, baseline=pad"
    assert options({"lrp": {"rule": "epsilon"}, "attcat": {}}) == "lrp: rule=epsilon, attcat: -"


def test_doubts_say_only_what_there_is() -> None:
    assert doubts(film()) == []
    assert doubts(film(gap=0.0, unassigned=-0.25, cut=1, forwards=3, backwards=1, seconds=0.02)) == [
        ("cut", "1 token not read"),
        ("passes", "3 forward, 1 backward"),
        ("time", "20.0 ms"),
    ]


def test_facts_name_the_target_and_every_note() -> None:
    rows = facts(film(model="tiny", notes=("first", "second")))
    assert rows == [
        ("method", "attcat"),
        ("model", "tiny"),
        ("explained", "positive"),
        ("predicted", "positive"),
        ("scores by", "token"),
        ("note", "first"),
        ("note", "second"),
    ]


def test_a_multi_label_page_does_not_name_another_label() -> None:
    """Every likely label is predicted; of an unlikely one, the likeliest is named."""
    assert predicted(film(prediction="toxic", independent=True, probability=0.75)) is None
    assert predicted(film(prediction="toxic", independent=True, probability=0.25)) == "toxic"


def test_one_rather_than_the_other() -> None:
    assert predicted(film(target="A rather than B", prediction="A")) is None
    assert predicted(film(target="A rather than B", prediction="B")) == "B"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, "Probability of every class"),
        ({"task": "causal_lm"}, "Probability of the next token"),
        ({"task": "masked_lm"}, "Probability of the token at the mask"),
        ({"independent": True}, "Probability of every label, each on its own"),
    ],
)
def test_what_the_probabilities_are_of(more: dict[str, object], expected: str) -> None:
    assert classes_heading(film(**more)) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (
            "A, head 5, multi of layers, mean_columns",
            "head 5 of every layer, layers multiplied, mean attention to each token",
        ),
        (
            "A*, mean of heads, layer 2, from",
            "the mean of all heads of layer 2, attention from the deciding position to each token before the softmax",
        ),
        (
            "A, multi of heads, mean of layers, to",
            "all heads multiplied of every layer, layers averaged, attention from each token to the deciding position",
        ),
        ("A, head 1, layer 3, max_columns", "head 1 of layer 3, largest attention to each token"),
        ("attcat", "attcat"),
    ],
)
def test_a_combination_in_words(written: str, expected: str) -> None:
    assert combination(written) == expected
    assert options({"winner": written}) == f"winner: {expected}"


def hiding(verdict: Verdict = "supported", **more: object) -> HiddenUnits:
    given = {
        "units": (1, 2, 3),
        "texts": ("fine", "film", "\n."),
        "hidden": 0.41,
        "kept": 0.963,
        "draws": 20,
        "mean": 0.971,
        "low": 0.95,
        "high": 0.98,
        "beyond": 1.0,
        "verdict": verdict,
    } | more
    return HiddenUnits(**given)  # type: ignore[arg-type]


def test_a_check_in_words() -> None:
    against = hiding("weak", units=(2,), texts=("film",), hidden=0.99, kept=None, mean=0.977, low=0.976, high=0.979)
    strongest, other = findings(
        film(level="word", check=Check("supported", 0.977, "delete", 3, strongest=hiding(), against=against))
    )
    assert strongest == (
        "supported",
        "Hiding the 3 strongest words: 97.7% -> 41.0%. Hiding 3 words at random: 97.1% (95 to 98)."
        " Keeping only them: 96.3%.",
        '"fine", "film", "."; 20 random choices',
    )
    assert other == (
        "weak",
        "Hiding the word most against it: 97.7% -> 99.0%. Hiding 1 word at random: 97.7% (97.6 to 97.9).",
        '"film"; 20 random choices',
    )


def test_a_check_of_a_short_text_or_of_nothing_says_so() -> None:
    (short,) = findings(film(check=Check("too short", 0.9, "delete", 1, strongest=hiding("too short", draws=0))))
    assert "too short to tell" in short.sentence
    assert "at random" not in short.sentence
    (nothing,) = findings(film(check=Check("not supported", 0.9, "delete", 3)))
    assert nothing == ("not supported", "No score differs from zero: there is nothing to hide.", "")
    assert findings(film()) == []


def test_between() -> None:
    assert between(0.95, 0.98) == "95 to 98"
    assert between(0.9961, 0.9989) == "99.6 to 99.9"
