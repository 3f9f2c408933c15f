"""The search of Optimus: the weights that every combination of attention operations gives one text, and how each of
them scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.core.arrays import Flags, Indices, Numbers
from wherefrom.core.target import Target, joint_probability
from wherefrom.errors import BadOption, NotDefined
from wherefrom.grading.evidence import Answers, Evidence
from wherefrom.grading.grade import (
    ConfiguredMetric,
    GradingTask,
    Questions,
    grade,
    note_questions,
    score_many,
    shared_questions,
)
from wherefrom.optimus.combination import MATRICES, Combination, Raw, combinations
from wherefrom.optimus.operations import all_weights, unmasked, weights_of
from wherefrom.optimus.stopping import EndedSearch, Slopes, Stop, ask_until_clear, step_of
from wherefrom.registry import Metric, all_metrics

TargetComponents = tuple[Target, ...]  # what is explained, in its parts: an answer has two
Select = Literal["prime", "label", "batch"]
RawChoice = Literal["A", "A*", "both"]
Fallback = Literal["maximum", "baseline"]

_REDUCTIONS = (attrgetter("head"), attrgetter("layer"))
BITS = 20  # of a weight that count: what single precision has left after a model's layers
LEAST_PROBABILITY = 0.5  # from this probability on a label of a multi-label model is predicted


@dataclass(frozen=True, eq=False)
class Candidates:
    """Every combination and the weights it gives."""

    combinations: Sequence[Combination]
    weights: Tensor  # (combination, unit)


@dataclass(frozen=True, eq=False)
class Search(Candidates):
    """The same with a score for each. Where an explanation has several parts, the weights are this part's, the scores
    the whole's.
    """

    scores: Numbers  # (combination,)
    targets: Sequence[TargetComponents]  # what was searched for
    queried: tuple[int, int] | None = None  # units that were asked, and all; None if all had to be

    @property
    def ended_early(self) -> bool:
        """Whether the scores are those of the units that were asked alone, and NaN for who was dropped."""
        return self.queried is not None and self.queried[0] < self.queried[1]

    def report(self, best: int, metric: str, *, every: bool) -> dict[str, object]:
        """What was chosen among, as plain data; with every combination's score if asked for."""
        # JSON has no NaN; and what some of the units say is no score that anybody could find again
        ended_early = self.ended_early
        scores = [None if ended_early or math.isnan(score) else score for score in self.scores.tolist()]
        report: dict[str, object] = {
            "by": metric,
            "chosen": str(self.combinations[best]),
            "score": scores[best],
            "baseline": str(self.combinations[0]),
            "baseline_score": scores[0],
            "candidates": len(scores),
            "labels": [" and ".join(dict.fromkeys(component.label for component in target)) for target in self.targets],
        }
        if self.queried is not None:
            report |= {"asked": self.queried[0], "units": self.queried[1]}
        return {**report, "scores": self._table(scores)} if every else report

    def _table(self, scores: Sequence[float | None]) -> dict[str, object]:
        """For each kind of matrix its operations, and for each matrix operation the scores as (head, layer)."""
        by_place = dict(zip(self.combinations, scores, strict=True))
        table: dict[str, object] = {}
        for raw in dict.fromkeys(combination.raw for combination in self.combinations):
            heads, layers = (
                list(dict.fromkeys(of(combination) for combination in self.combinations if combination.raw == raw))
                for of in _REDUCTIONS
            )
            numbers = {o: [[by_place[Combination(raw, h, m, o)] for m in layers] for h in heads] for o in MATRICES}
            table[raw] = {"heads": heads, "layers": layers, "scores": numbers}
        return table


def search(case: Case, select: Select, raw: RawChoice, metric: ConfiguredMetric, *, stop: Stop = "never") -> Search:
    """Every combination's score on one text; with early stopping, that of those which were left (see `stopping`)."""
    candidates = all_candidates(case, raw)
    targets = searched(case, select)
    others = (
        [all_candidates(other, raw).weights for other in case.component_cases if other is not case]
        if len(targets[0]) > 1
        else []
    )
    whole = candidates.weights + sum(others, torch.zeros_like(candidates.weights))
    ended = None if stop == "never" else _stopped(case, whole, targets, metric, stop)
    queried = None if ended is None else (int(ended.queried.sum()), len(ended.queried))
    if ended is None or ended.queried.all():  # then every answer is there, also for those that were dropped
        return Search(
            candidates.combinations, candidates.weights, scores_of(case, whole, targets, metric), targets, queried
        )
    return Search(candidates.combinations, candidates.weights, ended.totals, targets, queried)


