from __future__ import annotations

import math

import pytest

from report.sentences import film
from wherefrom.report.wording import doubts, facts, number, options, percent, predicted


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
        ("completeness gap", "+0"),
        ("unassigned", "-0.25"),
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
