"""What becomes of the claims of "Is Sparse Attention more Interpretable?" (Meister et al. 2021).

One training more or less moves the numbers more than the texts do, so intervals are over seeds: what differs between
seeds is pooled over data sets and encoders, and Student's interval is drawn around the mean. From one seed alone
nothing is concluded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from scipy.stats import kendalltau, t

from wherefrom_studies.claims import Estimate, JudgedClaim
from wherefrom_studies.sparse.paper import CLAIMS
from wherefrom_studies.sparse.tables import encoder_grid, lambda_of, present, select, sweep

ClassifierNumbers = Mapping[str, Any]  # a classifier's numbers


def pooled(cells: Sequence[Sequence[float]], *, least: bool = False) -> Estimate | None:
    """The mean over cells of the mean over seeds, with Student's interval; or, with `least`, the smallest cell's.

    cells: one for each model, with a number a seed. How far seeds differ is pooled over all cells.
    """
    known = [[number for number in cell if math.isfinite(number)] for cell in cells]
    known = [cell for cell in known if cell]
    if not known:
        return None
    means = [fmean(cell) for cell in known]
    value = min(means) if least else fmean(means)
    free = sum(len(cell) - 1 for cell in known)
    seeds = sum(map(len, known))
    if not free:
        return Estimate(value, texts=seeds, unit="trainings")
    squares = sum((number - mean) ** 2 for cell, mean in zip(known, means, strict=True) for number in cell)
    weight = 1 / len(known[means.index(value)]) if least else sum(1 / len(cell) for cell in known) / len(known) ** 2
    error = math.sqrt(squares / free * weight)
    half = float(t.ppf(0.975, free)) * error
    return Estimate(value, value - half, value + half, seeds, error, free, "trainings")


def judged(results: Mapping[str, Any]) -> list[JudgedClaim]:
    """The verdict of every claim; a data set with an encoder counts once."""
    estimates: dict[str, Estimate | None] = {
        "S1": pooled(_models(results, lambda row: _mean(row, "tau", "g(I)") - _mean(row, "tau", "g(x)")), least=True),
        "S2 lambda": pooled(_sweeps(results, "tau", sign=-1.0)),
        "S2 sparsemax": pooled(_from_softmax(results, "g(x)")),
        "S3": pooled(_sweeps(results, "entropy")),
        "S4": pooled(_models(results, lambda row: _mean(row, "entropy", "g_h(x)") - 0.5), least=True),
        "S5 frozen": pooled(_adversaries(results, "frozen")),
        "S5 unfrozen": pooled(_adversaries(results, "unfrozen")),
        "S6 places": pooled(
            _models(results, lambda row: _mean(row, "tau", "D(I)") - _mean(row, "tau", "D(x)")), least=True
        ),
        "S6 sparsemax": pooled(_from_softmax(results, "D(x)")),
    }
    return [claim.judged(estimates[name], "not measured by a quick study") for name, claim in CLAIMS.items()]


def _mean(row: ClassifierNumbers, kind: str, name: str) -> float:
    values = present(row[kind].get(name, ()))
    return fmean(values) if values else math.nan


def _models(results: Mapping[str, Any], number: Callable[[ClassifierNumbers], float]) -> list[list[float]]:
    """A number of every classifier with softmax and sparsemax: a cell for each model, in it one for each seed."""
    return [
        [
            number(row)
            for row in select(results, dataset=dataset, encoder=encoder, projection=projection, adversary=None)
        ]
        for dataset, encoder in encoder_grid(results)
        for projection in ("softmax", "sparsemax")
    ]


def _by_seed(rows: Iterable[ClassifierNumbers]) -> dict[int, list[ClassifierNumbers]]:
    by_seed: dict[int, list[ClassifierNumbers]] = {}
    for row in rows:
        by_seed.setdefault(row["seed"], []).append(row)
    return by_seed


def _from_softmax(results: Mapping[str, Any], name: str) -> list[list[float]]:
    """How far agreement falls from softmax to sparsemax, seed by seed."""
    cells = []
    for dataset, encoder in encoder_grid(results):
        rows = select(results, dataset=dataset, encoder=encoder, adversary=None)
        cell = []
        for of_seed in _by_seed(rows).values():
            by_projection = {row["projection"]: _mean(row, "tau", name) for row in of_seed}
            if {"softmax", "sparsemax"} <= by_projection.keys():
                cell.append(by_projection["softmax"] - by_projection["sparsemax"])
        cells.append(cell)
    return cells


def _sweeps(results: Mapping[str, Any], kind: str, sign: float = 1.0) -> list[list[float]]:
    """Kendall's tau-b of lambda with a classifier's mean of g(x), seed by seed; from three values of lambda on."""
    cells = []
    for dataset, encoder in encoder_grid(results):
        cell = []
        for of_seed in _by_seed(sweep(results, dataset, encoder)).values():
            if len(of_seed) >= 3:
                scale = [lambda_of(row["projection"]) for row in of_seed]
                cell.append(sign * float(kendalltau(scale, [_mean(row, kind, "g(x)") for row in of_seed]).statistic))
        cells.append(cell)
    return cells


def _adversaries(results: Mapping[str, Any], mode: str) -> list[list[float]]:
    return [
        [
            row["base_accuracy"] - row["accuracy"]
            for row in select(results, dataset=dataset, encoder=encoder, adversary=mode)
        ]
        for dataset, encoder in encoder_grid(results)
    ]


def of_training(row: ClassifierNumbers) -> dict[str, Any]:
    """What a classifier is, and its numbers as means over texts: small enough to be kept when its folder is gone."""
    plain = {key: value for key, value in row.items() if not isinstance(value, Mapping | list)}
    means = {
        kind: {name: round(_mean(row, kind, name), 5) for name, values in row[kind].items() if present(values)}
        for kind in ("tau", "entropy")
        if kind in row
    }
    return plain | means
