"""Places of methods, agreement of metrics, and how well each metric tells a method from chance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
from scipy.stats import rankdata

from wherefrom.catalogue import catalogue
from wherefrom.statistics import draw_counts, question_of, weighted_means
from wherefrom.typing import Numbers
from wherefrom_studies.bench import SetAndBase
from wherefrom_studies.claims import Estimate
from wherefrom_studies.methods import CHOSEN_BY
from wherefrom_studies.overview.collecting import SetScores

FLOOR = "random"
ROUNDS = 500


def higher(metric: str) -> float:
    """1 where higher is better, -1 where lower is."""
    return 1.0 if catalogue("metric")[metric].get("better") == "higher" else -1.0


def ranks(values: Numbers) -> Numbers:
    """Of every method, 1 the lowest value, equals share the mean of their ranks; NaN where it has no value. Means of
    the same numbers may differ in their last bits, by where they stand in a matrix product. (..., method)
    """
    ranked: Numbers = rankdata(np.round(values, 12), axis=-1, nan_policy="omit")
    return ranked


def places(values: Numbers, sign: float) -> Numbers:
    """Of every method the share of the others that are better, equals half; NaN where it has no value. (..., method)"""
    others = (~np.isnan(values)).sum(-1, keepdims=True) - 1
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: Numbers = (ranks(-sign * values) - 1) / others
    return shares


def drawings(sets: Mapping[SetAndBase, SetScores]) -> Iterator[tuple[SetScores, Numbers]]:
    """Every data set with how often each of its texts counts: first every one once, then as often as it is drawn, round
    by round. The same for all methods and metrics, which were measured on the same texts. (1 + rounds, text)
    """
    chance = np.random.default_rng(0)
    for set_tables in sets.values():
        texts = set_tables.texts
        again = draw_counts(texts, ROUNDS if texts > 1 else 0, chance)
        yield set_tables, np.concatenate([np.ones((1, texts)), again])


def mean_by_round(values: Sequence[Numbers]) -> Numbers:
    """Round by round the mean of those that have a value. A data set of one text, which cannot be drawn again, is the
    same in every round. (round,)
    """
    rounds = max(map(len, values))
    return weighted_means(np.stack([drawn if len(drawn) == rounds else np.repeat(drawn, rounds) for drawn in values]))


def with_interval(sets: Mapping[SetAndBase, SetScores], numbers: Mapping[str, Numbers]) -> dict[str, Estimate]:
    """Numbers by name, of the texts as they are and then of those drawn in each round, with their 95% intervals."""
    texts = sum(collected_set.texts for collected_set in sets.values())
    estimates = {}
    for name, (value, *drawn) in numbers.items():
        if np.isfinite(value):
            finite = [number for number in drawn if np.isfinite(number)]
            low, high = map(float, np.quantile(finite, [0.025, 0.975])) if finite else (None, None)
            estimates[name] = Estimate(float(value), low, high, texts)
    return estimates


def mean_places(sets: Mapping[SetAndBase, SetScores], group: str) -> dict[str, Numbers]:
    """Every method's mean place by a group of metrics: over the metrics of a data set, then over data sets. A method
    has no place by the metric that chooses its scores. (1 + rounds,)
    """
    by_method: dict[str, list[Numbers]] = {}
    for collected_set, weights in drawings(sets):
        own_places: dict[str, list[Numbers]] = {}
        for metric, (methods, table) in collected_set.tables.items():
            if question_of(metric) == group:
                values = weighted_means(table, weights)
                values[:, [CHOSEN_BY.get(method.partition(":")[0]) == metric for method in methods]] = np.nan
                for method, place in zip(methods, places(values, higher(metric)).T, strict=True):
                    own_places.setdefault(method, []).append(place)
        for method, places_drawn in own_places.items():
            by_method.setdefault(method, []).append(mean_by_round(places_drawn))
    return {method: mean_by_round(places_drawn) for method, places_drawn in by_method.items()}


def placed(sets: Mapping[SetAndBase, SetScores], group: str) -> dict[str, Estimate]:
    """Mean places by a group of metrics, with their intervals."""
    return with_interval(sets, mean_places(sets, group))


def groups_of(sets: Mapping[SetAndBase, SetScores]) -> list[str]:
    groups = dict.fromkeys(question_of(metric) for collected_set in sets.values() for metric in collected_set.tables)
    return [group for group in groups if group is not None]


def metric_agreement(sets: Mapping[SetAndBase, SetScores]) -> dict[tuple[str, str], Numbers]:
    """Spearman's correlation of the orders that two metrics give methods, mean over data sets that have both. Methods
    count where both have a value, and there must be four of them. (1 + rounds,)
    """
    agreements: dict[tuple[str, str], list[Numbers]] = {}
    for collected_set, weights in drawings(sets):
        everyone = sorted({method for methods, _ in collected_set.tables.values() for method in methods})
        values = {}
        for metric, (methods, table) in collected_set.tables.items():
            values[metric] = np.full((len(weights), len(everyone)), np.nan)
            values[metric][:, [everyone.index(method) for method in methods]] = higher(metric) * weighted_means(
                table, weights
            )
        for a, b in combinations(sorted(values), 2):
            both = ~np.isnan(values[a] + values[b])
            x, y = (ranks(np.where(both, values[metric], np.nan)) for metric in (a, b))
            x, y = (np.where(both, order - weighted_means(order.T)[:, None], 0.0) for order in (x, y))
            spread = np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
            defined = (both.sum(-1) >= 4) & (spread > 0)
            agreements.setdefault((a, b), []).append(
                np.divide((x * y).sum(-1), spread, out=np.full(len(weights), np.nan), where=defined)
            )
    agreed = {pair: mean_by_round(values) for pair, values in agreements.items()}
    return {pair: values for pair, values in agreed.items() if np.isfinite(values[0])}


def diagnosticity(table: Numbers, methods: Sequence[str], sign: float) -> Numbers:
    """Of every text the share of methods that the metric prefers to random, equals half. (text,)"""
    floor = table[:, [methods.index(FLOOR)]]
    others = np.delete(table, methods.index(FLOOR), 1)
    better = np.where(np.isnan(others) | np.isnan(floor), np.nan, np.sign(sign * (others - floor)) / 2 + 0.5)
    there = ~np.isnan(better)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: Numbers = np.where(there, better, 0.0).sum(1) / there.sum(1)
    return shares


def best_of(sets: Mapping[SetAndBase, SetScores], group: str) -> tuple[list[str], dict[str, Estimate]]:
    """The method with the best mean place, then those whose interval reaches into its own."""
    ranked = placed(sets, group)
    order = sorted(ranked, key=lambda method: ranked[method].value)
    if not order:
        return [], {}
    first = ranked[order[0]]
    limit = first.value if first.high is None else first.high

    def lowest(estimate: Estimate) -> float:
        return estimate.value if estimate.low is None else estimate.low

    return [name for name in order if lowest(ranked[name]) <= limit], ranked


def costs(sets: Mapping[SetAndBase, SetScores]) -> dict[str, tuple[float, float]]:
    """Of every method: seconds of one explanation in those of a data set's median method, the geometric mean over data
    sets, so that long texts do not decide alone; and the mean of its rows.
    """
    ratios: dict[str, list[float]] = {}
    rows: dict[str, list[float]] = {}
    for collected_set in sets.values():
        if not collected_set.seconds:
            continue
        middle = float(np.median(list(collected_set.seconds.values())))
        for method, seconds in collected_set.seconds.items():
            if seconds > 0 and middle > 0:
                ratios.setdefault(method, []).append(seconds / middle)
                rows.setdefault(method, []).append(collected_set.rows[method])
    return {
        method: (float(np.exp(np.mean(np.log(values)))), float(np.mean(rows[method])))
        for method, values in ratios.items()
    }


def against_cost(sets: Mapping[SetAndBase, SetScores]) -> dict[str, tuple[float, Estimate]]:
    """Of every method its cost beside the median, and by which share of the others it is better by erasure metrics."""
    ranked = placed(sets, "erasure") if sets else {}
    spent = costs(sets)
    return {
        method: (
            spent[method][0],
            Estimate(
                1 - estimate.value,
                None if estimate.high is None else 1 - estimate.high,
                None if estimate.low is None else 1 - estimate.low,
                estimate.texts,
            ),
        )
        for method, estimate in ranked.items()
        if method in spent
    }
