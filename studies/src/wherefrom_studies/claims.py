"""What a study says, as data: estimates with intervals, the claims of a paper, and what becomes of each.

A claim is written down with its statistic and its side, or its margin, before the numbers are looked at. Intervals of
claims are Student's over data sets or texts (`comparisons`), those of means in tables the studentised bootstrap's over
texts. How often both cover the true value, and how often verdicts are wrong, is simulated in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor, inf, log10
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats

from wherefrom.errors import BadOption
from wherefrom.statistics import draw_counts, interval_of, weighted_means
from wherefrom.typing import Numbers

ClaimVerdict = Literal["confirmed", "refuted", "open"]
ClaimSide = Literal["above", "below"]
Statistic = Callable[[Sequence[Numbers]], float]  # the means of every column, one row for each data set -> a number
Statistics = Callable[[Sequence[Numbers]], Numbers]  # the same -> several numbers
ROUNDS = 2000
ROUNDING = 1e-9  # what is smaller is the rounding of a zero
LEVEL = 0.05  # of a claim's test, both sides together


class Estimate(NamedTuple):
    """A number with its 95% interval, which it has from two texts on."""

    value: float
    low: float | None = None
    high: float | None = None
    texts: int = 0
    error: float | None = None  # standard error, where the interval is Student's
    freedom: float = inf  # degrees of freedom
    unit: str = "texts"  # what the interval is over

    def __str__(self) -> str:
        shown = figure(self.value)
        return shown if self.low is None or self.high is None else f"{shown} [{figure(self.low)}, {figure(self.high)}]"

    def p_above(self, point: float = 0.0) -> float:
        """The p-value of the value being above a point, one-sided; 1 where there is no interval."""
        if self.low is None or self.high is None:
            return 1.0
        error = (self.high - self.low) / 2 / stats.norm.ppf(1 - LEVEL / 2) if self.error is None else self.error
        distance = (self.low + self.high) / 2 - point
        if error < ROUNDING:
            return 0.0 if distance > ROUNDING else 1.0
        return float(stats.t.sf(distance / error, self.freedom))

    def p_below(self, point: float = 0.0) -> float:
        """The same for below."""
        return Estimate(-self.value, _minus(self.high), _minus(self.low), 0, self.error, self.freedom).p_above(-point)


def _minus(value: float | None) -> float | None:
    return None if value is None else -value


def student(values: Sequence[float] | Numbers, texts: int, unit: str = "texts") -> Estimate:
    """The mean of numbers with Student's interval, from two on."""
    value, count = float(np.mean(values)), len(values)
    if count < 2:
        return Estimate(value, texts=texts, unit=unit)
    return estimated(value, float(np.std(values, ddof=1)) / count**0.5, count - 1, texts, unit)


def estimated(value: float, error: float, freedom: float, texts: int, unit: str) -> Estimate:
    """A number with Student's interval by its standard error."""
    half = float(stats.t.ppf(1 - LEVEL / 2, freedom)) * error
    return Estimate(value, value - half, value + half, texts, error, freedom, unit)


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
    results: list[Estimate | None] = []
    for value, others in zip(values, redrawn.T, strict=True):
        if not np.isfinite(value):
            results.append(None)
            continue
        results.append(Estimate(float(value), *interval_of(others[np.isfinite(others)]), texts))
    return results


