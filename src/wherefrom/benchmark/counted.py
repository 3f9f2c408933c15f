"""The tables of a run as arrays, with no object for each row, so that a report of a million rows takes seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from wherefrom.benchmark.tables import arrow_and_parquet
from wherefrom.core.arrays import Flags, Indices, Numbers

MEASURED = ("example", "target", "method", "metric", "value", "why")
PREDICTED = ("example", "target", "label", "prediction", "predicted", "value")
KEY = ("example", "target")
Key = tuple[str, str]


class Codes:
    """Names as whole numbers, in the order in which they occur."""

    def __init__(self) -> None:
        self._codes: dict[Any, int] = {}

    @property
    def names(self) -> list[Any]:
        return list(self._codes)

    def numbered(self, names: Iterable[Hashable]) -> Indices:
        return np.asarray([self._codes.setdefault(name, len(self._codes)) for name in names], dtype=np.int64)

    def of(self, column: Any) -> Indices:
        """A column of text as numbers; None has one, too. (row,)"""
        encoded = column.dictionary_encode(null_encoding="encode")
        codes: Indices = self.numbered(encoded.dictionary.to_pylist())[np.asarray(encoded.indices)]
        return codes

    def of_lists(self, column: Any) -> Indices:
        """The same for a column of lists of text, nearly all of which have one entry. (row,)"""
        arrow, _ = arrow_and_parquet()
        lengths = np.asarray(arrow.compute.fill_null(arrow.compute.list_value_length(column), -1))
        codes, single = np.empty(len(column), dtype=np.int64), np.flatnonzero(lengths == 1)
        entries = column.take(arrow.array(single)).flatten().dictionary_encode(null_encoding="encode")
        codes[single] = self.numbered((entry,) for entry in entries.dictionary.to_pylist())[np.asarray(entries.indices)]
        others = np.flatnonzero(lengths != 1)
        lists = column.take(arrow.array(others)).to_pylist()
        codes[others] = self.numbered(None if entries is None else tuple(entries) for entries in lists)
        return codes


class Keys:
    """The examples, with their targets, of rows. Those of one key mostly follow each other: such a stretch is compared
    as text once.
    """

    def __init__(self) -> None:
        arrow, _ = arrow_and_parquet()
        self._schema = arrow.schema({name: arrow.string() for name in KEY})
        self._firsts = [self._schema.empty_table()]  # the first row of every stretch
        self._last = self._firsts[0]  # the last row that was seen
        self._count = 0

    def of(self, batch: Any) -> Indices:
        """The number of the stretch of each row. (row,)"""
        arrow, _ = arrow_and_parquet()
        rows = arrow.Table.from_batches([batch]).select(KEY).cast(self._schema)
        starts = _starts(arrow.concat_tables([self._last, rows]))[len(self._last) :]
        self._firsts.append(rows.filter(arrow.array(starts)))
        self._last = rows.slice(len(rows) - 1)
        numbers: Indices = self._count - 1 + np.cumsum(starts)
        self._count += int(starts.sum())
        return numbers

    def table(self) -> Any:
        """The key of every stretch."""
        return arrow_and_parquet()[0].concat_tables(self._firsts)

    def sorted(self) -> tuple[Any, Indices]:
        """The distinct keys in order, as a table; and of every stretch, the place of its key there."""
        arrow, _ = arrow_and_parquet()
        table = self.table().combine_chunks()
        order = np.asarray(arrow.compute.sort_indices(table, [(name, "ascending") for name in KEY])).astype(np.int64)
        ordered = table.take(arrow.array(order))
        starts, places = _starts(ordered), np.empty(len(order), dtype=np.int64)
        places[order] = np.cumsum(starts) - 1
        return ordered.filter(arrow.array(starts)), places


def _starts(table: Any) -> Flags:
    """Which rows differ from the one before. (row,)"""
    arrow, _ = arrow_and_parquet()
    starts = np.ones(len(table), dtype=np.bool_)
    if len(table) > 1:
        later, earlier = table.slice(1), table.slice(0, len(table) - 1)
        differ = [arrow.compute.not_equal(later[name], earlier[name]) for name in table.column_names]
        starts[1:] = np.logical_or.reduce([np.asarray(column) for column in differ])
    return starts


def numbers_of(column: Any) -> Numbers:
    """A column of numbers; NaN where there is none. (row,)"""
    found: Numbers = np.asarray(column, dtype=np.float64)
    return found


def lengths_of(lists: Any) -> Indices:
    """How long each list of a column is. (row,)"""
    found: Indices = np.asarray(arrow_and_parquet()[0].compute.list_value_length(lists)).astype(np.int64)
    return found


def entries_of(lists: Any) -> Numbers:
    """The numbers in all lists of a column, one after the other."""
    return numbers_of(arrow_and_parquet()[0].compute.list_flatten(lists))


@dataclass(frozen=True, eq=False)
class MetricScores:
    """What every method scored by one metric."""

    methods: list[str]  # in the order in which they occur
    keys: Indices  # which of all examples, with their targets, have a row. (key,)
    values: Numbers  # NaN where the metric is not defined. (key, method)
    why: dict[str, str]  # method -> the commonest reason where it is not

    def of(self, method: str) -> Numbers:
        """(key,)"""
        found: Numbers = self.values[:, self.methods.index(method)]
        return found


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """The table of scores."""

    metrics: dict[str, MetricScores]  # in the order in which they occur
    methods: list[str]  # of all metrics

    @classmethod
    def of(cls, batches: Iterable[Any]) -> ScoreTable:
        """From batches of rows with the columns `MEASURED`."""
        keys, methods, metrics, reasons = Keys(), Codes(), Codes(), Counter[tuple[int, int, str]]()
        read: list[tuple[Indices, Indices, Indices, Numbers]] = []
        for batch in batches:
            if not len(batch):
                continue
            metric, method = metrics.of(batch["metric"]), methods.of(batch["method"])
            value = numbers_of(batch["value"])
            read.append((keys.of(batch).astype(np.int32), metric.astype(np.int16), method.astype(np.int16), value))
            unknown = np.flatnonzero(np.isnan(value))
            why = batch["why"].take(as_arrow(unknown)).to_pylist()
            reasons.update(zip(metric[unknown].tolist(), method[unknown].tolist(), why, strict=True))
        if not read:
            return cls({}, [])
        stretch, metric, method, value = (np.concatenate(parts) for parts in zip(*read, strict=True))
        del read
        places, names, found = keys.sorted()[1][stretch], methods.names, {}
        for number, name in enumerate(metrics.names):
            chosen = np.flatnonzero(metric == number)
            found[name] = _metric_scores(places[chosen], method[chosen], value[chosen], names)
        for (number, code, why), _ in reasons.most_common():  # the commonest comes first
            found[metrics.names[number]].why.setdefault(names[code], why)
        return cls(found, names)

    def only(self, metrics: Collection[str]) -> ScoreTable:
        return ScoreTable({name: scores for name, scores in self.metrics.items() if name in metrics}, self.methods)


def _metric_scores(places: Indices, methods: Indices, values: Numbers, names: Sequence[str]) -> MetricScores:
    present, first = np.unique(methods, return_index=True)
    ordered = present[np.argsort(first)]
    column = np.zeros(len(names), dtype=np.int64)
    column[ordered] = np.arange(len(ordered))
    keys, rows = np.unique(places, return_inverse=True)
    cells = rows * len(ordered) + column[methods]
    if len(cells) and np.bincount(cells).max() > 1:
        raise ValueError("an example, target and method have two values of one metric")
    wide = np.full(len(keys) * len(ordered), np.nan)
    wide[cells] = values
    return MetricScores([names[code] for code in ordered], keys, wide.reshape(len(keys), len(ordered)), {})


def as_arrow(places: Indices) -> Any:
    return arrow_and_parquet()[0].array(places)


@dataclass(frozen=True, eq=False)
class KeyedRows:
    """Rows of the table of explanations: all of each key."""

    table: Any
    keys: Indices  # the number of each row's stretch. (row,)


def rows_by_key(batches: Iterable[Any], keys: Keys) -> Iterator[KeyedRows]:
    """Rows of one example and target are not divided, though they may be in two batches."""
    arrow, _ = arrow_and_parquet()
    waiting, known = None, np.zeros(0, dtype=np.int64)
    for batch in batches:
        if not len(batch):
            continue
        rows = arrow.Table.from_batches([batch])
        waiting = rows if waiting is None else arrow.concat_tables([waiting, rows])
        known = np.concatenate([known, keys.of(batch)])
        ready = int(np.searchsorted(known, known[-1]))  # the next batch may have more rows of the last key
        if ready:
            yield KeyedRows(waiting.slice(0, ready), known[:ready])
            waiting, known = waiting.slice(ready), known[ready:]
    if waiting is not None:
        yield KeyedRows(waiting, known)


def distinct_rows(batch: Any, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The different rows of some columns, in the order in which they occur, and how often each does."""
    arrow, _ = arrow_and_parquet()
    grouped = (
        arrow.Table.from_batches([batch]).group_by(list(columns), use_threads=False).aggregate([([], "count_all")])
    )
    yield from zip(*(grouped[name].to_pylist() for name in (*columns, "count_all")), strict=True)


