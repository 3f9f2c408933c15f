"""Tables from rows whose answer is known by hand, by law, or from scipy."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

from wherefrom.benchmark.counted import MetricScores, ScoreTable
from wherefrom.benchmark.statistics import (
    Energy,
    Standing,
    agreement,
    average_ranks,
    costs,
    curves,
    leaderboard,
    winners,
)


def batches(frame: pd.DataFrame) -> list[pa.RecordBatch]:
    """As a run gives them, a few rows at a time."""
    found: list[pa.RecordBatch] = pa.Table.from_pandas(frame, preserve_index=False).to_batches(max_chunksize=5)
    return found


def scored(table: dict[str, list[float | None]]) -> MetricScores:
    return ScoreTable.of(batches(scores(table))).metrics["aopc"]


def scores(table: dict[str, list[float | None]], metric: str = "aopc") -> pd.DataFrame:
    rows = [
        {
            "example": f"e{number}",
            "target": "YES",
            "method": method,
            "metric": metric,
            "value": value,
            "why": "" if value else "no rationale",
        }
        for method, values in table.items()
        for number, value in enumerate(values)
    ]
    return pd.DataFrame(rows).assign(details="{}").astype({"value": "float64"})


def test_means_ranks_and_differences_by_hand() -> None:
    board = leaderboard(scored({"low": [1.0, 2.0, 3.0], "high": [2.0, 3.0, 4.0], "same": [2.0, 3.0, 4.0]}), "higher")
    assert [(one.method, one.mean, one.rank, one.count) for one in board] == [
        ("high", 3.0, 1.5, 3),
        ("same", 3.0, 1.5, 3),
        ("low", 2.0, 3.0, 3),
    ]
    assert board[0].error == pytest.approx(1 / 3**0.5)
    assert [one.behind for one in board] == [0.0, 0.0, -1.0]
    assert board[0].behind_interval is None  # the best is not held against itself
    assert board[1].behind_interval == (0.0, 0.0)
    assert board[2].behind_interval == (
        -1.0,
        -1.0,
    )  # a paired difference that is always one has no doubt, unlike the means
    assert board[2].interval is not None
    assert board[2].interval.low < 2 < board[2].interval.high
    assert [one.as_good_as_the_best for one in board] == [False, True, False]


def test_lower_may_be_better() -> None:
    board = leaderboard(scored({"a": [1.0, 2.0], "b": [0.5, 0.0]}), "lower")
    assert [(one.method, one.rank) for one in board] == [("b", 1.0), ("a", 2.0)]
    assert board[1].behind == 1.25


def test_what_is_not_defined_is_left_out_and_said() -> None:
    board = leaderboard(scored({"a": [1.0, None, 4.0], "b": [2.0, 3.0, None], "none": [None, None, None]}), "higher")
    by_name = {one.method: one for one in board}
    assert (by_name["a"].mean, by_name["a"].count) == (2.5, 2)
    assert (by_name["b"].mean, by_name["b"].count) == (2.5, 2)
    assert by_name["b"].behind == 1.0  # on the one example that both have
    assert by_name["b"].behind_interval is None
    assert by_name["none"] == Standing("none", None, why="no rationale")
    assert board[-1].method == "none"


def test_one_example_has_no_interval() -> None:
    (one,) = leaderboard(scored({"a": [1.0]}), "higher")
    assert (one.mean, one.interval, one.error) == (1.0, None, None)


def test_ranks_over_data_sets_by_hand() -> None:
    def board(*names: str) -> list[Standing]:
        return [Standing(name, 0.0, rank=float(number)) for number, name in enumerate(names, 1)]

    found = average_ranks(
        {
            "one": {"aopc": board("a", "b", "c"), "auprc": [*board("b", "a"), Standing("c", None)]},
            "two": {"aopc": board("b", "c", "a")},
        }
    )
    assert found.methods == ["b", "a", "c"]
    assert found.metrics == ["aopc", "auprc"]
    assert found.by_metric == [[1.5, 1.0], [2.0, 2.0], [2.5, None]]
    assert found.overall == [1.25, 2.0, 2.5]


def explanation(method: str, values: list[float], example: str = "e0", **more: Any) -> dict[str, Any]:
    segment = [-1, *[0] * (len(values) - 1)]
    return {
        "example": example,
        "target": "YES",
        "method": method,
        "scores": values,
        "segment": segment,
        "params": "{}",
    } | more


def test_agreement_is_spearman_s() -> None:
    one, two, three = [9.0, 1.0, 2.0, 3.0, 5.0], [-9.0, 1.0, 3.0, 2.0, 7.0], [0.0, 4.0, 3.0, 2.0, 1.0]
    rows = [
        explanation("a", one),
        explanation("b", two),
        explanation("c", three),
        explanation("a", one, "e1"),
        explanation("b", three, "e1"),
    ]
    rows.append(explanation("c", [5.0, 1.0, 1.0, 1.0, 1.0], "e1"))  # flat: no order to agree on
    found = agreement(batches(pd.DataFrame(rows)), ["a", "b", "c"])
    ab, ac, bc = (stats.spearmanr(x[1:], y[1:]).statistic for x, y in ((one, two), (one, three), (two, three)))
    assert found.matrix[0, 1] == pytest.approx((ab + ac) / 2)
    assert found.matrix[0, 2] == pytest.approx(ac)
    assert np.diag(found.matrix) == pytest.approx([1, 1, 1])
    assert found.by_example["e0", "YES"] == pytest.approx((ab + ac + bc) / 3)
    assert found.by_example["e1", "YES"] == pytest.approx(ac)
    assert np.isnan(agreement([], ["a"]).matrix).all()


def test_agreement_of_many_texts_is_that_of_each_of_them() -> None:
    """Texts are ranked in groups of one shape, and their rows come in several batches."""
    chance, rows = np.random.default_rng(0), list[dict[str, Any]]()
    expected: dict[tuple[str, str], list[float]] = {}
    totals = np.zeros((3, 3, 2))
    for number in range(40):
        names = ["a", "b", "c"][: 2 + number % 2]
        length = 4 + number % 3
        # Few different values, so that there are ties.
        own = {name: [9.0, *chance.permutation(np.arange(length) // 2 * 1.0)] for name in names}
        rows += [explanation(name, own[name], f"e{number}") for name in names]
        for one, other in product(names, names):
            rho = stats.spearmanr(own[one][1:], own[other][1:]).statistic
            totals["abc".index(one), "abc".index(other)] += [rho, 1]
            if one < other:
                expected.setdefault((f"e{number}", "YES"), []).append(rho)
    found = agreement(batches(pd.DataFrame(rows)), ["a", "b", "c"])
    assert found.by_example == pytest.approx({key: np.mean(rhos) for key, rhos in expected.items()})
    assert found.matrix == pytest.approx(totals[..., 0] / totals[..., 1])


def test_curves_are_means() -> None:
    rows = scores({"a": [0.5, 0.25], "b": [0.5, None]})
    curve = [json.dumps({"curve": [0.0, value, 1.0]}) for value in (1.0, 0.5)]
    rows.loc[rows["method"] == "a", "details"] = curve
    found = curves(batches(rows), ["aopc"])["aopc"]
    assert list(found) == ["a"]
    assert found["a"] == ([0.0, 50.0, 100.0], [0.0, 0.75, 1.0])


def test_energy_is_the_paper_s() -> None:
    energy = Energy()
    assert energy.kilowatt_hours(3600) == pytest.approx(0.2981)  # 271 W for an hour, times 1.10
    assert energy.grams(3600) == pytest.approx(127.8849)
    assert Energy(power=100, overhead=1, intensity=1).grams(36) == pytest.approx(1.0)


def test_costs_by_hand() -> None:
    def row(part: int, examples: int, method: str, seconds: float, forwards: int) -> dict[str, Any]:
        return {
            "part": part,
            "examples": examples,
            "method": method,
            "seconds": seconds,
            "forwards": forwards,
            "backwards": 1,
        }

    rows = [
        row(0, 3, "slow", 3.0, 10),
        row(0, 3, "quick", 1.0, 1),
        row(1, 1, "slow", 5.0, 20),
        row(1, 1, "quick", 1.0, 1),
    ]
    quick, slow = costs(pd.DataFrame(rows), Energy())
    assert (slow.method, slow.seconds, slow.per_example, slow.forwards, slow.backwards) == (
        "slow",
        14.0,
        3.5,
        12.5,
        1.0,
    )
    assert quick.grams == pytest.approx(Energy().grams(4.0))
    assert slow.examples == [3, 4]
    assert slow.seconds_so_far == [9.0, 14.0]
    assert costs(pd.DataFrame(rows))[0].grams is None  # nobody said what the machine draws


def test_operations_that_won() -> None:
    rows = [explanation("optimus", [0.0], params=json.dumps({"winner": name})) for name in ("mean", "mean", "product")]
    frame = pd.DataFrame([*rows, explanation("attcat", [0.0])])
    assert winners(batches(frame)) == {"optimus": {"mean": 2, "product": 1}}