def mean_of(values: Iterable[float | None]) -> Estimate | None:
    """The mean of a list, over the texts that have a value, with the studentised bootstrap's interval: at 25 texts it
    covers the mean of skewed numbers more often than quantiles of means do.
    """
    known = np.array([value for value in values if value is not None and np.isfinite(value)], dtype=np.float64)
    count = len(known)
    if count < 2:
        return Estimate(float(known[0]), texts=1) if count else None
    value, error = float(known.mean()), float(known.std(ddof=1)) / count**0.5
    centred = known - value
    weights = draw_counts(count, ROUNDS, np.random.default_rng(0))
    if weights.shape[1] < count or error < ROUNDING:  # so many texts that the mean is normal; or all alike
        return student(known, count)
    means = weights @ centred / count
    errors = np.sqrt((weights @ centred**2 / count - means**2).clip(0) / (count - 1))
    low, high = interval_of(means[errors > ROUNDING] / errors[errors > ROUNDING])
    return Estimate(value, value - high * error, value - low * error, count)


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

    def judged(
        self,
        estimate: Estimate | None,
        why: str = "",
        pairs: Sequence[PairTest] = (),
        by_set: Mapping[str, Estimate] | None = None,
    ) -> JudgedClaim:
        """Confirmed where the whole interval is on the claimed side of zero (within the margin), refuted where it is
        wholly on the other (outside), else open. A claim about an order: confirmed where this holds for every pair,
        refuted where one pair is reversed after Holm's correction.

        why: the reason, where there is no estimate.
        by_set: the estimate of every data set by itself.
        """
        if estimate is None:
            return JudgedClaim(self, None, "open", why)
        for_it, against = self._p_values(estimate, pairs)
        verdict: ClaimVerdict = "open"
        if for_it < LEVEL / 2:
            verdict = "confirmed"
        elif against < LEVEL / 2:
            verdict = "refuted"
        rival = f"{pairs[0].better} – {pairs[0].worse}" if len(pairs) > 1 else ""
        return JudgedClaim(self, estimate, verdict, "", rival, min(1.0, 2 * min(for_it, against)), by_set or {})

    def _p_values(self, estimate: Estimate, pairs: Sequence[PairTest]) -> tuple[float, float]:
        """One-sided p-values of the claim and of its contrary."""
        if self.margin is not None:
            inside = max(estimate.p_above(-self.margin), estimate.p_below(self.margin))
            return inside, min(estimate.p_above(self.margin), estimate.p_below(-self.margin))
        if pairs:
            reversed_pairs = [pair.estimate.p_below() for pair in pairs]
            return max(pair.estimate.p_above() for pair in pairs), min(holm(reversed_pairs))
        above, below = estimate.p_above(), estimate.p_below()
        return (above, below) if self.side == "above" else (below, above)


class PairTest(NamedTuple):
    """How far one method is ahead of another."""

    better: str  # as it is claimed
    worse: str
    estimate: Estimate


@dataclass(frozen=True)
class JudgedClaim:
    claim: Claim
    estimate: Estimate | None
    verdict: ClaimVerdict
    why: str = ""  # not measured, and for what reason
    rival: str = ""  # of a claim about an order: the pair that the estimate is of
    p: float = 1.0  # two-sided
    by_set: Mapping[str, Estimate] = field(default_factory=dict)
    corrected: ClaimVerdict = "open"  # the verdict after Holm's correction over the claims of the paper

    @property
    def outlook(self) -> str:
        """Of an open claim: the half-width, the largest difference that is not excluded, and how much more would settle
        a difference of the size that was found.
        """
        estimate = self.estimate
        if self.verdict != "open" or estimate is None or estimate.low is None or estimate.high is None:
            return ""
        half, largest = (estimate.high - estimate.low) / 2, max(abs(estimate.low), abs(estimate.high))
        parts = [f"half-width {figure(half)}", f"no difference larger than {figure(largest)}"]
        needed = abs(estimate.value) if self.claim.margin is None else abs(self.claim.margin - abs(estimate.value))
        units = estimate.freedom + 1 if estimate.unit != "texts" and estimate.error is not None else estimate.texts
        wanted = units * (half / needed) ** 2 if needed > ROUNDING else inf
        if self.claim.margin is None and (estimate.low > 0 or estimate.high < 0):
            parts.append("not significant after Holm's correction over its pairs")
        elif wanted < 1000:
            parts.append(f"about {ceil(wanted - ROUNDING)} {estimate.unit} would settle it")
        return "; ".join(parts)

    @property
    def sets(self) -> str:
        """In how many data sets the interval by itself is above or below zero."""
        decided = [
            estimate for estimate in self.by_set.values() if estimate.low is not None and estimate.high is not None
        ]
        above = sum(estimate.low > 0 for estimate in decided if estimate.low is not None)
        below = sum(estimate.high < 0 for estimate in decided if estimate.high is not None)
        return f"above 0 in {above}, below in {below} of {len(self.by_set)}" if len(self.by_set) > 1 else ""


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values after Holm's correction, in the same order."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    corrected, largest = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


def corrected(claims: Sequence[JudgedClaim]) -> list[JudgedClaim]:
    """The claims of a paper with their verdicts after Holm's correction over those that were measured."""
    measured = [place for place, judged in enumerate(claims) if judged.estimate is not None]
    p_values = dict(zip(measured, holm([claims[place].p for place in measured]), strict=True))
    return [
        replace(judged, corrected=judged.verdict if p_values.get(place, 1.0) < LEVEL else "open")
        for place, judged in enumerate(claims)
    ]
