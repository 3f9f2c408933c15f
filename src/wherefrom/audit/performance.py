"""How well a model does: accuracy, F1, confusion, calibration, groups of texts; errors of a regression model."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from wherefrom.audit.estimates import Mean, share
from wherefrom.audit.rows import Gold, ProbedRow
from wherefrom.core.arrays import Indices, Numbers
from wherefrom.core.audit import LEAST, CalibrationBin, Estimate, Group, LabelScore, Performance
from wherefrom.core.statistics import interval_of

BINS = 10  # of confidence
ROUNDS = 1000  # of the bootstrap
QUARTERS = 4  # groups of texts by length
SHOWN = 24  # values of a metadata column
MATRIX = 30  # labels up to which there is a confusion matrix


@dataclass
class PerformanceTable:
    """One entry for each text that has labels, or a value."""

    labels: Sequence[str]
    regression: bool
    gold: list[tuple[str, ...]] = field(default_factory=list)
    predicted: list[tuple[str, ...]] = field(default_factory=list)
    confidence: list[float] = field(default_factory=list)  # NaN where several labels may be right
    values: list[tuple[float, float]] = field(default_factory=list)  # given, and predicted
    lengths: list[int] = field(default_factory=list)
    groups: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))  # places of texts

    def add(self, row: ProbedRow) -> None:
        if not row.first or (row.gold.value if self.regression else row.gold.labels) is None:
            return
        self._group(row.gold)
        explanation = row.explanation
        self.lengths.append(sum(part >= 0 for part in explanation.segment))
        if self.regression:
            self.values.append((float(row.gold.value or 0.0), explanation.output))
        else:
            self.gold.append(row.gold.labels or ())
            self.predicted.append(row.predicted)
            self.confidence.append(math.nan if explanation.independent else explanation.output)

    def add_silent(self, gold: Gold) -> None:
        """A text for which no label is predicted."""
        if gold.labels is None:
            return
        self._group(gold)
        self.gold.append(gold.labels)
        self.predicted.append(())
        self.confidence.append(math.nan)
        self.lengths.append(0)

    def _group(self, gold: Gold) -> None:
        for column, value in gold.metadata.items():
            self.groups[f"{column} = {value}"].append(len(self.lengths))

    def result(self) -> Performance:
        if self.regression:
            return self._of_values()
        if not self.gold:
            return Performance()
        right = np.array([set(a) == set(b) for a, b in zip(self.gold, self.predicted, strict=True)], dtype=np.float64)
        sure = np.array(self.confidence)
        one_each = not np.isnan(sure).any() and all(len(gold) == 1 for gold in self.gold)
        return Performance(
            accuracy=share(right.sum(), len(right)),
            macro_f1=self._macro_f1(),
            labels=tuple(self._label(label) for label in self._names()),
            confusion=self._confusion() if one_each and len(self._names()) <= MATRIX else (),
            calibration=tuple(_bins(sure, right)) if one_each else (),
            calibration_error=_calibration_error(sure, right) if one_each else Estimate(),
            groups=tuple(self._by_group(right, shares=True)),
        )

    def _names(self) -> list[str]:
        """The labels that occur, in the order of the model's."""
        seen = {label for labels in (*self.gold, *self.predicted) for label in labels}
        return [label for label in self.labels if label in seen]

    def _counts(self, label: str) -> tuple[Numbers, Numbers, Numbers]:
        """Of every text, whether it has the label, is given it, and both."""
        has = np.array([label in labels for labels in self.gold], dtype=np.float64)
        given = np.array([label in labels for labels in self.predicted], dtype=np.float64)
        return has, given, has * given

    def _label(self, label: str) -> LabelScore:
        has, given, both = (int(counts.sum()) for counts in self._counts(label))
        f1 = 2 * both / (has + given) if has >= LEAST else None
        return LabelScore(label, has, share(both, has), share(both, given), f1)

    def _macro_f1(self) -> Estimate:
        """The mean over labels, with a bootstrap over texts: equal texts are drawn together, so that it is cheap."""
        texts, names = len(self.gold), self._names()
        if texts < LEAST:
            return Estimate(texts=texts)
        kinds = Counter(zip(self.gold, self.predicted, strict=True))
        has, given = (
            np.array([[label in labels[side] for label in names] for labels in kinds], dtype=np.float64)
            for side in (0, 1)
        )

        def mean_f1(weights: Numbers) -> Numbers:  # (round, kind of text) -> (round,)
            ends = weights @ (has + given)
            with np.errstate(invalid="ignore", divide="ignore"):
                f1 = np.where(ends > 0, 2 * (weights @ (has * given)) / ends, np.nan)
            mean: Numbers = np.nanmean(f1, axis=1)
            return mean

        counts = np.array(list(kinds.values()), dtype=np.float64)
        drawn = np.random.default_rng(0).multinomial(texts, counts / texts, size=ROUNDS).astype(np.float64)
        low, high = interval_of(mean_f1(drawn))
        return Estimate(float(mean_f1(counts[None])[0]), low, high, texts)

    def _confusion(self) -> tuple[tuple[int, ...], ...]:
        names = self._names()
        counts = Counter((gold[0], given[0]) for gold, given in zip(self.gold, self.predicted, strict=True) if given)
        return tuple(tuple(counts[row, column] for column in names) for row in names)

    def _by_group(self, values: Numbers, *, shares: bool) -> Iterable[Group]:
        """By length in four groups of like size, then by every metadata column."""
        lengths = np.array(self.lengths)
        edges = np.unique(np.quantile(lengths, np.linspace(0, 1, QUARTERS + 1)).astype(int))
        for low, high in pairwise(edges):
            inside = (lengths >= low) & ((lengths < high) | (high == edges[-1]))
            yield _group(f"{low} to {high if high == edges[-1] else high - 1} words", values[inside], shares=shares)
        for name, places in sorted(self.groups.items(), key=lambda item: -len(item[1]))[:SHOWN]:
            yield _group(name, values[places], shares=shares)

    def _of_values(self) -> Performance:
        if not self.values:
            return Performance()
        given, predicted = np.array(self.values).T
        errors = np.abs(given - predicted)
        return Performance(
            error=_mean(errors),
            correlation=_correlation(given, predicted),
            groups=tuple(self._by_group(errors, shares=False)),
        )