class LabelledTexts(NamedTuple):
    """A known label, the prediction and every label that was predicted; and how many examples have these."""

    label: str
    prediction: str
    predicted: Sequence[str]
    texts: int


@dataclass(frozen=True, eq=False)
class Predictions:
    """What the model says of every example, with its target. Names are numbered."""

    keys: Any  # a table, sorted
    label: Indices  # (key,)
    prediction: Indices  # (key,)
    labels: Sequence[str | None]
    names: Sequence[str]
    examples: int
    labelled: Sequence[LabelledTexts]  # all examples whose label is known
    values: Numbers  # what a regression model predicts, for every key that has a value

    @classmethod
    def of(cls, batches: Iterable[Any]) -> Predictions:
        """From batches of rows with the columns `PREDICTED`."""
        keys, labels, names, lists = Keys(), Codes(), Codes(), Codes()
        nothing, reached = np.zeros(0, dtype=np.int64), -1
        read: list[tuple[Indices, Indices, Indices, Numbers]] = [(nothing, nothing, nothing, np.zeros(0))]
        for batch in batches:
            if not len(batch):
                continue
            stretch = keys.of(batch)
            first = batch.take(as_arrow(np.flatnonzero(np.diff(stretch, prepend=reached))))
            reached = int(stretch[-1])
            label, prediction = labels.of(first["label"]), names.of(first["prediction"])
            read.append((label, prediction, lists.of_lists(first["predicted"]), numbers_of(first["value"])))
        label, prediction, predicted, value = (np.concatenate(parts) for parts in zip(*read, strict=True))
        table, places = keys.sorted()
        _, first = np.unique(places, return_index=True)  # of each key, as the first of its stretches has it
        examples = np.cumsum(_starts(table.select(["example"])))[places]
        _, once = np.unique(examples, return_index=True)  # an example may have several targets
        rows = np.stack([label, prediction, predicted])[:, once]
        return cls(
            table,
            label[first],
            prediction[first],
            labels.names,
            names.names,
            len(once),
            list(_labelled(rows, labels.names, names.names, lists.names)),
            value[first][~np.isnan(value[first])],
        )

    def places(self, keys: Any) -> Indices:
        """Where the rows of another table are among the keys."""
        numbered = self.keys.append_column("place", as_arrow(np.arange(len(self.keys))))
        wanted = keys.append_column("row", as_arrow(np.arange(len(keys))))
        joined = wanted.join(numbered, list(KEY), join_type="inner", use_threads=False)
        if len(joined) != len(keys):
            raise ValueError("an example has an explanation and no prediction")
        found: Indices = np.empty(len(keys), dtype=np.int64)
        found[np.asarray(joined["row"])] = np.asarray(joined["place"])
        return found

    @cached_property
    def wrong(self) -> Flags:
        """Which keys have a label that is not the prediction. (key,)"""
        pairs, inverse = np.unique(np.stack([self.label, self.prediction]), axis=1, return_inverse=True)
        both = [(self.labels[label], self.names[name]) for label, name in pairs.T.tolist()]
        wrong = [label is not None and not is_right(label, name) for label, name in both]
        found: Flags = np.asarray(wrong, dtype=np.bool_)[inverse.ravel()]
        return found


def _labelled(
    rows: Indices, labels: Sequence[str | None], names: Sequence[str], lists: Sequence[Sequence[str] | None]
) -> Iterator[LabelledTexts]:
    """rows: the numbers of each example's label, prediction and predicted labels. (3, example)"""
    distinct, counts = np.unique(rows, axis=1, return_counts=True)
    for (a, b, c), count in zip(distinct.T.tolist(), counts.tolist(), strict=True):
        label, predicted = labels[a], lists[c]
        if label is not None:  # runs of earlier versions have the likeliest label alone
            yield LabelledTexts(label, names[b], [names[b]] if predicted is None else predicted, count)


def is_right(label: str, predicted: str) -> bool:
    return predicted in (label, *label.split(", "))
