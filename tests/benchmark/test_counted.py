"""The arrays that a report is made of, against pandas, which counts row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from wherefrom.benchmark.counted import Codes, Keys, Predictions, ScoreTable, distinct_rows, rows_by_key
from wherefrom.benchmark.statistics import macro_f1
from wherefrom.benchmark.tables import schemas

METHODS, METRICS = ["b", "a", "c"], ["rft", "aopc"]


def scores(seed: int) -> list[dict[str, Any]]:
    """Some examples have two targets, some values are missing, and rows of one example may be far from each other."""
    chance, rows = np.random.default_rng(seed), list[dict[str, Any]]()
    for number in chance.permutation(60):
        for target in ["YES", "NO"][: 1 + number % 2]:
            for method in METHODS:
                for metric in METRICS:
                    value = None if chance.random() < 0.2 else float(chance.normal())
                    row = {"example": f"e{number}", "target": target, "method": method, "metric": metric}
                    rows.append(row | {"value": value, "why": "" if value else f"why {chance.integers(3)}"})
    return [rows[place] for place in chance.permutation(len(rows))] if seed % 2 else rows


def batches(rows: list[dict[str, Any]], table: str, columns: list[str], size: int) -> list[Any]:
    schema = pa.schema([schemas()[table].field(name) for name in columns])
    found: list[Any] = pa.Table.from_pylist(rows, schema=schema).to_batches(max_chunksize=size)
    return found


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_scores_are_those_of_a_pivot(size: int) -> None:
    rows = scores(size)
    found = ScoreTable.of(batches(rows, "scores", ["example", "target", "method", "metric", "value", "why"], size))
    frame = pd.DataFrame(rows)
    assert list(found.metrics) == list(dict.fromkeys(frame["metric"]))
    every = sorted(set(zip(frame["example"], frame["target"], strict=True)))
    for metric, table in found.metrics.items():
        own = frame[frame["metric"] == metric]
        wide = own.pivot(index=["example", "target"], columns="method", values="value")
        assert table.methods == list(dict.fromkeys(own["method"]))
        assert [every[place] for place in table.keys] == list(wide.index)
        np.testing.assert_array_equal(table.values, wide[table.methods].to_numpy(dtype=np.float64))
        missing = own[own["value"].isna()]
        for method, why in table.why.items():
            counts = missing[missing["method"] == method]["why"].value_counts()
            assert counts[why] == counts.max()
        assert set(table.why) == set(missing["method"])


def test_two_values_of_one_metric_are_an_error() -> None:
    row = {"example": "e", "target": "YES", "method": "a", "metric": "rft", "value": 1.0, "why": ""}
    with pytest.raises(ValueError, match="two values"):
        ScoreTable.of(batches([row, row], "scores", list(row), 10))
    assert ScoreTable.of([]).metrics == {}


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_predictions_are_those_of_the_first_rows(size: int) -> None:
    chance, rows = np.random.default_rng(size), list[dict[str, Any]]()
    for number in chance.permutation(40):
        label = [None, "YES", "NO", "YES, NO"][chance.integers(4)]
        said = ["YES", "NO"][chance.integers(2)]
        every: Any = [None, [said], ["YES", "NO"], []][chance.integers(4)]
        value = None if chance.random() < 0.5 else float(chance.normal())
        for target in ["YES", "NO"][: 1 + number % 2]:
            row = {"example": f"e{number}", "target": target, "label": label, "prediction": said, "predicted": every}
            rows += [row | {"value": value}] * 3  # of three methods
    columns = ["example", "target", "label", "prediction", "predicted", "value"]
    found = Predictions.of(batches(rows, "explanations", columns, size))
    frame = pd.DataFrame(rows)
    examples = frame.drop_duplicates("example")
    assert found.examples == len(examples) == 40
    labelled = examples[examples["label"].notna()]
    expected: dict[tuple[str, str, tuple[str, ...]], int] = {}
    for row in labelled.itertuples():
        key = (row.label, row.prediction, tuple([row.prediction] if row.predicted is None else row.predicted))
        expected[key] = expected.get(key, 0) + 1
    counted: dict[tuple[str, str, tuple[str, ...]], int] = {}
    for answer in found.labelled:  # a list that is null and one that has the prediction alone say the same
        key = (answer.label, answer.prediction, tuple(answer.predicted))
        counted[key] = counted.get(key, 0) + answer.texts
    assert counted == expected
    keys = frame.drop_duplicates(["example", "target"]).sort_values(["example", "target"])
    assert found.keys.to_pylist() == keys[["example", "target"]].to_dict("records")
    known = [label if isinstance(label, str) else None for label in keys["label"]]
    assert [found.labels[code] for code in found.label] == known
    assert [found.names[code] for code in found.prediction] == list(keys["prediction"])
    np.testing.assert_array_equal(np.sort(found.values), np.sort(keys["value"].dropna().astype(np.float64)))
    wrong = [
        label is not None and said not in (label, *label.split(", "))
        for label, said in zip(known, keys["prediction"], strict=True)
    ]
    assert found.wrong.tolist() == wrong
    shuffled = found.keys.take(pa.array(chance.permutation(len(keys))))
    assert found.keys.take(pa.array(found.places(shuffled))).equals(shuffled)
    assert macro_f1(found.labelled) is not None
    assert Predictions.of([]).examples == 0


def test_names_are_numbered_as_they_occur() -> None:
    codes = Codes()
    assert codes.of(pa.array(["b", "a", None, "b"])).tolist() == [0, 1, 2, 0]
    assert codes.of(pa.array(["c", None])).tolist() == [3, 2]
    assert codes.names == ["b", "a", None, "c"]
    lists = Codes()
    assert lists.of_lists(pa.array([["a"], None, [], ["a", "b"], ["a"], ["b"]])).tolist() == [0, 2, 3, 4, 0, 1]
    assert lists.names == [("a",), ("b",), None, (), ("a", "b")]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_rows_of_one_key_stay_together(size: int) -> None:
    rows = [{"example": f"e{number // 3}", "target": "YES", "method": f"m{number % 3}"} for number in range(11)]
    keys, seen = Keys(), list[dict[str, Any]]()
    for group in rows_by_key(batches(rows, "explanations", ["example", "target", "method"], size), keys):
        own = group.table.to_pylist()
        assert not {row["example"] for row in own} & {row["example"] for row in seen}
        seen += own
        assert keys.table().take(pa.array(group.keys))["example"].to_pylist() == [row["example"] for row in own]
    assert seen == rows


def test_distinct_rows_are_counted() -> None:
    (batch,) = pa.table({"method": ["b", "a", "b"], "params": ["{}", "{}", "{}"]}).to_batches()
    assert list(distinct_rows(batch, ("method", "params"))) == [("b", "{}", 2), ("a", "{}", 1)]
