"""Scores of any tool are graded by the units that they and the model's tokens agree on."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wherefrom
from wherefrom.core.explanation import Explanation
from wherefrom.errors import BadOption
from wherefrom.grading.common_units import on_common_units

TEXT = "A gorgeous, witty film, but the plot drags unbearably."
MODEL = wherefrom.load("embedded")
ENCODING = MODEL.text_model.encode(TEXT)
METRICS = ["comprehensiveness", "sufficiency", "rft"]


def test_a_round_trip_has_the_same_grades() -> None:
    """Scores that went out as tokens and numbers and came back are graded as if they had not."""
    e = MODEL.explain(TEXT, "saliency", target="NEGATIVE")
    again = Explanation.from_scores(TEXT, e.scores, tokens=e.tokens, target="NEGATIVE", method="saliency")
    first, second = MODEL.evaluate(e, METRICS), MODEL.evaluate(again, METRICS)
    assert [grade.value for grade in second.grades[0]] == [grade.value for grade in first.grades[0]]
    (completed,) = second.explanations
    assert (completed.probability, completed.prediction, completed.level) == (e.probability, e.prediction, "token")
    assert completed.components == e.components


def test_units_by_hand() -> None:
    """Words of another tool that contain punctuation: each is a unit with the tokens that it shares."""
    words = ["A", "gorgeous,", "witty", "film,", "but", "the", "plot", "drags", "unbearably."]
    scores = [0.0, 5.0, 4.0, 0.0, 0.0, 0.0, 0.0, -3.0, -1.0]
    e = Explanation.from_scores(TEXT, scores, words=words)
    graded = MODEL.evaluate(e, METRICS).explanations[0]
    assert [unit.text for unit in graded.units()] == words
    assert [unit.score for unit in graded.units()] == scores
    assert graded.target == graded.prediction == MODEL.explain(TEXT, "saliency").target
    assert "Graded by 9 units" in graded.notes[-1]


def test_different_units_are_graded_by_what_they_share() -> None:
    ours = MODEL.explain(TEXT, "saliency")
    theirs = Explanation.from_scores(TEXT, [3.0, 1.0], offsets=[(0, 17), (18, 54)], target=ours.target)
    one, two = MODEL.evaluate([ours, theirs], METRICS).explanations
    assert one.offsets == two.offsets
    assert [unit.score for unit in two.units()] == [3.0, 1.0]
    assert sum(one.scores) == pytest.approx(sum(ours.scores))


@given(st.sets(st.integers(1, len(TEXT) - 1), max_size=12))
@settings(max_examples=50, deadline=None)
def test_the_total_stays(cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), len(TEXT)]
    offsets = list(pairwise(edges))
    scores = [float(place * 7 % 5 - 2) for place in range(len(offsets))]
    e = Explanation.from_scores(TEXT, scores, offsets=offsets)
    encoding, (common,) = on_common_units(ENCODING, [e])
    assert sum(common.scores) == pytest.approx(sum(scores))
    if common.level == "span":
        assert [len(group) > 0 for group in encoding.members("span")] == [True] * len(common.scores)
        real = [span for span, part in zip(common.offsets, common.segment, strict=True) if part >= 0]
        for start, end in ((a, b) for a, b in offsets if TEXT[a:b].strip()):  # no unit of theirs is divided
            assert len([1 for a, b in real if a < end and start < b and TEXT[max(a, start) : min(b, end)].strip()]) == 1


def test_what_the_model_does_not_read_is_left_out() -> None:
    cut = ENCODING.part(range(6))
    words = TEXT.split()
    e = Explanation.from_scores(TEXT, [1.0] * len(words), words=words)
    _, (common,) = on_common_units(cut, [e])
    assert sum(common.scores) < len(words)
    assert "were left out" in common.notes[-1]


def test_a_changed_text_is_an_error() -> None:
    e = MODEL.explain("A gorgeous film", "saliency")
    with pytest.raises(BadOption, match="Was its text changed"):
        MODEL.evaluate(replace(e, text=TEXT), METRICS)


def test_an_unknown_target_is_an_error() -> None:
    e = Explanation.from_scores(TEXT, [1.0], offsets=[(0, 5)], target="GREAT")
    with pytest.raises(wherefrom.WherefromError, match="GREAT"):
        MODEL.evaluate(e, METRICS)
