"""Places of methods, agreement of metrics, and how well each metric tells a method from chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np
from scipy.stats import rankdata

from wherefrom.benchmark.statistics import question_of
from wherefrom.catalogue import catalogue
from wherefrom.core.arrays import Numbers
from wherefrom.studies.bench import SetAndBase
from wherefrom.studies.claims import Estimate
from wherefrom.studies.methods import CHOSEN_BY
from wherefrom.studies.overview.collecting import SetScores

FLOOR = "random"
ROUNDS = 500


def higher(metric: str) -> float:
    """1 where higher is better, -1 where lower is."""
    return 1.0 if catalogue("metric")[metric].get("better") == "higher" else -1.0


def places(values: Numbers, sign: float) -> Numbers:
    """Of every method the share of the others that are better, equals half; NaN where it has no value. (method,)"""
    known = ~np.isnan(values)
    found = np.full(len(values), np.nan)
    if known.sum() > 1:
        found[known] = (rankdata(-sign * values[known]) - 1) / (known.sum() - 1)
    return found


def drawn(table: Numbers, chance: np.random.Generator | None) -> Numbers:
    """The means of all methods, of the texts as they are or drawn again. (method,)"""
    chosen = table if chance is None else table[chance.integers(0, len(table), len(table))]
    there = ~np.isnan(chosen)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Numbers = np.where(there, chosen, 0.0).sum(0) / there.sum(0)
    return found


def with_interval(
    sets: Mapping[SetAndBase, SetScores], statistic: Callable[[np.random.Generator | None], Mapping[str, float]]
) -> dict[str, Estimate]:
    """Numbers by name with their 95% intervals over redrawn texts. statistic: draws by a generator, or not at all."""
    value, chance = statistic(None), np.random.default_rng(0)
    texts = sum(max(len(table) for _, table in one.tables.values()) for one in sets.values() if one.tables)
    drawn: dict[str, list[float]] = {name: [] for name in value}
    for _ in range(ROUNDS):
        for name, one in statistic(chance).items():
            if name in drawn and np.isfinite(one):
                drawn[name].append(one)
    found = {}
    for name, one in value.items():
        if np.isfinite(one):
            edges = np.quantile(drawn[name], [0.025, 0.975]) if len(drawn[name]) > 1 else (None, None)
            low, high = (None if edge is None else float(edge) for edge in edges)
            found[name] = Estimate(float(one), low, high, texts)
    return found


def mean_places(
    sets: Mapping[SetAndBase, SetScores], group: str, chance: np.random.Generator | None = None
) -> dict[str, float]:
    """Every method's mean place by a group of metrics: over the metrics of a data set, then over data sets. A method
    has no place by the metric that chooses its scores.
    """
    by_method: dict[str, list[float]] = {}
    for one in sets.values():
        own: dict[str, list[float]] = {}
        for metric, (methods, table) in one.tables.items():
            if question_of(metric) == group:
                values = drawn(table, chance)
                values[[CHOSEN_BY.get(method.partition(":")[0]) == metric for method in methods]] = np.nan
                for method, place in zip(methods, places(values, higher(metric)), strict=True):
                    if np.isfinite(place):
                        own.setdefault(method, []).append(float(place))
        for method, found in own.items():
            by_method.setdefault(method, []).append(float(np.mean(found)))
    return {method: float(np.mean(found)) for method, found in by_method.items()}


def placed(sets: Mapping[SetAndBase, SetScores], group: str) -> dict[str, Estimate]:
    """Mean places by a group of metrics, with their intervals."""
    return with_interval(sets, lambda chance: mean_places(sets, group, chance))


def groups_of(sets: Mapping[SetAndBase, SetScores]) -> list[str]:
    found = dict.fromkeys(question_of(metric) for one in sets.values() for metric in one.tables)
    return [group for group in found if group is not None]


def metric_agreement(
    sets: Mapping[SetAndBase, SetScores], chance: np.random.Generator | None = None
) -> dict[SetAndBase, float]:
    """Spearman's correlation of the orders that two metrics give methods, mean over data sets that have both."""
    found: dict[SetAndBase, list[float]] = {}
    for one in sets.values():
        means = {
            metric: dict(zip(methods, higher(metric) * drawn(table, chance), strict=True))
            for metric, (methods, table) in one.tables.items()
        }
        for a, b in combinations(sorted(means), 2):
            common = [
                method
                for method in means[a]
                if method in means[b] and np.isfinite(means[a][method]) and np.isfinite(means[b][method])
            ]
            if len(common) < 4:
                continue
            x, y = (rankdata([means[metric][method] for method in common]) for metric in (a, b))
            x, y = x - x.mean(), y - y.mean()
            if x.any() and y.any():
                found.setdefault((a, b), []).append(float(x @ y / np.sqrt((x @ x) * (y @ y))))
    return {pair: float(np.mean(values)) for pair, values in found.items()}


def diagnosticity(table: Numbers, methods: Sequence[str], sign: float) -> Numbers:
    """Of every text the share of methods that the metric prefers to random, equals half. (text,)"""
    floor = table[:, [methods.index(FLOOR)]]
    others = np.delete(table, methods.index(FLOOR), 1)
    better = np.where(np.isnan(others) | np.isnan(floor), np.nan, np.sign(sign * (others - floor)) / 2 + 0.5)
    there = ~np.isnan(better)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Numbers = np.where(there, better, 0.0).sum(1) / there.sum(1)
    return found


def best_of(sets: Mapping[SetAndBase, SetScores], group: str) -> tuple[list[str], dict[str, Estimate]]:
    """The method with the best mean place, then those whose interval reaches into its own."""
    ranked = placed(sets, group)
    order = sorted(ranked, key=lambda method: ranked[method].value)
    if not order:
        return [], {}
    first = ranked[order[0]]
    limit = first.value if first.high is None else first.high

    def lowest(one: Estimate) -> float:
        return one.value if one.low is None else one.low

    return [name for name in order if lowest(ranked[name]) <= limit], ranked


def costs(sets: Mapping[SetAndBase, SetScores]) -> dict[str, tuple[float, float]]:
    """Of every method: seconds of one explanation in those of a data set's median method, the geometric mean over data
    sets, so that long texts do not decide alone; and the mean of its rows.
    """
    ratios: dict[str, list[float]] = {}
    rows: dict[str, list[float]] = {}
    for one in sets.values():
        if not one.seconds:
            continue
        middle = float(np.median(list(one.seconds.values())))
        for method, seconds in one.seconds.items():
            if seconds > 0 and middle > 0:
                ratios.setdefault(method, []).append(seconds / middle)
                rows.setdefault(method, []).append(one.rows[method])
    return {
        method: (float(np.exp(np.mean(np.log(found)))), float(np.mean(rows[method])))
        for method, found in ratios.items()
    }


def against_cost(sets: Mapping[SetAndBase, SetScores]) -> dict[str, tuple[float, Estimate]]:
    """Of every method its cost beside the median, and by which share of the others it is better by erasure metrics."""
    ranked = placed(sets, "erasure") if sets else {}
    spent = costs(sets)
    return {
        method: (
            spent[method][0],
            Estimate(
                1 - one.value,
                None if one.high is None else 1 - one.high,
                None if one.low is None else 1 - one.low,
                one.texts,
            ),
        )
        for method, one in ranked.items()
        if method in spent
    }
