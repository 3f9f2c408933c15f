"""Which method the examples of a run recommend, and how sure that is: ranks of redrawn examples, and what is better
than random.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from wherefrom.benchmark.counted import ScoreTable
from wherefrom.benchmark.statistics import Better, question_of
from wherefrom.catalogue import catalogue, floor_method
from wherefrom.core.arrays import Numbers
from wherefrom.core.statistics import ROUNDS, interval_of, redrawn_means

SURE = 0.95  # of the redraws


class RedrawnRanks(NamedTuple):
    """The mean ranks that methods would have, had other examples of the same kind been taken."""

    methods: tuple[str, ...]
    ranks: Numbers  # (round, method)
    examples: int
    questions: int  # groups of metrics, each of which counts once
    above_random: Mapping[str, int]  # by how many metrics a method is better than random beyond chance
    metrics: int  # of these


@dataclass(frozen=True)
class Recommendation:
    """One method, and the others that might be as good."""

    method: str | None  # None where nothing is better than random
    shares: tuple[tuple[str, float], ...]  # the methods that were best in some redraw, and in how many of them
    examples: int
    rounds: int
    above_random: int | None  # None where random was not among the methods
    metrics: int
    same_for_every_class: tuple[str, ...] = ()  # methods that were left out for it

    @property
    def contenders(self) -> list[tuple[str, float]]:
        """The fewest methods of which one was the best in 95% of the redraws."""
        best, sure = [], 0.0
        for name, share in self.shares:
            if sure >= SURE - 1e-9:
                break
            best.append((name, share))
            sure += share
        return best


def redrawn_ranks(
    scores: ScoreTable, better: Mapping[str, Better], *, seed: int = 0, rounds: int = ROUNDS
) -> RedrawnRanks | None:
    """Mean ranks over the examples drawn with replacement, the same for all metrics and methods.

    None where no metric that asks something of the model has a value. Metrics that answer one question count as one.
    """
    asking = {
        name: table
        for name, table in scores.metrics.items()
        if question_of(name) is not None and not np.isnan(table.values).all()
    }
    if not asking:
        return None
    valued = {name for table in asking.values() for name in table.methods if not np.isnan(table.of(name)).all()}
    methods = [name for name in scores.methods if name in valued]
    rows = reduce(np.union1d, (table.keys for table in asking.values()))
    by_question: dict[str, list[Numbers]] = {}
    above, floor = dict.fromkeys(methods, 0), floor_method()
    for metric, table in asking.items():
        values = np.full((len(rows), len(methods)), np.nan)  # (example, method)
        places = np.searchsorted(rows, table.keys)
        for name in (name for name in methods if name in table.methods):
            values[places, methods.index(name)] = table.of(name)
        beside = values - values[:, [methods.index(floor)]] if floor in methods else values[:, :0]
        redrawn = redrawn_means(np.concatenate([values, beside], axis=1), seed=seed, rounds=rounds)
        means, behind = redrawn[:, : len(methods)], redrawn[:, len(methods) :]  # (round, method)
        sign = -1.0 if better[metric] == "higher" else 1.0
        by_question.setdefault(str(question_of(metric)), []).append(rankdata(sign * means, axis=1, nan_policy="omit"))
        for name, column in zip(methods, sign * behind.T, strict=False):  # below zero where it is better
            above[name] += bool(not np.isnan(column).all() and interval_of(column).high < 0)
    ranks = _mean_of_known([_mean_of_known(found) for found in by_question.values()])
    return RedrawnRanks(tuple(methods), ranks, len(rows), len(by_question), above, len(asking))


def _mean_of_known(tables: Sequence[Numbers]) -> Numbers:
    """The mean of several tables of one shape, NaN left out; NaN where none has a value."""
    stacked = np.stack(tables)
    known = ~np.isnan(stacked)
    with np.errstate(invalid="ignore"):
        mean: Numbers = np.where(known, stacked, 0.0).sum(0) / known.sum(0)
    return mean


def recommend(runs: Sequence[RedrawnRanks | None]) -> Recommendation | None:
    """What one or several runs recommend together, among the methods that all of them have."""
    redrawn = [run for run in runs if run is not None]
    methods = [name for name in (redrawn[0].methods if redrawn else ()) if all(name in run.methods for run in redrawn)]
    blind = tuple(name for name in methods if name != floor_method() and _same_for_every_class(name))
    if any(name not in blind and name != floor_method() for name in methods):
        methods = [name for name in methods if name not in blind]  # no answer to what speaks for one class
    else:
        blind = ()
    if len(methods) < 2:
        return None
    ranks = _mean_of_known([run.ranks[:, [run.methods.index(name) for name in methods]] for run in redrawn])
    ranks = np.where(np.isnan(ranks), np.inf, ranks)
    first = ranks <= ranks.min(axis=1, keepdims=True) + 1e-9
    shares = (first / first.sum(axis=1, keepdims=True)).mean(0)  # those that share the first place share the round
    order = sorted((place for place in range(len(methods)) if shares[place] > 0), key=lambda place: -shares[place])
    best = methods[order[0]]
    with_floor = floor_method() in methods
    above = sum(run.above_random[best] for run in redrawn)
    return Recommendation(
        method=None if best == floor_method() or (with_floor and not above) else best,
        shares=tuple((methods[place], float(shares[place])) for place in order),
        examples=sum(run.examples for run in redrawn),
        rounds=len(ranks),
        above_random=above if with_floor else None,
        metrics=sum(run.metrics for run in redrawn),
        same_for_every_class=blind,
    )


def _same_for_every_class(name: str) -> bool:
    """Whether a method of a run, named with its options, gives every class the same scores."""
    row = catalogue("method").get(name.partition(":")[0])
    return row is not None and row.get("per_class") is False
