"""The analyses of the Optimus paper (Mylonas et al. 2023) as functions on results.

Which operations win (Fig. 4), how RFT and the faithfulness score go with what people marked (Table 2), what time and
CO2 methods cost (Table 5, Fig. 7). What comes out is plain data, which `report.plots` draws.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import pearsonr, spearmanr

from wherefrom.api import Model
from wherefrom.benchmark.statistics import Energy
from wherefrom.case.case import Attribution, make_cases
from wherefrom.case.explain import explanation as explanation_of
from wherefrom.core.arrays import Numbers
from wherefrom.core.comparison import Comparison
from wherefrom.core.explanation import Explanation
from wherefrom.core.units import Level, Span
from wherefrom.errors import EmptyText, NotDefined, WherefromError
from wherefrom.grading.evidence import marked
from wherefrom.grading.grade import ConfiguredMetric
from wherefrom.optimus.combination import Combination
from wherefrom.optimus.search import RawChoice, all_candidates, scores_of, searched
from wherefrom.registry import find_method

MetricMeans = Mapping[str, Mapping[str, float]]  # method -> metric -> mean over texts


class OperationShares(NamedTuple):
    """Of all explanations, the share in which each operation won, the most frequent first."""

    heads: dict[str, float]
    layers: dict[str, float]
    matrices: dict[str, float]
    raw: dict[str, float]


def winning_operations(found: Iterable[Explanation | Combination]) -> OperationShares:
    """How often each operation wins: as Figure 4."""
    won = [one if isinstance(one, Combination) else _winner(one) for one in found]
    if not won:
        raise WherefromError("There is nothing to count: give at least one explanation by optimus, or one combination.")
    counts = (Counter(str(getattr(one, name)) for one in won) for name in ("head", "layer", "matrix", "raw"))
    return OperationShares(*({name: count / len(won) for name, count in one.most_common()} for one in counts))


def _winner(explanation: Explanation) -> Combination:
    found = Combination.read(str(explanation.params.get("winner", explanation.params.get("combination"))))
    if explanation.method != "optimus" or found is None:
        raise WherefromError(
            f"Only explanations by optimus have operations that won; this one is by {explanation.method}."
        )
    return found


class Correlation(NamedTuple):
    """How the means of two metrics correlate over methods."""

    pearson: float
    spearman: float
    methods: int  # how many there are


def mean_grades(comparisons: Iterable[Comparison]) -> dict[str, dict[str, float]]:
    """Each method's mean by each metric, over the texts where it is defined."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for comparison in comparisons:
        for name, grades in zip(comparison.names, comparison.grades, strict=True):
            for one in grades:
                if one.value is not None:
                    found[name][one.metric].append(one.value)
    return {
        name: {metric: float(np.mean(values)) for metric, values in by_metric.items()}
        for name, by_metric in found.items()
    }


def correlations(
    table: MetricMeans, metrics: Sequence[str] = ("faithfulness", "rft"), *, against: str = "auprc"
) -> dict[str, Correlation]:
    """How each metric's means go with those of another over the methods: as Table 2. Methods that lack one of the two
    are left out.
    """
    found = {}
    for metric in metrics:
        pairs = [(row[metric], row[against]) for row in table.values() if metric in row and against in row]
        if len(pairs) < 3:
            raise NotDefined(
                f"A correlation of {metric} with {against} needs at least three methods"
                f" that have both; there are {len(pairs)}."
            )
        one, other = np.array(pairs).T
        if not one.std() or not other.std():
            raise NotDefined(
                f"All methods have the same {metric if not one.std() else against}, so it correlates with nothing."
            )
        found[metric] = Correlation(float(pearsonr(one, other)[0]), float(spearmanr(one, other)[0]), len(pairs))
    return found


def grades_of_combinations(
    model: Model,
    texts: Sequence[tuple[str, Sequence[Span]]],
    *,
    metrics: Sequence[str] = ("rft", "faithfulness", "auprc"),
    raw: RawChoice = "A",
    level: Level = "token",
) -> dict[str, dict[str, float]]:
    """The mean grades of every combination of operations, each taken as a method of its own, as the paper does for
    Table 2.

    texts: with the spans of characters that people marked.
    """
    reader = model.text_model
    encodings = [reader.encode(text) for text, _ in texts]
    values: dict[str, list[Numbers]] = {metric: [] for metric in metrics}
    names: list[str] = []
    with torch.inference_mode(False):
        reads = find_method("optimus").needs({"raw": raw})
        for cases in make_cases(reader, encodings, [None] * len(encodings), level=level, reads=reads):
            for place, case in cases.items():
                found = all_candidates(case, raw)
                names = [str(one) for one in found.combinations]
                shown = explanation_of([case], find_method("optimus"), {}, [Attribution(found.weights[0])])
                spans = marked(shown, [texts[place][1]])
                for metric in metrics:
                    scores = scores_of(
                        case, found.weights, searched(case, "prime"), ConfiguredMetric.read(metric), rationale=spans
                    )
                    values[metric].append(scores)
    if not names:
        raise EmptyText("There is nothing to grade: give at least one text, with the spans that people marked.")
    means = {metric: np.nanmean(rows, 0) for metric, rows in values.items()}
    return {name: {metric: float(means[metric][place]) for metric in metrics} for place, name in enumerate(names)}


class MeanCost(NamedTuple):
    """The mean cost of one explanation."""

    seconds: float
    forwards: float
    backwards: float
    grams: float  # of CO2 equivalent
    texts: int


def as_printed(seconds: float) -> float:
    """The number that the paper's Table 5 prints under 'tCO2e' for so many seconds.

    It is their formula with seconds in the place of hours, and without the last division by 1000: a gram by `Energy` is
    3.6 there.
    """
    return 3.6 * Energy().grams(seconds)


def costs(explanations: Iterable[Explanation], energy: Energy | None = None) -> dict[str, MeanCost]:
    """Time, passes and CO2 equivalent of one explanation by each method: as Table 5. energy: the paper's assumptions
    unless given.
    """
    by_method: dict[str, list[Explanation]] = defaultdict(list)
    for one in explanations:
        by_method[one.method].append(one)
    found = {}
    for name, rows in by_method.items():
        seconds, forwards, backwards = (
            float(np.mean([getattr(one, what) for one in rows])) for what in ("seconds", "forwards", "backwards")
        )
        found[name] = MeanCost(seconds, forwards, backwards, (energy or Energy()).grams(seconds), len(rows))
    return found


def emissions(found: Mapping[str, MeanCost], texts: int = 100) -> dict[str, Numbers]:
    """Grams of CO2 equivalent after 0, 1, 2, ... texts, one line a method: as Figure 7."""
    return {name: np.arange(texts + 1, dtype=np.float64) * cost.grams for name, cost in found.items()}
