"""Which metric orders methods as the truth does: Kendall's correlation, by resampling models and texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from wherefrom.statistics import interval_of
from wherefrom.typing import Numbers
from wherefrom_studies.claims import Estimate, estimated, student

ROUNDS = 500
TIE = 1e-9


def signs(values: Numbers) -> Numbers:
    """Of every pair of methods, which has the larger value: 1, 0, -1; NaN where one has none. (..., method) -> (...,
    pair)
    """
    first, second = np.triu_indices(values.shape[-1], 1)
    differences = values[..., first] - values[..., second]
    found: Numbers = np.where(np.abs(differences) <= TIE, 0.0, np.sign(differences))
    return np.where(np.isnan(differences), np.nan, found)


def kendall(one: Numbers, other: Numbers) -> float:
    """Kendall's tau-b of two rows of numbers, over the places where both have one."""
    return float(_taus(np.stack([one, other]), [1.0])[0])


def agreements(
    models: Mapping[str, Numbers], better: Sequence[float], *, rounds: int = ROUNDS, seed: int = 0
) -> list[Estimate | None]:
    """How far each metric's order of methods is the true one, mean over models.

    models: for each model (text, method, column), the first column the truth, higher is better.
    better: of every further column, 1 where higher values are better, -1 where lower ones are.

    Intervals by drawing models with replacement, and within each model texts.
    """
    tables = list(models.values())
    if not tables:
        return [None for _ in better]
    value = _mean(np.array([_taus(_means(table), better) for table in tables]))
    if len(tables) < 2:
        return [Estimate(float(one), texts=len(tables[0])) if np.isfinite(one) else None for one in value]
    chance = np.random.default_rng(seed)
    drawn = []
    for _ in range(rounds):
        taus = []
        for place in chance.integers(len(tables), size=len(tables)):
            table = tables[place]
            taus.append(_taus(_means(table[chance.integers(len(table), size=len(table))]), better))
        drawn.append(_mean(np.array(taus)))
    redrawn = np.array(drawn)
    texts = sum(map(len, tables))
    found: list[Estimate | None] = []
    for one, others in zip(value, redrawn.T, strict=True):
        known = others[np.isfinite(others)]
        found.append(Estimate(float(one), *interval_of(known), texts) if np.isfinite(one) and len(known) else None)
    return found


def _mean(values: Numbers) -> Numbers:
    """Of every column, without NaN; NaN where there is nothing else."""
    known = np.isfinite(values)
    count = known.sum(0)
    found: Numbers = np.where(count, np.where(known, values, 0.0).sum(0) / np.maximum(count, 1), np.nan)
    return found


def _means(table: Numbers) -> Numbers:
    """(text, method, column) -> (column, method)"""
    return _mean(table.reshape(len(table), -1)).reshape(table.shape[1:]).T


def _taus(means: Numbers, better: Sequence[float]) -> Numbers:
    """The correlation of the first row with every other one, its values turned so that higher ones are better."""
    orders = signs(means)  # (1 + column, pair)
    truth, others = orders[0], orders[1:]
    known = np.isfinite(truth) & np.isfinite(others)
    first, second = np.where(known, truth, 0.0), np.where(known, others, 0.0)
    size = np.sqrt((first**2).sum(1) * (second**2).sum(1))
    found: Numbers = np.where(size > 0, (first * second).sum(1) / np.where(size > 0, size, 1.0), np.nan)
    return np.asarray(better) * found


def over_models(models: Mapping[str, Numbers], *, share: bool = False) -> Estimate | None:
    """The mean of texts' values, averaged by model, with Student's interval over models; with one model, no interval.

    models: (text,) of each. share: whether values are shares, whose interval ends at 0 and 1.
    """
    known = {name: values[np.isfinite(values)] for name, values in models.items()}
    means = [float(values.mean()) for values in known.values() if len(values)]
    if not means:
        return None
    texts = sum(len(values) for values in known.values())
    if len(means) > 1 and np.ptp(means) <= TIE:
        return estimated(means[0], 0.0, len(means) - 1, texts, "models")
    estimate = student(means, texts, "models")
    if not share or estimate.low is None or estimate.high is None:
        return estimate
    return estimate._replace(low=max(estimate.low, 0.0), high=min(estimate.high, 1.0))
