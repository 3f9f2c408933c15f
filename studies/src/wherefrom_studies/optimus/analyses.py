"""The analyses of the Optimus paper (Mylonas et al. 2023) as functions on results.

Which operations win (Fig. 4), how RFT and the faithfulness score go with what people marked (Table 2), what time and
CO2 methods cost (Table 5, Fig. 7). What comes out is plain data, which `report.plots` draws.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import rankdata

from wherefrom import Explanation, Model, find_method
from wherefrom.errors import BadOption, EmptyText, WherefromError
from wherefrom.optimus import Combination, RawChoice, grade_combinations
from wherefrom.statistics import Energy
from wherefrom.typing import Level, Numbers, Span, Target, TextOrPair
from wherefrom_studies.claims import Estimate, Statistic, estimate


class OperationShares(NamedTuple):
    """Of all explanations, the share in which each operation won, the most frequent first."""

    heads: dict[str, float]
    layers: dict[str, float]
    matrices: dict[str, float]
    raw: dict[str, float]


def winning_operations(winners: Iterable[Explanation | Combination]) -> OperationShares:
    """How often each operation wins: as Figure 4."""
    won = [winner if isinstance(winner, Combination) else _winner(winner) for winner in winners]
    if not won:
        raise WherefromError("There is nothing to count: give at least one explanation by optimus, or one combination.")
    counts = (
        Counter(str(getattr(combination, name)) for combination in won) for name in ("head", "layer", "matrix", "raw")
    )
    return OperationShares(*({name: count / len(won) for name, count in counter.most_common()} for counter in counts))


def _winner(explanation: Explanation) -> Combination:
    combination = Combination.read(str(explanation.params.get("winner", explanation.params.get("combination"))))
    if explanation.method != "optimus" or combination is None:
        raise WherefromError(
            f"Only explanations by optimus have operations that won; this one is by {explanation.method}."
        )
    return combination


Marked = Sequence[Span] | tuple[Sequence[Span], Sequence[Span]] | Mapping[str, Any]


class CombinationGrades(NamedTuple):
    """What every combination of operations is worth on every text."""

    names: list[str]
    values: dict[str, Numbers]  # metric -> (text, combination), NaN where it is not defined

    def means(self) -> dict[str, dict[str, float]]:
        """combination -> metric -> mean over texts."""
        with warnings.catch_warnings():  # a combination may have no value on any text
            warnings.filterwarnings("ignore", message="Mean of empty slice")
            means = {metric: np.nanmean(rows, 0) for metric, rows in self.values.items()}
        return {name: {metric: float(means[metric][at]) for metric in means} for at, name in enumerate(self.names)}

    def correlation(self, metric: str, *, against: str = "auprc", ranks: bool = False) -> Estimate | None:
        """How the means of a metric go with those of another over combinations, with its interval over texts."""
        return estimate([self.table(metric, against)], correlation_of(ranks=ranks), rounds=500)

    def table(self, *metrics: str) -> Numbers:
        """The values of several metrics beside each other. (text, metric and combination)"""
        return np.concatenate([self.values[metric] for metric in metrics], 1)


def correlation_of(first: int = 0, *, ranks: bool = False, last: int = 1, parts: int = 2) -> Statistic:
    """Pearson's or Spearman's correlation over combinations of two of the metrics of `CombinationGrades.table`; the
    mean over data sets.
    """

    def correlation(means: Sequence[Numbers]) -> float:
        values = []
        for row in means:
            by_metric = row.reshape(parts, -1)
            first_values, last_values = by_metric[first], by_metric[last]
            known = ~(np.isnan(first_values) | np.isnan(last_values))
            first_values, last_values = first_values[known], last_values[known]
            if ranks:
                first_values, last_values = rankdata(first_values), rankdata(last_values)
            flat = len(first_values) < 3 or not first_values.std() or not last_values.std()
            values.append(float("nan") if flat else float(np.corrcoef(first_values, last_values)[0, 1]))
        return float(np.mean(values))

    return correlation


def combination_grades(
    model: Model,
    texts: Sequence[tuple[TextOrPair, Marked]],
    *,
    metrics: Sequence[str] = ("rft", "faithfulness", "auprc"),
    raw: RawChoice = "A",
    level: Level = "token",
) -> CombinationGrades:
    """The grades of every combination of operations, each taken as a method of its own, as the paper does for Table 2.

    Args:
        model: what is explained is the label that it predicts.
        texts: texts or pairs with what people marked: spans of characters; for pairs two lists, one for each text; or
            these by label. By label, every predicted label that somebody marked is explained on its own, and a text
            counts once, by their mean; a text without such a label is left out.
        metrics: each one's value for every text and combination.
        raw: attention after the softmax (A), before it (A*), or both.
        level: token, word or sentence.
    """
    reader = model.text_model
    queries: list[tuple[int, Target | None, tuple[Sequence[Span], Sequence[Span]]]] = []
    for place, (text, marks) in enumerate(texts):
        if isinstance(marks, Mapping):
            queries += [
                (place, reader.target(label), _two(text, marks[label]))
                for label in model.predicted(text)
                if marks.get(label)
            ]
        else:
            queries.append((place, None, _two(text, marks)))
    both = [texts[place][0] for place, _, _ in queries]
    values: dict[str, dict[int, list[Numbers]]] = {metric: defaultdict(list) for metric in metrics}
    names: list[str] = []
    with torch.inference_mode(False):
        reads = find_method("optimus").needs({"raw": raw})
        for at, case in model.cases(both, [target for _, target, _ in queries], level=level, reads=reads):
            place, target, spans = queries[at]
            combinations, grades = grade_combinations(
                case, metrics, raw=raw, all_labels=target is None, rationale=spans
            )
            names = [str(combination) for combination in combinations]
            for metric in metrics:
                values[metric][place].append(grades[metric])
    if not names:
        raise EmptyText("There is nothing to grade: give at least one text, with the spans that people marked.")
    order = sorted({place for place, _, _ in queries})
    return CombinationGrades(
        names, {metric: np.array([np.mean(rows[place], 0) for place in order]) for metric, rows in values.items()}
    )


def _two(text: TextOrPair, marks: Any) -> tuple[Sequence[Span], Sequence[Span]]:
    """The spans in a text, and those in its pair."""
    if isinstance(text, str):
        return marks, ()
    if len(marks) != 2 or any(len(part) and not isinstance(part[0], Sequence) for part in marks):
        raise BadOption("What was marked in a pair is two lists of spans: one for each of its texts.")
    return marks[0], marks[1]


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
    for explanation in explanations:
        by_method[explanation.method].append(explanation)
    means = {}
    for name, rows in by_method.items():
        seconds, forwards, backwards = (
            float(np.mean([getattr(explanation, what) for explanation in rows]))
            for what in ("seconds", "forwards", "backwards")
        )
        means[name] = MeanCost(seconds, forwards, backwards, (energy or Energy()).grams(seconds), len(rows))
    return means


def emissions(costs: Mapping[str, MeanCost], texts: int = 100) -> dict[str, Numbers]:
    """Grams of CO2 equivalent after 0, 1, 2, ... texts, one line a method: as Figure 7."""
    return {name: np.arange(texts + 1, dtype=np.float64) * cost.grams for name, cost in costs.items()}