def _group(name: str, values: Numbers, *, shares: bool) -> Group:
    return Group(name, share(values.sum(), len(values)) if shares else _mean(values))


def _mean(values: Numbers) -> Estimate:
    mean = Mean()
    for value in values:
        mean.add(float(value))
    return mean.estimate()


def _correlation(given: Numbers, predicted: Numbers) -> Estimate:
    """Pearson's, with the interval of Fisher's transformation."""
    texts = len(given)
    if texts < LEAST or given.std() == 0 or predicted.std() == 0:
        return Estimate(texts=texts)
    value = float(np.corrcoef(given, predicted)[0, 1])
    middle, reach = math.atanh(min(max(value, -1 + 1e-12), 1 - 1e-12)), 1.959964 / math.sqrt(texts - 3)
    return Estimate(value, math.tanh(middle - reach), math.tanh(middle + reach), texts)


def _places(confidence: Numbers) -> Numbers:
    bins: Numbers = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return bins


def _bins(confidence: Numbers, right: Numbers) -> Iterable[CalibrationBin]:
    places = _places(confidence)
    for number in range(BINS):
        inside = places == number
        if inside.any():
            mean = float(confidence[inside].mean()) if inside.sum() >= LEAST else None
            yield CalibrationBin(
                number / BINS, (number + 1) / BINS, mean, share(right[inside].sum(), int(inside.sum()))
            )


def _calibration_error(confidence: Numbers, right: Numbers) -> Estimate:
    """The mean distance of confidence and accuracy over bins, with a bootstrap over texts."""
    texts = len(right)
    if texts < LEAST:
        return Estimate(texts=texts)
    places, generator = _places(confidence), np.random.default_rng(0)
    gap = confidence - right

    def error(chosen: Indices) -> float:
        return float(np.abs(np.bincount(places[chosen], gap[chosen], BINS)).sum() / texts)

    rounds = np.array([error(generator.integers(texts, size=texts)) for _ in range(ROUNDS)])
    low, high = interval_of(rounds)
    value = error(np.arange(texts))
    return Estimate(value, min(low, value), max(high, value), texts)