def _stopped(
    case: Case, weights: Tensor, targets: Sequence[TargetComponents], metric: ConfiguredMetric, stop: Stop
) -> EndedSearch:
    """Ask about some units at a time, until it is clear which weighting is the best. (combination, unit)"""
    asker, before = case.passes.asker, case.passes.asker.rows
    asker.know(case.encoding, case.logits)
    keep = shared_questions(metric, _special_units(case))
    whole = [float(joint_probability(target, case.logits[None]).item()) for target in targets]

    def ask(units: Indices) -> Numbers:
        questions = note_questions(case.encoding, case.level, keep[units], metric, asker)
        asker.run()
        logits = questions.pending.logits
        return np.stack([questions.answers(metric, target, case.logits, logits).drops for target in targets])

    slopes = Slopes(*metric.metric.slopes(np.compress(~_special_units(case), weights.numpy(), axis=1)))
    ended = ask_until_clear(slopes, ask, stop=stop, whole=whole, step=step_of(len(keep), len(case.encoding)))
    case.own_count.forwards += asker.rows - before
    return ended


def all_candidates(case: Case, raw: RawChoice) -> Candidates:
    """All combinations on one text, from one recorded pass."""
    kinds: list[Raw] = ["A", "A*"] if raw == "both" else [raw]
    made: list[Combination] = []
    weights: list[Tensor] = []
    for kind in reversed(kinds):  # A* first: where its pass is made, A needs none of its own
        layers = matrices(case, kind)
        made[:0] = combinations(kind, len(layers), len(layers[0]))
        weights.insert(0, settled(case, all_weights(layers, case.row_read, kind)))
    return Candidates(made, torch.cat(weights))


def matrices(case: Case, raw: Raw) -> list[Tensor]:
    """A or A* of every layer. (head, query, key)"""
    return [unmasked(layer) for layer in case.attention(scores=True)] if raw == "A*" else case.attention(scores=False)


def weights_by(case: Case, combination: Combination) -> Tensor:
    """What one combination gives each unit of the text. (unit,)"""
    layers = matrices(case, combination.raw)
    combination.check(len(layers), len(layers[0]))
    return settled(case, weights_of(combination, layers, case.row_read))


def settled(case: Case, weights: Tensor) -> Tensor:
    """Tokens' weights as they are ranked and shown. (..., token) -> (..., unit)

    A word's weight is the sum of its tokens', a sentence's their mean, as in the paper.

    An answer's start and end are read at two positions and added up: each is scaled to a total of one, so that none
    drowns the other. Numbers that agree to a millionth of themselves are equal: the rows of a product of many layers
    differ by rounding alone, and so do rows' sums, which `to` gives where the decision reads all positions alike. A
    rank would take that for meaning. None becomes zero by it.
    """
    if case.level != "token":
        share = case.units.cpu().to(weights.dtype)  # (unit, token)
        weights = weights @ (share / share.sum(-1, keepdim=True) if case.level == "sentence" else share).T
    if case.target.position is not None:
        total = weights[..., real_units(case)].abs().sum(-1, keepdim=True)
        weights = weights / total.masked_fill(total == 0, 1)
    mantissa, exponent = torch.frexp(weights)
    return torch.ldexp((mantissa * 2**BITS).round() / 2**BITS, exponent)


def real_units(case: Case) -> Tensor:
    """True for units that are not a special token. (unit,)"""
    return ~(case.units & case.special).any(-1).cpu()


def searched(case: Case, select: Select) -> list[TargetComponents]:
    """What is explained, of which the mean score decides. Prime takes all predicted labels of a multi-label model, one
    after the other, and both ends of an answer, together.
    """
    target, model = case.target, case.model
    if select == "label":
        return [(target,)]
    if len(case.components) > 1 or not target.independent or target.versus is not None:
        return [case.components]
    chances = case.logits.double().sigmoid()
    predicted: list[TargetComponents] = [
        (model.target(label),) for label in (chances >= LEAST_PROBABILITY).nonzero().flatten().tolist()
    ]
    return predicted if (target,) in predicted else [(target,)]


def chosen(scores: Numbers, metric: ConfiguredMetric, fallback: Fallback = "maximum") -> int:
    """The best, the first of equals; with fallback "baseline" the first of all unless one is better than nothing
    (Algorithm 2).
    """
    higher = metric.choice.row.better == "higher"
    if fallback == "baseline" and not higher:
        raise BadOption(
            "fallback=baseline is for metrics that are above zero when good;"
            f" {metric.choice.asked} is better when lower."
        )
    known = np.where(np.isnan(scores), -np.inf, scores if higher else -scores)
    best = int(known.argmax())
    if not np.isfinite(known[best]):
        raise NotDefined(
            f"{metric.choice.asked} is not defined for anything on this text, so"
            " nothing can be chosen by it. Take another."
        )
    return 0 if fallback == "baseline" and not known[best] > 0 else best


