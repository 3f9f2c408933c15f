"""Statistics of a run's rows: leaderboards with confidence intervals, ranks over data sets, agreement, curves, cost.
Needs no torch.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.stats import rankdata

from wherefrom.benchmark.counted import (
    Key,
    KeyedRows,
    Keys,
    LabelledTexts,
    MetricScores,
    as_arrow,
    distinct_rows,
    entries_of,
    lengths_of,
    numbers_of,
    rows_by_key,
)
from wherefrom.catalogue import catalogue
from wherefrom.core.arrays import Indices, Numbers
from wherefrom.core.comparison import SHAPE
from wherefrom.core.statistics import Interval, bootstrap

if TYPE_CHECKING:
    import pandas

Better = Literal["higher", "lower"]
RANKED = ("example", "target", "method", "segment", "scores")
CURVED = ("method", "metric", "value", "details")


@dataclass(frozen=True)
class Standing:
    """The place of a method by one metric."""

    method: str
    mean: float | None  # None where the metric is defined for no example
    error: float | None = None  # the standard error of the mean
    interval: Interval | None = None  # None for fewer than two examples
    count: int = 0
    rank: float | None = None  # 1 is the best; equals share the mean of their places
    behind: float | None = None  # mean less the best method's, on the examples that both have
    behind_interval: Interval | None = None  # of that difference, example by example
    why: str = ""  # the reason, where there is no mean

    @property
    def as_good_as_the_best(self) -> bool:
        """Whether the difference to the best method is not significant: its interval contains zero."""
        return self.behind_interval is not None and self.behind_interval.low <= 0 <= self.behind_interval.high


def leaderboard(scores: MetricScores, better: Better, *, seed: int = 0) -> list[Standing]:
    """Every method by one metric, the best first, those without a value last. Examples are drawn together for all
    methods, so that differences are paired.
    """
    methods, values = scores.methods, scores.values
    known = ~np.isnan(values)
    counts = known.sum(0)
    means = np.array([values[known[:, m], m].mean() if counts[m] else np.nan for m in range(len(methods))])
    sign = -1.0 if better == "higher" else 1.0
    ranks = np.full(len(methods), np.nan)
    ranks[counts > 0] = rankdata(sign * means[counts > 0])
    best = int(np.nanargmin(sign * means)) if (counts > 0).any() else 0
    beside = values - values[:, [best]]
    both = bootstrap(np.concatenate([values, beside], axis=1), seed=seed)
    intervals, behind = both[: len(methods)], both[len(methods) :]
    standings = []
    for m, method in enumerate(methods):
        if not counts[m]:
            standings.append(Standing(method, None, why=scores.why.get(method, "")))
            continue
        column, shared = values[known[:, m], m], beside[~np.isnan(beside[:, m]), m]
        standings.append(
            Standing(
                method,
                mean=float(means[m]),
                error=float(column.std(ddof=1) / math.sqrt(len(column))) if len(column) > 1 else None,
                interval=intervals[m],
                count=len(column),
                rank=float(ranks[m]),
                behind=float(shared.mean()) if len(shared) else None,
                behind_interval=None if m == best else behind[m],
            )
        )
    return sorted(standings, key=lambda standing: (standing.rank is None, standing.rank))


def macro_f1(labelled: Sequence[LabelledTexts]) -> float | None:
    """The mean over labels of F1, the harmonic mean of precision and recall: each text has one label or several, known
    and predicted. Labels that are neither known nor predicted of any text do not count; None where there are none.
    """
    hits, named = Counter[str](), Counter[str]()
    for answer in labelled:
        known, predicted = set(answer.label.split(", ")), set(answer.predicted)
        for label in known & predicted:
            hits[label] += answer.texts
        for label in (*known, *predicted):
            named[label] += answer.texts
    values = [2 * hits[label] / named[label] for label in sorted(named)]
    return sum(values) / len(values) if values else None


class Ranks(NamedTuple):
    """Average ranks over data sets, by metric and over all; None where a method has none."""

    methods: list[str]
    metrics: list[str]
    by_metric: list[list[float | None]]  # (method, metric)
    overall: list[float | None]


def question_of(metric: str) -> str | None:
    """The question that a metric answers, by which metrics count once in a mean rank: its group, or itself where it has
    none. None where it only describes scores, and asks nothing of the model.
    """
    row = catalogue("metric").get(metric.partition(":")[0])
    group = row.get("group", "other") if row is not None else "other"
    return None if group == SHAPE else metric if group == "other" else str(group)


def average_ranks(boards: Mapping[str, Mapping[str, Sequence[Standing]]]) -> Ranks:
    """boards: data set -> metric -> leaderboard. A method's rank by a metric is the mean of its ranks on every data
    set; overall, metrics that answer one question count as one, and those that only describe scores do not count. The
    best first.
    """
    metrics = list(dict.fromkeys(metric for board in boards.values() for metric in board))
    by_method: dict[str, dict[str, list[float]]] = {}
    for board in boards.values():
        for metric, standings in board.items():
            for standing in standings:
                ranks = by_method.setdefault(standing.method, {}).setdefault(metric, [])
                if standing.rank is not None:
                    ranks.append(standing.rank)
    mean = {name: [_mean(ranks.get(metric, [])) for metric in metrics] for name, ranks in by_method.items()}
    overall = {name: _overall(metrics, row) for name, row in mean.items()}
    order = sorted(by_method, key=lambda name: (overall[name] is None, overall[name] or 0.0))
    return Ranks(order, metrics, [mean[name] for name in order], [overall[name] for name in order])


def _overall(metrics: Sequence[str], ranks: Sequence[float | None]) -> float | None:
    by_question: dict[str, list[float]] = {}
    for metric, rank in zip(metrics, ranks, strict=True):
        question = question_of(metric)
        if rank is not None and question is not None:
            by_question.setdefault(question, []).append(rank)
    return _mean([sum(found) / len(found) for found in by_question.values()])


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


class MethodAgreement(NamedTuple):
    """How alike methods rank the tokens of a text: Spearman's correlation, averaged over examples."""

    methods: list[str]
    matrix: Numbers  # (method, method); NaN where no example has both
    keys: Any  # the examples and targets that several methods rank, as a table
    means: Numbers  # over all pairs of methods. (key,)

    @property
    def by_example(self) -> dict[Key, float]:
        """The means by example and target."""
        names = (self.keys[name].to_pylist() for name in self.keys.column_names)
        return dict(zip(zip(*names, strict=True), self.means.tolist(), strict=True))


