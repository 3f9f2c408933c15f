"""Paired comparisons over data sets, for the claims of a paper.

A statistic is computed for every data set by itself. Its interval is Student's over the highest level that has more
than one unit: over data sets where there are several, so that it also counts how far data sets differ; over the texts
of a single one. What differs beneath a level (seeds, texts) is part of how far its units differ; where data sets agree
more closely than their texts allow, the texts' error is taken. Models of several bases on one data set are one unit.

A claim about an order ("X is best") is a list of pairs. It is confirmed if every pair is significant in its direction
(intersection-union), and refuted only if a named pair is significant in the other direction after Holm's correction.
Subtracting the best rival's mean instead would be biased: the best of several equals is above all of them by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from wherefrom.statistics import weighted_means
from wherefrom.typing import Numbers
from wherefrom_studies.claims import Estimate, PairTest, estimated, student

SetTables = Mapping[tuple[str, str], Numbers]  # data set and base -> (text, column), NaN where a text has no value
SetStatistic = Callable[[Numbers], float]  # the means of the columns of one data set -> a number
Pairs = Sequence[tuple[str, str]]  # the column that is claimed to be better, and the one that it is compared with
NOT_MEASURED = "no data set that it needs was measured"


class Finding(NamedTuple):
    """What became of a statistic: its estimate, or why there is none."""

    estimate: Estimate | None
    why: str = ""
    pairs: Sequence[PairTest] = ()  # of a claim about an order; the estimate is that of the first, its weakest pair
    by_set: Mapping[str, Estimate] = {}  # every data set with a base by itself

    @property
    def weakness(self) -> tuple[float, float]:
        """Larger where there is less evidence for being above zero."""
        return (1.0, 0.0) if self.estimate is None else (self.estimate.p_above(), -self.estimate.value)


def compared(tables: SetTables, columns: Sequence[str], statistic: SetStatistic) -> Finding:
    """A statistic's mean over data sets, and its value on every one."""
    why = _why_none(tables, columns, statistic)
    if why:
        return Finding(None, why)
    by_set = {key: student(pseudo_values(table, statistic), len(table)) for key, table in tables.items()}
    return Finding(
        _pooled(tables, statistic, by_set), by_set={" ".join(key): estimate for key, estimate in by_set.items()}
    )


def ordered(tables: SetTables, columns: Sequence[str], pairs: Pairs, sign: float = 1.0) -> Finding:
    """Whether the first column of every pair is better than the second; sign = -1 where lower is better.

    Not defined where a column has no value: it might have been the best.
    """
    place = {name: number for number, name in enumerate(columns)}
    findings = []
    for better, worse in pairs:
        finding = compared(tables, columns, difference(place[better], place[worse], sign))
        tested = () if finding.estimate is None else (PairTest(better, worse, finding.estimate),)
        findings.append(finding._replace(pairs=tested))
    return joined(findings)


def joined(findings: Sequence[Finding]) -> Finding:
    """Findings about pairs as one about their order, the weakest pair first; one without a value decides."""
    if not findings:
        return Finding(None, NOT_MEASURED)
    for finding in findings:
        if finding.estimate is None:
            return finding
    ranked = sorted(findings, key=lambda finding: finding.weakness, reverse=True)
    return ranked[0]._replace(pairs=[pair for finding in ranked for pair in finding.pairs])


def difference(better: int, worse: int, sign: float = 1.0) -> SetStatistic:
    """How far one column's mean is above another's; sign = -1 where lower is better."""
    return lambda means: float(sign * (means[better] - means[worse]))


def leads(best: str, others: Iterable[str]) -> Pairs:
    """One column is better than each of the others."""
    return [(best, other) for other in others]


def trail(last: Iterable[str], others: Sequence[str]) -> Pairs:
    """Each of some columns is worse than each of the others."""
    return [(other, worse) for worse, other in product(last, others)]


def ascend(names: Sequence[str]) -> Pairs:
    """Each column is better than the one before it."""
    return [(better, worse) for worse, better in pairwise(names)]


def _pooled(tables: SetTables, statistic: SetStatistic, by_set: Mapping[tuple[str, str], Estimate]) -> Estimate:
    texts = sum(map(len, tables.values()))
    by_name: dict[str, list[float]] = {}
    for (name, _), table in tables.items():
        by_name.setdefault(name, []).append(statistic(weighted_means(table)))
    if len(by_name) > 1:
        between = student([float(np.mean(values)) for values in by_name.values()], texts, "data sets")
        errors = [estimate.error or 0.0 for estimate in by_set.values()]
        within = float(np.sqrt(np.sum(np.square(errors)))) / len(errors)
        if between.error is not None and within > between.error:  # sets agree by chance more than their texts allow
            return estimated(
                between.value, within, sum(estimate.freedom for estimate in by_set.values()), texts, "texts"
            )
        return between
    several = [pseudo_values(table, statistic) for table in tables.values()]
    shortest = min(map(len, several))  # several bases read the same texts, which count once
    return student(np.mean([values[:shortest] for values in several], axis=0), texts)


def pseudo_values(table: Numbers, statistic: SetStatistic) -> Numbers:
    """The jackknife's value of every text: their mean estimates the statistic, and they differ as texts do. For a
    difference of means over texts that all have a value, they are the texts' own differences.
    """
    count = len(table)
    whole = statistic(weighted_means(table))
    if count < 2:
        return np.array([whole])
    without = weighted_means(table, 1.0 - np.eye(count))
    values: Numbers = count * whole - (count - 1) * np.array([statistic(means) for means in without])
    return values[np.isfinite(values)]


def _why_none(tables: SetTables, columns: Sequence[str], statistic: SetStatistic) -> str:
    """Why a statistic has no value; empty where it has one."""
    if not tables:
        return NOT_MEASURED
    empty = [" ".join(key) for key, table in tables.items() if not len(table)]
    if empty:
        return f"there are no texts of {', '.join(empty)}"
    missing: dict[str, list[str]] = {}
    known = np.random.default_rng(0).random(len(columns))
    for key, table in tables.items():
        for column in np.flatnonzero(np.isnan(table).all(0)):
            means = known.copy()  # whether the statistic reads this column: is it undefined with all others known?
            means[column] = np.nan
            if not np.isfinite(statistic(means)):
                missing.setdefault(columns[int(column)], []).append(" ".join(key))
    if missing:
        return "; ".join(
            f"{column} has no value for any text of {' and '.join(names)}" for column, names in missing.items()
        )
    values = [statistic(weighted_means(table)) for table in tables.values()]
    return "" if np.isfinite(values).all() else "the statistic is not defined for these numbers"