def check_stop(stop: Stop, metric: ConfiguredMetric, fallback: Fallback, *, all_scores: bool, regression: bool) -> None:
    """Raise where a search cannot end before every unit was asked."""
    if stop == "never":
        return
    if not hasattr(metric.metric, "slopes"):
        raise BadOption(
            f"stop={stop} is for metrics that add up what every unit brings by itself, as rft does;"
            f" {metric.choice.asked} does not. Leave stop away, or take metric=rft."
        )
    if all_scores or fallback == "baseline":
        option = "all_scores" if all_scores else "fallback=baseline"
        raise BadOption(f"{option} needs the score of every unit, so nothing can be left out. Leave stop={stop} away.")
    if regression and stop == "certain":
        raise BadOption("stop=certain needs probabilities: the values of a regression model have no bounds.")


def faithfulness(metric: str) -> ConfiguredMetric:
    """A metric that can choose: one that hides words, and needs nothing but the scores."""
    configured = ConfiguredMetric.read(metric)
    if not _can_choose(configured.choice.row):
        known = [row.name for row in all_metrics() if _can_choose(row)]
        raise BadOption(
            f"{metric} does not hide words, so it cannot choose what is faithful. Take one of: {', '.join(known)}."
        )
    return configured


def _can_choose(row: Metric) -> bool:
    return row.asks and row.needs is None


def scores_of(
    case: Case,
    weights: Tensor,
    targets: Sequence[TargetComponents],
    metric: ConfiguredMetric,
    *,
    rationale: Flags | None = None,
) -> Numbers:
    """The metric's value of each weighting: the mean over the targets, NaN where it is not defined.
    (candidate, unit) -> (candidate,)
    """
    asker, numbers = case.passes.asker, weights.numpy()
    before = asker.rows
    if metric.choice.row.grades_many:
        values = _graded_together(case, numbers, targets, metric)
    else:
        values = _graded_one_by_one(case, numbers, targets, metric, rationale)
    case.own_count.forwards += asker.rows - before
    means: Numbers = values.mean(0)
    return means


def _graded_one_by_one(
    case: Case, weights: Numbers, targets: Sequence[TargetComponents], metric: ConfiguredMetric, rationale: Flags | None
) -> Numbers:
    """Every weighting is an explanation with questions of its own. (candidate, unit) -> (target, candidate)"""
    special = _special_units(case)
    tasks = [
        GradingTask(case.encoding, case.level, target, case.logits, Evidence(row, special, rationale=rationale))
        for target in targets
        for row in weights
    ]
    grades = grade(tasks, [metric], case.passes.asker)
    values = np.array([np.nan if result.value is None else result.value for (result,) in grades])
    return values.reshape(len(targets), len(weights))


def _graded_together(
    case: Case, weights: Numbers, targets: Sequence[TargetComponents], metric: ConfiguredMetric
) -> Numbers:
    """One set of questions serves all weightings, and the metric scores them in one call. (candidate, unit) -> (target,
    candidate)
    """
    try:
        answers = shared_answers(case, targets, metric)
    except NotDefined:
        return np.full((len(targets), len(weights)), np.nan)
    scores = np.compress(~_special_units(case), weights, axis=1)  # rows stay contiguous: metrics sum over units
    return np.stack([score_many(scores, metric, answer) for answer in answers])


def shared_answers(case: Case, targets: Sequence[TargetComponents], metric: ConfiguredMetric) -> list[Answers]:
    """The model's answers to the questions that serve all weightings of a text, towards each target."""
    asker = case.passes.asker
    asker.know(case.encoding, case.logits)
    questions = _questions(case, metric)
    asker.run()
    logits = questions.pending.logits  # once for all targets
    return [questions.answers(metric, target, case.logits, logits) for target in targets]


def announce_questions(case: Case, metric: ConfiguredMetric) -> None:
    """Note what is asked about a text, where that is known before the candidates are."""
    if metric.choice.row.grades_many:
        with suppress(NotDefined):  # said when this text is searched
            _questions(case, metric)


def ask_together(cases: Sequence[Case], metric: ConfiguredMetric) -> None:
    """Put the questions about several texts in full batches: whoever asks them afterwards finds the answers there."""
    for case in cases:
        announce_questions(case, metric)
    cases[0].passes.asker.run()


def _questions(case: Case, metric: ConfiguredMetric) -> Questions:
    """The questions that serve all weightings of a text, noted for the asker's next run."""
    keep = shared_questions(metric, _special_units(case))
    return note_questions(case.encoding, case.level, keep, metric, case.passes.asker)


def _special_units(case: Case) -> Flags:
    """(unit,)"""
    special: Flags = ~real_units(case).numpy()
    return special