def agreement(batches: Iterable[Any], methods: Sequence[str]) -> MethodAgreement:
    """batches: rows of the table of explanations with the columns `RANKED`. Special tokens are left out, as metrics
    leave them out. The rows of an example follow each other, because one part contains all of them.
    """
    place = {name: number for number, name in enumerate(methods)}
    total, count = np.zeros((len(methods),) * 2), np.zeros((len(methods),) * 2)
    keys, found, means = Keys(), list[Indices](), list[Numbers]()
    for rows in rows_by_key(batches, keys):
        for alike in _of_one_shape(rows, place):
            matrices = _spearman(alike.scores)  # (example, method, method)
            pairs = np.ix_(alike.present, alike.present)
            total[pairs] += matrices.sum(0)
            count[pairs] += len(matrices)
            if len(alike.present) > 1:
                found.append(alike.keys)
                means.append(matrices[:, *np.triu_indices(len(alike.present), 1)].mean(1))
    numbers = np.concatenate([np.zeros(0, dtype=np.int64), *found])
    order = np.argsort(numbers, kind="stable")
    with np.errstate(invalid="ignore"):
        mean = total / count
    return MethodAgreement(
        list(methods), mean, keys.table().take(as_arrow(numbers[order])), np.concatenate([np.zeros(0), *means])[order]
    )


class _Alike(NamedTuple):
    """Examples that are explained by the same methods and have the same number of tokens."""

    present: tuple[int, ...]  # the places of the methods
    keys: Indices  # (example,)
    scores: Numbers  # (example, method, token)


def _of_one_shape(rows: KeyedRows, place: Mapping[str, int]) -> Iterator[_Alike]:
    """The scores of examples in groups of one shape, which are ranked at once."""
    lengths = lengths_of(rows.table["scores"])
    if not np.array_equal(lengths, lengths_of(rows.table["segment"])):
        raise ValueError("an explanation has not as many scores as tokens")
    real = entries_of(rows.table["segment"]) >= 0
    scores, owner = entries_of(rows.table["scores"])[real], np.repeat(np.arange(len(lengths)), lengths)[real]
    length = np.bincount(owner, minlength=len(lengths))
    starts = np.cumsum(length) - length
    several = np.flatnonzero(length > 1)
    if not len(several):
        return
    # Where all scores are equal there is no order to agree on. Only scores of rows that are looked at are in between.
    kept = np.isin(owner, several)
    edges = np.cumsum(length[several]) - length[several]
    low, high = (reduce.reduceat(scores[kept], edges) for reduce in (np.minimum, np.maximum))
    ranked = several[high > low]
    method = np.asarray([place[name] for name in rows.table["method"].to_pylist()], dtype=np.int64)
    first = np.flatnonzero(np.diff(rows.keys[ranked], prepend=-1))
    size = np.diff(np.append(first, len(ranked)))  # how many methods rank each example
    tokens_of = length[ranked]
    if (tokens_of != np.repeat(tokens_of[first], size)).any():
        raise ValueError("an example has explanations of several lengths")
    for methods, tokens in sorted(set(zip(size.tolist(), tokens_of[first].tolist(), strict=True))):
        chosen = first[(size == methods) & (tokens_of[first] == tokens)]
        own = ranked[chosen[:, None] + np.arange(methods)]  # (example, method)
        for present in np.unique(method[own], axis=0):
            alike = own[(method[own] == present).all(1)]
            values = scores[starts[alike][..., None] + np.arange(tokens)]
            yield _Alike(tuple(present.tolist()), rows.keys[alike[:, 0]], values)


