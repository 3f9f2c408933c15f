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

from wherefrom.catalogue import catalogue
from wherefrom.core.arrays import Numbers
from wherefrom.core.comparison import SHAPE
from wherefrom.core.statistics import Interval, bootstrap

if TYPE_CHECKING:
    import pandas

Better = Literal["higher", "lower"]
SCORES_AT_ONCE = 1_000_000  # that are ranked together


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


def leaderboard(scores: pandas.DataFrame, metric: str, better: Better, *, seed: int = 0) -> list[Standing]:
    """Every method by one metric, the best first, those without a value last. Examples are drawn together for all
    methods, so that differences are paired.
    """
    rows = scores[scores["metric"] == metric]
    wide = rows.pivot(index=["example", "target"], columns="method", values="value")
    methods = list(dict.fromkeys(rows["method"]))
    values = wide[methods].to_numpy(dtype=np.float64)  # (example, method)
    known = ~np.isnan(values)
    counts = known.sum(0)
    means = np.array([values[known[:, m], m].mean() if counts[m] else np.nan for m in range(len(methods))])
    sign = -1.0 if better == "higher" else 1.0
    ranks = np.full(len(methods), np.nan)
    ranks[counts > 0] = rankdata(sign * means[counts > 0])
    best = int(np.nanargmin(sign * means)) if (counts > 0).any() else 0
    beside = values - values[:, [best]]
    intervals = bootstrap(values, seed=seed)
    behind = bootstrap(beside, seed=seed)
    whys = (
        rows[rows["value"].isna()].groupby("method")["why"].agg(lambda reasons: Counter(reasons).most_common(1)[0][0])
    )
    standings = []
    for m, method in enumerate(methods):
        if not counts[m]:
            standings.append(Standing(method, None, why=str(whys.get(method, ""))))
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


def macro_f1(known: Sequence[Collection[str]], predicted: Sequence[Collection[str]]) -> float | None:
    """The mean over labels of F1, the harmonic mean of precision and recall: each text has one label or several, known
    and predicted. Labels that are neither known nor predicted of any text do not count; None where there are none.
    """
    values = []
    for label in sorted({label for labels in (*known, *predicted) for label in labels}):
        hits = sum(label in right and label in labels for right, labels in zip(known, predicted, strict=True))
        named = sum(label in labels for labels in (*known, *predicted))
        values.append(2 * hits / named)
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
    by_example: dict[tuple[str, str], float]  # (example, target) -> the mean over all pairs of methods


def agreement(rows: Iterable[Mapping[str, Any]], methods: Sequence[str]) -> MethodAgreement:
    """rows: of the table of explanations. Special tokens are left out, as metrics leave them out."""
    place = {name: number for number, name in enumerate(methods)}
    total, count = np.zeros((len(methods),) * 2), np.zeros((len(methods),) * 2)
    by_example: dict[tuple[str, str], float] = {}
    for alike in _of_one_shape(_by_example(rows), place):
        matrices = _spearman(np.asarray(alike.scores))  # (example, method, method)
        pairs = np.ix_(alike.present, alike.present)
        total[pairs] += matrices.sum(0)
        count[pairs] += len(matrices)
        if len(alike.present) > 1:
            means = matrices[:, *np.triu_indices(len(alike.present), 1)].mean(1)
            by_example |= zip(alike.keys, means.tolist(), strict=True)
    with np.errstate(invalid="ignore"):
        return MethodAgreement(list(methods), total / count, by_example)


class _Alike(NamedTuple):
    """Examples that are explained by the same methods and have the same number of tokens."""

    present: tuple[int, ...]  # the places of the methods
    keys: list[tuple[str, str]]
    scores: list[list[Numbers]]  # (example, method, token)


def _of_one_shape(
    examples: Iterable[tuple[tuple[str, str], list[Mapping[str, Any]]]], place: Mapping[str, int]
) -> Iterator[_Alike]:
    """The scores of examples in groups of one shape, which are ranked at once: ranking example by example takes most of
    the time of a report. Groups are handed out whenever so many scores are waiting, so that memory does not grow.
    """
    waiting, size = dict[tuple[tuple[int, ...], int], _Alike](), 0
    for key, group in examples:
        found: dict[int, Numbers] = {}
        for row in group:
            scores = np.asarray(row["scores"], dtype=np.float64)[np.asarray(row["segment"]) >= 0]
            if len(scores) > 1 and scores.max() > scores.min():  # where all are equal there is no order to agree on
                found[place[row["method"]]] = scores
        if not found:
            continue
        present, scored = tuple(found), list(found.values())
        alike = waiting.setdefault((present, len(scored[0])), _Alike(present, [], []))
        alike.keys.append(key)
        alike.scores.append(scored)
        size += len(scored) * len(scored[0])
        if size >= SCORES_AT_ONCE:
            yield from waiting.values()
            waiting, size = {}, 0
    yield from waiting.values()


def _spearman(scores: Numbers) -> Numbers:
    """The correlation of the ranks of every two methods. (example, method, token) -> (example, method, method)"""
    ranks = rankdata(scores, axis=-1)
    ranks -= ranks.mean(-1, keepdims=True)
    ranks /= np.linalg.norm(ranks, axis=-1, keepdims=True)
    found: Numbers = np.clip(ranks @ ranks.swapaxes(-1, -2), -1.0, 1.0)
    return found


def _by_example(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[tuple[str, str], list[Mapping[str, Any]]]]:
    """The rows of each example, which follow each other, because one part contains all of them."""
    current: tuple[str, str] | None = None
    group: list[Mapping[str, Any]] = []
    for row in rows:
        key = (row["example"], row["target"])
        if key != current and current is not None:
            yield current, group
            group = []
        current = key
        group.append(row)
    if current is not None:
        yield current, group


class Curve(NamedTuple):
    """The perturbation curve of a metric: the mean effect when so many percent of a text are hidden."""

    percent: list[float]
    means: list[float]


def curves(scores: pandas.DataFrame, metric: str) -> dict[str, Curve]:
    """Of every method, for metrics whose details hold a `curve` from nothing hidden to all, in equal steps."""
    by_method: dict[str, Curve] = {}
    rows = scores[(scores["metric"] == metric) & scores["value"].notna()]
    for method, details in rows.groupby("method", sort=False)["details"]:
        read = [json.loads(one).get("curve") for one in details]
        if read and all(read) and len({len(one) for one in read}) == 1:
            percent = np.linspace(0, 100, len(read[0])).tolist()
            by_method[str(method)] = Curve(percent, np.mean(read, axis=0).tolist())
    return by_method


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


def winners(rows: Iterable[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """How often each candidate was chosen, for methods that choose among operations or methods for every text."""
    counts: dict[str, Counter[str]] = {}
    winner = lru_cache(lambda params: json.loads(params).get("winner"))  # most rows of a method have the same
    for row in rows:
        chosen = winner(row["params"])
        if chosen is not None:
            counts.setdefault(row["method"], Counter())[str(chosen)] += 1
    return counts
