"""What a study says, as data: estimates with intervals, the claims of a paper, and what becomes of each.

A claim is written down with its statistic and its side, or its margin, before the numbers are looked at. Intervals are
of the bootstrap: the texts of every data set are drawn again, the same texts for all methods, so that differences are
paired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Literal, NamedTuple

import numpy as np

from wherefrom.errors import BadOption
from wherefrom.statistics import draw_counts, interval_of, weighted_means
from wherefrom.typing import Numbers

ClaimVerdict = Literal["confirmed", "refuted", "open"]
ClaimSide = Literal["above", "below"]
Statistic = Callable[[Sequence[Numbers]], float]  # the means of every column, one row for each data set -> a number
Statistics = Callable[[Sequence[Numbers]], Numbers]  # the same -> several numbers
ROUNDS = 2000
ROUNDING = 1e-9  # what is smaller is the rounding of a zero
NOT_MEASURED = "no data set that it needs was measured"


class Estimate(NamedTuple):
    """A number with its 95% interval, which it has from two texts on."""

    value: float
    low: float | None = None
    high: float | None = None
    texts: int = 0

    def __str__(self) -> str:
        shown = figure(self.value)
        return shown if self.low is None or self.high is None else f"{shown} [{figure(self.low)}, {figure(self.high)}]"


def figure(value: float) -> str:
    """Three digits behind the point; of a number that would read as zero so many that its sign is seen: where an
    interval ends above or below zero is what decides a claim.
    """
    shown = f"{value:.3f}"
    if float(shown) or abs(value) < ROUNDING:
        return shown.replace("-0.000", "0.000")
    return f"{value:.{-floor(log10(abs(value)))}f}"


def estimate(
    tables: Sequence[Numbers], statistic: Statistic, *, rounds: int = ROUNDS, seed: int = 0
) -> Estimate | None:
    """A statistic of the means of columns, with its interval.

    tables: for each data set (text, column), NaN where a text has no value; every text counts once, and the texts of
        each set are drawn by themselves.

    Returns None where the statistic is not defined, such as for a column without any value.
    """
    found = estimates(tables, lambda means: np.array([statistic(means)]), rounds=rounds, seed=seed)
    return found[0] if found else None


def estimates(
    tables: Sequence[Numbers], statistics: Statistics, *, rounds: int = ROUNDS, seed: int = 0
) -> list[Estimate | None]:
    """The same for several statistics of the same draws, such as the rank of every method; none where there is no text.

    statistics: gives all of them at once.
    """
    if not tables or any(not len(table) for table in tables):
        return []
    with np.errstate(invalid="ignore", divide="ignore"):
        values = statistics([weighted_means(table) for table in tables])
        texts = sum(len(table) for table in tables)
        if not np.isfinite(values).any() or min(len(table) for table in tables) < 2:
            return [Estimate(float(value), texts=texts) if np.isfinite(value) else None for value in values]
        chance = np.random.default_rng(seed)
        drawn = [weighted_means(table, draw_counts(len(table), rounds, chance)) for table in tables]
        redrawn = np.array([statistics([means[number] for means in drawn]) for number in range(rounds)])
    found: list[Estimate | None] = []
    for value, others in zip(values, redrawn.T, strict=True):
        if not np.isfinite(value):
            found.append(None)
            continue
        found.append(Estimate(float(value), *interval_of(others[np.isfinite(others)]), texts))
    return found


class EstimateOrReason(NamedTuple):
    """What became of a statistic: its estimate, or why there is none."""

    found: Estimate | None
    why: str


def estimated(
    tables: Mapping[str, Numbers], columns: Sequence[str], statistic: Statistic, *, rounds: int = ROUNDS
) -> EstimateOrReason:
    """The estimate of a statistic of the data sets' tables; or which columns it misses, by the names of both."""
    found = estimate(list(tables.values()), statistic, rounds=rounds)
    return EstimateOrReason(found, "" if found is not None else _why_none(tables, columns, statistic))


def _why_none(tables: Mapping[str, Numbers], columns: Sequence[str], statistic: Statistic) -> str:
    if not tables:
        return NOT_MEASURED
    empty = [name for name, table in tables.items() if not len(table)]
    if empty:
        return f"there are no texts of {', '.join(empty)}"
    nothing = np.array([np.isnan(table).all(0) for table in tables.values()])  # (data set, column)
    made_up = np.random.default_rng(0).random(nothing.shape)
    missing: dict[str, list[str]] = {}
    for place, name in enumerate(tables):
        for column in np.flatnonzero(nothing[place]):
            means = made_up.copy()  # whether the statistic reads this column: is it undefined with all others known?
            means[place, column] = np.nan
            if not np.isfinite(statistic(list(means))):
                missing.setdefault(columns[int(column)], []).append(name)
    lacking = [f"{column} has no value for any text of {' and '.join(names)}" for column, names in missing.items()]
    return "; ".join(lacking) or "the statistic is not defined for these numbers"


def mean_of(values: Iterable[float | None]) -> Estimate | None:
    """The mean of a list, over the texts that have a value."""
    known = np.array([[value] for value in values if value is not None and np.isfinite(value)], dtype=np.float64)
    return estimate([known], lambda means: float(means[0][0])) if len(known) else None


def difference(one: int, other: int, sign: float = 1.0) -> Statistic:
    """The mean over data sets of how far one column lies above another."""
    return lambda means: float(np.mean([sign * (row[one] - row[other]) for row in means]))


def lead(one: int, others: Sequence[int], sign: float = 1.0) -> Statistic:
    """The mean over data sets of how far one column lies above the best of others; sign = -1 where lower is better.
    Above zero: it is the first. Not defined where one of them has no value: it might have been the best.
    """
    return lambda means: float(np.mean([sign * row[one] - np.max(sign * row[list(others)]) for row in means]))


def trail(some: Sequence[int], others: Sequence[int], sign: float = 1.0) -> Statistic:
    """The mean over data sets of how far the best of some columns lies below the worst of others. Above zero: they are
    the last.
    """
    return lambda means: float(
        np.mean([np.min(sign * row[list(others)]) - np.max(sign * row[list(some)]) for row in means])
    )


@dataclass(frozen=True)
class Claim:
    """What a paper says, and how it is tested."""

    name: str  # such as C1
    words: str  # the claim
    statistic: str  # what is computed, in words
    side: ClaimSide | None = "above"  # of zero
    margin: float | None = None  # a claim of equality: the statistic lies within so much of zero

    def __post_init__(self) -> None:
        if (self.side is None) == (self.margin is None):
            raise BadOption(f"The claim {self.name} needs a side or a margin, and not both.")

    def judged(self, found: Estimate | None, why: str = "") -> JudgedClaim:
        """Confirmed where the whole interval is on the claimed side of zero (within the margin), refuted where it is
        wholly on the other (outside), else open.

        why: the reason, where there is no estimate.
        """
        verdict: ClaimVerdict = "open"
        if found is not None and found.low is not None and found.high is not None:
            low, high = found.low, found.high
            if self.margin is not None:
                if -self.margin < low and high < self.margin:
                    verdict = "confirmed"
                elif low > self.margin or high < -self.margin:
                    verdict = "refuted"
            elif low > 0 or high < 0:
                verdict = "confirmed" if (low > 0) == (self.side == "above") else "refuted"
        return JudgedClaim(self, found, verdict, why if found is None else "")


@dataclass(frozen=True)
class JudgedClaim:
    claim: Claim
    found: Estimate | None
    verdict: ClaimVerdict
    why: str = ""  # not measured, and for what reason
