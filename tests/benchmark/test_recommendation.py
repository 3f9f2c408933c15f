"""What a run recommends: by hand where it is clear, by law where it is not."""

from __future__ import annotations

import numpy as np
import pytest

from wherefrom.benchmark.counted import ScoreTable
from wherefrom.benchmark.recommendation import Recommendation, RedrawnRanks, recommend, redrawn_ranks
from wherefrom.benchmark.statistics import Better, average_ranks, question_of
from wherefrom.benchmark.statistics import Standing as Row
from wherefrom.report.recommendation import recommended

pa = pytest.importorskip("pyarrow")
HIGHER: dict[str, Better] = {"aopc": "higher", "rft": "higher", "log_odds": "lower", "entropy": "lower"}


def table(values: dict[str, dict[str, list[float]]]) -> ScoreTable:
    """metric -> method -> the value on every example."""
    rows = [
        {"example": f"e{place}", "target": "YES", "metric": metric, "method": method, "value": value, "why": ""}
        for metric, by_method in values.items()
        for method, found in by_method.items()
        for place, value in enumerate(found)
    ]
    return ScoreTable.of(pa.Table.from_pylist(rows).to_batches())


def test_one_that_is_always_ahead_is_recommended_for_sure() -> None:
    found = redrawn_ranks(table({"aopc": {"a": [3.0, 4.0], "b": [1.0, 2.0], "random": [0.0, 0.5]}}), HIGHER, rounds=50)
    assert found is not None
    assert found.ranks.tolist() == [[1.0, 2.0, 3.0]] * 50
    assert found.above_random == {"a": 1, "b": 1, "random": 0}
    told = recommend([found])
    assert told == Recommendation("a", (("a", 1.0),), 2, 50, 1, 1)
    words = recommended(told, {"a": 1.0, "b": 0.1})
    assert words is not None
    assert words.headline == "Take a."
    assert words.sentence == (
        "It has the best mean rank in 100% of 50 redraws of the 2 examples."
        " By the only metric it is better than random beyond chance."
    )


def test_lower_is_better_where_it_is() -> None:
    found = redrawn_ranks(table({"log_odds": {"a": [3.0, 4.0], "b": [1.0, 2.0]}}), HIGHER, rounds=10)
    assert found is not None
    assert found.ranks.tolist() == [[2.0, 1.0]] * 10


def test_two_that_take_turns_share_the_redraws() -> None:
    # Of two examples each method wins one: both drawn, they are equal; one drawn twice, its winner is first.
    found = redrawn_ranks(table({"aopc": {"a": [1.0, 0.0], "b": [0.0, 1.0]}}), HIGHER, rounds=4000)
    told = recommend([found])
    assert told is not None
    assert dict(told.shares) == pytest.approx({"a": 0.5, "b": 0.5}, abs=0.05)
    assert told.above_random is None
    words = recommended(told, {"a": 1.0, "b": 1.0})
    assert words is not None
    assert "may be as good: these examples do not settle it." in words.sentence


def test_metrics_of_one_question_count_once_and_shapes_not_at_all() -> None:
    assert question_of("aopc") == question_of("log_odds:fill=pad") == "erasure"
    assert question_of("entropy") is None
    assert question_of("one_of_my_own") == "one_of_my_own"
    values = {
        "aopc": {"a": [1.0], "b": [0.0]},
        "log_odds": {"a": [0.0], "b": [1.0]},  # two of one question for a,
        "rft": {"a": [0.0], "b": [1.0]},  # and one of another for b
        "entropy": {"a": [9.0], "b": [0.0]},
    }
    found = redrawn_ranks(table(values), HIGHER, rounds=3)
    assert found is not None
    assert found.ranks.tolist() == [[1.5, 1.5]] * 3
    assert (found.questions, found.metrics) == (2, 3)
    boards = {
        metric: [
            Row("a", 0.0, rank=1.0 + (metric in ("rft", "entropy"))),
            Row("b", 0.0, rank=2.0 - (metric in ("rft", "entropy"))),
        ]
        for metric in values
    }
    assert average_ranks({"one": boards}).overall == [1.5, 1.5]
    assert redrawn_ranks(table({"entropy": values["entropy"]}), HIGHER) is None


def test_nothing_is_recommended_that_is_not_better_than_random() -> None:
    same = {"aopc": {"a": [1.0, 0.0, 1.0, 0.0], "random": [0.0, 1.0, 0.5, 0.4]}}
    words = recommended(recommend([redrawn_ranks(table(same), HIGHER, rounds=200)]), {})
    assert words is not None
    assert words.headline == "None of these methods can be recommended."
    ahead = {"aopc": {"a": [0.0, 0.0], "random": [1.0, 1.0]}}
    words = recommended(recommend([redrawn_ranks(table(ahead), HIGHER, rounds=20)]), {})
    assert words is not None
    assert words.sentence == "On these 2 examples a random order ranks first."


def test_a_cheaper_one_that_may_be_as_good_is_named() -> None:
    shares = (("dear", 0.6), ("cheap", 0.395), ("poor", 0.005))
    words = recommended(Recommendation("dear", shares, 40, 2000, None, 3), {"dear": 2.0, "cheap": 0.01, "poor": 0.001})
    assert words is not None
    assert words.sentence == (
        "It has the best mean rank in 60% of 2,000 redraws of the 40 examples; cheap (40%) may be as good: these"
        " examples do not settle it. The cheapest of these is cheap: 10.0 ms an example instead of 2.00 s."
    )


def test_several_runs_are_judged_together_by_what_they_share() -> None:
    one = RedrawnRanks(("a", "b", "c"), np.array([[1.0, 2.0, 3.0]] * 2), 5, 1, {"a": 1, "b": 0, "c": 0}, 1)
    two = RedrawnRanks(("b", "a"), np.array([[1.0, 4.0]] * 2), 7, 1, {"a": 0, "b": 1}, 1)
    told = recommend([one, two])
    assert told == Recommendation("b", (("b", 1.0),), 12, 2, None, 2)
    assert recommend([None]) is None


def test_a_method_that_is_the_same_for_every_class_is_not_recommended() -> None:
    ranks = np.tile([1.0, 2.0, 3.0], (50, 1))
    redrawn = RedrawnRanks(("alti", "attcat", "random"), ranks, 20, 1, {"alti": 1, "attcat": 1, "random": 0}, 1)
    advice = recommend([redrawn])
    assert advice is not None
    assert (advice.method, advice.same_for_every_class) == ("attcat", ("alti",))
    words = recommended(advice, {})
    assert words is not None
    assert words.sentence.endswith("Not considered: alti, which gives every class the same scores.")
    alone = recommend(
        [redrawn._replace(methods=("alti", "norms", "random"), above_random={"alti": 1, "norms": 0, "random": 0})]
    )
    assert alone is not None
    assert (alone.method, alone.same_for_every_class) == ("alti", ())
