"""The bootstrap: how far a mean could be off, had other examples of the same kind been taken.

Examples are drawn with replacement, the same for all columns of a table, so that differences between columns are
paired. NaN is left out of means.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wherefrom.core.arrays import Numbers

ROUNDS = 2000
ROUNDS_IN_MEMORY = 200
BLOCKS = 10_000  # from so many examples on, blocks of examples are drawn instead


class Interval(NamedTuple):
    """Contains 95% of the bootstrap's values."""

    low: float
    high: float


def interval_of(values: Numbers) -> Interval:
    """The 95% interval of the values that are defined."""
    low, high = np.quantile(values[~np.isnan(values)], [0.025, 0.975])
    return Interval(float(low), float(high))


@lru_cache(maxsize=2)
def _draws(units: int, rounds: int, seed: int) -> npt.NDArray[np.uint16]:
    """What `draw_counts` draws, for whoever draws the same several times. Only 10,000 blocks of 2,000 rounds take long,
    and so many numbers of eight bytes would take much memory. (round, unit)
    """
    generator = np.random.default_rng(seed)
    sizes = [min(ROUNDS_IN_MEMORY, rounds - start) for start in range(0, rounds, ROUNDS_IN_MEMORY)]
    parts = [generator.multinomial(units, [1 / units] * units, size=size).astype(np.uint16) for size in sizes]
    return np.concatenate([np.empty((0, units), dtype=np.uint16), *parts])


def redrawn_means(values: Numbers, *, seed: int = 0, rounds: int = ROUNDS) -> Numbers:
    """The mean of every column over examples drawn with replacement, or over blocks of very many examples, the same for
    all tables of as many rows. NaN where a column has no value. (example, column) -> (round, column)
    """
    known = ~np.isnan(values)
    sums, counts = in_blocks(np.where(known, values, 0.0), seed), in_blocks(known.astype(np.float64), seed)
    drawn = _draws(min(len(values), BLOCKS), rounds, seed) if len(values) else np.empty((0, 0), dtype=np.uint16)
    starts = range(0, len(drawn), ROUNDS_IN_MEMORY)
    parts = [_ratio(drawn[start : start + ROUNDS_IN_MEMORY].astype(np.float64), sums, counts) for start in starts]
    return np.concatenate([np.empty((0, values.shape[1])), *parts])


def draw_counts(examples: int, rounds: int, generator: np.random.Generator) -> Numbers:
    """How often each example, or each block of very many examples, is drawn in each round. (round, example or block)"""
    units = min(examples, BLOCKS)
    return generator.multinomial(units, [1 / units] * units, size=rounds).astype(np.float64)


def weighted_means(values: Numbers, weights: Numbers | None = None, *, seed: int = 0) -> Numbers:
    """The mean of every column, by how often each example counts; without weights each counts once.

    Args:
        values: (example, column).
        weights: (round, example or block), as `draw_counts` returns them.
        seed: of the blocks.

    Returns:
        (round, column), or (column,) without weights; NaN where a column has no value.
    """
    known = ~np.isnan(values)
    sums, counts = np.where(known, values, 0.0), known.astype(np.float64)
    if weights is None:
        weights = np.ones(len(values))
    elif weights.shape[-1] < len(values):
        sums, counts = in_blocks(sums, seed), in_blocks(counts, seed)
    return _ratio(weights, sums, counts)


def bootstrap(values: Numbers, *, seed: int = 0, rounds: int = ROUNDS) -> list[Interval | None]:
    """The interval of every column's mean; None for a column with fewer than two values. (example, column)"""
    by_column = redrawn_means(values, seed=seed, rounds=rounds).T  # (column, round)
    enough = (~np.isnan(values)).sum(0) >= 2
    return [interval_of(column) if several else None for column, several in zip(by_column, enough, strict=True)]


def in_blocks(values: Numbers, seed: int) -> Numbers:
    """The sums of every column over random blocks of examples, where there are very many; else the values as they are.
    (example, column) -> (block, column)

    Drawing blocks with replacement gives the means the spread that drawing examples gives them, because a block is a
    random sample itself; that spread is then known to about 1%, less than what 2,000 rounds add. So the cost of a
    bootstrap is bounded.
    """
    if len(values) <= BLOCKS:
        return values
    order = np.random.default_rng(seed).permutation(len(values))
    starts = np.linspace(0, len(values), BLOCKS, endpoint=False).astype(np.int64)
    sums: Numbers = np.add.reduceat(values[order], starts, axis=0)
    return sums


def _ratio(weights: Numbers, sums: Numbers, counts: Numbers) -> Numbers:
    with np.errstate(invalid="ignore", divide="ignore"):  # a round may draw none of the few values of a column
        means: Numbers = (weights @ sums) / (weights @ counts)
    return means
