"""Means and shares with their intervals, words beside others of like frequency, and p-values of many tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.stats import binom, hypergeom, norm, t

from wherefrom.core.audit import LEAST, Estimate

NORMAL = 1.959964  # standard errors on either side of a mean, for 95%
ALIKE = 40  # words of like frequency that a word is compared with
FEWEST_ALIKE = 10
TO_DEVIATION = 1.4826  # a median absolute deviation times this is the standard deviation of a normal distribution


def share(total: float, texts: int) -> Estimate:
    """The share of texts, by Wilson's interval.

    total: the texts for which something holds; where a text gives several decisions it counts by their mean, so that
        a text counts once. Its variance is then at most that of yes and no, and the interval is not too narrow.
    """
    if texts < LEAST:
        return Estimate(texts=texts)
    rate, square = float(total) / texts, NORMAL**2
    middle = (rate + square / (2 * texts)) / (1 + square / texts)
    reach = NORMAL / (1 + square / texts) * math.sqrt(rate * (1 - rate) / texts + square / (4 * texts**2))
    low, high = middle - reach, middle + reach
    return Estimate(rate, 0.0 if rate == 0 else max(0.0, low), 1.0 if rate == 1 else min(1.0, high), texts)


@dataclass
class Mean:
    """A mean over texts that are added one by one (Welford's algorithm)."""

    texts: int = 0
    mean: float = 0.0
    squares: float = 0.0  # of the distances from the mean, added up

    def add(self, value: float) -> None:
        self.texts += 1
        distance = value - self.mean
        self.mean += distance / self.texts
        self.squares += distance * (value - self.mean)

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return math.sqrt(self.squares / (self.texts - 1) / self.texts) if self.texts > 1 else 0.0

    def estimate(self) -> Estimate:
        """With its interval by Student's t."""
        if self.texts < LEAST:
            return Estimate(texts=self.texts)
        reach = _quantile(self.texts - 1) * self.error
        return Estimate(self.mean, self.mean - reach, self.mean + reach, self.texts)

    def p(self) -> float:
        """Of the mean's being zero, by Student's t."""
        if self.texts < 2 or self.error == 0:
            return 1.0 if self.mean == 0 or self.texts < 2 else 0.0
        return float(2 * t.sf(abs(self.mean / self.error), self.texts - 1))


@cache
def _quantile(freedom: int) -> float:
    return float(t.ppf(0.975, freedom))


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's: below q, at most a share q of what is listed is expected to be there by chance."""
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values)
    scaled = values[order] * len(values) / np.arange(1, len(values) + 1)
    smallest = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    found = np.empty_like(smallest)
    found[order] = smallest
    return [float(value) for value in found]


def alike(counts: Sequence[int]) -> list[list[int]]:
    """For every word the places of those that occur about as often."""
    order = sorted(range(len(counts)), key=lambda place: (counts[place], place))
    near: list[list[int]] = [[] for _ in counts]
    for rank, place in enumerate(order):
        first = max(0, min(rank - ALIKE // 2, len(order) - ALIKE - 1))
        near[place] = [other for other in order[first : first + ALIKE + 1] if other != place]
    return near


def beside_alike(means: Sequence[Mean], counts: Sequence[int]) -> list[float | None]:
    """How far every word's mean is from the median of words of like frequency: in the deviation of these (by their
    median absolute deviation) and the mean's own standard error together. None where there are too few of them.
    """
    found: list[float | None] = []
    for own, near in zip(means, alike(counts), strict=True):
        others = np.array([means[place].mean for place in near])
        if len(others) < FEWEST_ALIKE:
            found.append(None)
            continue
        middle = float(np.median(others))
        spread = math.hypot(TO_DEVIATION * float(np.median(np.abs(others - middle))), own.error)
        found.append((own.mean - middle) / spread if spread > 0 else None)
    return found


def two_sided(z: float) -> float:
    """The p-value of a normal z."""
    return float(2 * norm.sf(abs(z)))


def more_than(count: int, of: int, rate: float) -> tuple[float, float]:
    """How much more often something happened than at this rate: z, and the exact one-sided p-value."""
    if of == 0 or rate >= 1:
        return 0.0, 1.0
    rate = max(rate, 1e-6)
    z = (count - of * rate) / math.sqrt(of * rate * (1 - rate))
    return float(z), float(binom.sf(count - 1, of, rate))


def enriched(count: int, of: int, total: int, all_of: int) -> tuple[float, float]:
    """Whether `count` of these are more than expected where `total` of `all_of` are spread by chance: z, and the
    one-sided p-value of Fisher's exact test.
    """
    if of == 0 or of == all_of or total == 0:
        return 0.0, 1.0
    expected = of * total / all_of
    variance = expected * (1 - total / all_of) * (all_of - of) / max(1, all_of - 1)
    z = (count - expected) / math.sqrt(variance) if variance > 0 else 0.0
    return float(z), float(hypergeom.sf(count - 1, all_of, total, of))