def _spearman(scores: Numbers) -> Numbers:
    """The correlation of the ranks of every two methods. (example, method, token) -> (example, method, method)"""
    ranks = rankdata(scores, axis=-1)
    ranks -= ranks.mean(-1, keepdims=True)
    ranks /= np.linalg.norm(ranks, axis=-1, keepdims=True)
    found: Numbers = np.clip(ranks @ ranks.swapaxes(-1, -2), -1.0, 1.0)
    return found


class Curve(NamedTuple):
    """The perturbation curve of a metric: the mean effect when so many percent of a text are hidden."""

    percent: list[float]
    means: list[float]


def curves(batches: Iterable[Any], metrics: Collection[str]) -> dict[str, dict[str, Curve]]:
    """Of every method, for metrics whose details contain a `curve` from nothing hidden to all, in equal steps.

    batches: rows of the table of scores with the columns `CURVED`.
    """
    read: dict[str, dict[str, list[Any]]] = {metric: {} for metric in metrics}
    for batch in batches if read else ():
        known = batch.filter(~np.isnan(numbers_of(batch["value"])))
        names = zip(*(known[name].to_pylist() for name in ("metric", "method", "details")), strict=True)
        for metric, method, details in names:
            if metric in read:
                read[metric].setdefault(method, []).append(json.loads(details).get("curve"))
    return {metric: drawn for metric, own in read.items() if (drawn := _drawn(own))}


def _drawn(read: Mapping[str, list[Any]]) -> dict[str, Curve]:
    """method -> the mean of its curves, where all of its rows have one of the same length."""
    drawn = {}
    for method, own in read.items():
        if all(own) and len({len(curve) for curve in own}) == 1:
            drawn[method] = Curve(np.linspace(0, 100, len(own[0])).tolist(), np.mean(own, axis=0).tolist())
    return drawn


@dataclass(frozen=True)
class Energy:
    """Energy and CO2 equivalent of computing time. The defaults are those of the Optimus paper's Table 5."""

    power: float = 271.0  # watts
    overhead: float = 1.10  # power usage effectiveness (PUE) of the data centre
    intensity: float = 0.429  # kg CO2e per kWh

    def kilowatt_hours(self, seconds: float) -> float:
        return seconds * self.power * self.overhead / 3.6e6

    def grams(self, seconds: float) -> float:
        """Of CO2e."""
        return 1000 * self.kilowatt_hours(seconds) * self.intensity


class MethodCost(NamedTuple):
    """What a method costs when nothing is shared with other methods: for one example, and for all of them."""

    method: str
    per_example: float  # seconds
    forwards: float  # rows per example
    backwards: float
    seconds: float  # for all examples
    kilowatt_hours: float | None  # where the machine's power is known
    grams: float | None
    examples: list[int]  # explained so far, part after part, and
    seconds_so_far: list[float]


def costs(alone: pandas.DataFrame, energy: Energy | None = None) -> list[MethodCost]:
    """Every method, the cheapest first. alone: one row a part and method, for one of the part's examples."""
    methods = []
    for method, rows in alone.groupby("method", sort=False):
        counts = rows["examples"].to_numpy(dtype=np.int64)
        seconds = rows["seconds"].to_numpy(dtype=np.float64) * counts
        total = float(seconds.sum())
        forwards, backwards = (float((rows[name] * counts).sum() / counts.sum()) for name in ("forwards", "backwards"))
        each = total / int(counts.sum())
        methods.append(
            MethodCost(
                str(method),
                each,
                forwards,
                backwards,
                total,
                None if energy is None else energy.kilowatt_hours(total),
                None if energy is None else energy.grams(total),
                counts.cumsum().tolist(),
                seconds.cumsum().tolist(),
            )
        )
    return sorted(methods, key=lambda cost: cost.seconds)


def winners(batches: Iterable[Any]) -> dict[str, Counter[str]]:
    """How often each candidate was chosen, for methods that choose among operations or methods for every text.

    batches: rows of the table of explanations with the columns method and params.
    """
    counts: dict[str, Counter[str]] = {}
    winner = lru_cache(lambda params: json.loads(params).get("winner"))  # most rows of a method have the same
    for batch in batches:
        for method, params, count in distinct_rows(batch, ("method", "params")):
            chosen = winner(params)
            if chosen is not None:
                counts.setdefault(method, Counter())[str(chosen)] += count
    return counts
