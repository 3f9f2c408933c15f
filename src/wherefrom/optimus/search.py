"""The search of Optimus: the weights that every combination of attention operations gives one text, and how each of
them scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.core.arrays import Flags, Numbers
from wherefrom.core.target import Boundary, Target
from wherefrom.core.units import POOL
from wherefrom.errors import BadOption, NotDefined
from wherefrom.grading.evidence import Evidence
from wherefrom.grading.grade import ConfiguredMetric, GradingTask, fill_of, grade
from wherefrom.metrics.rft import Rft, rft
from wherefrom.optimus.combination import MATRICES, Combination, Raw, combinations
from wherefrom.optimus.operations import all_weights, unmasked, weights_of
from wherefrom.registry import all_metrics

Aim = tuple[Target, ...]  # what is explained, in its parts: an answer has two
Select = Literal["prime", "label", "batch"]
Choice = Literal["A", "A*", "both"]
Fallback = Literal["maximum", "baseline"]

_REDUCTIONS = (attrgetter("head"), attrgetter("layer"))
BITS = 20  # of a weight that count: what single precision has left after a model's layers
PREDICTED = 0.5  # from this probability on a label of a multi-label model is predicted


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
    aims: Sequence[Aim]  # what was searched for

    def report(self, best: int, metric: str, *, every: bool) -> dict[str, object]:
        """What was chosen among, as plain data; with every combination's score if asked for."""
        scores = [None if np.isnan(score) else score for score in self.scores.tolist()]  # JSON has no NaN
        found = {
            "by": metric,
            "chosen": str(self.combinations[best]),
            "score": scores[best],
            "baseline": str(self.combinations[0]),
            "baseline_score": scores[0],
            "candidates": len(scores),
            "labels": [" and ".join(dict.fromkeys(target.label for target in aim)) for aim in self.aims],
        }
        return {**found, "scores": self._table(scores)} if every else found

    def _table(self, scores: Sequence[float | None]) -> dict[str, object]:
        """For each kind of matrix its operations, and for each matrix operation the scores as (head, layer)."""
        by_place = dict(zip(self.combinations, scores, strict=True))
        found: dict[str, object] = {}
        for raw in dict.fromkeys(one.raw for one in self.combinations):
            heads, layers = (
                list(dict.fromkeys(of(one) for one in self.combinations if one.raw == raw)) for of in _REDUCTIONS
            )
            numbers = {o: [[by_place[Combination(raw, h, m, o)] for m in layers] for h in heads] for o in MATRICES}
            found[raw] = {"heads": heads, "layers": layers, "scores": numbers}
        return found


def search(case: Case, select: Select, raw: Choice, metric: ConfiguredMetric) -> Search:
    """Every combination's score on one text."""
    own = all_candidates(case, raw)
    aims = searched(case, select)
    others = (
        [all_candidates(other, raw).weights for other in case.together if other is not case] if len(aims[0]) > 1 else []
    )
    whole = own.weights + sum(others, torch.zeros_like(own.weights))
    return Search(own.combinations, own.weights, scores_of(case, whole, aims, metric), aims)


def all_candidates(case: Case, raw: Choice) -> Candidates:
    """All combinations on one text, from one recorded pass."""
    kinds: list[Raw] = ["A", "A*"] if raw == "both" else [raw]
    found: list[Combination] = []
    weights: list[Tensor] = []
    for kind in reversed(kinds):  # A* first: where its pass is made, A needs none of its own
        layers = matrices(case, kind)
        found[:0] = combinations(kind, len(layers), len(layers[0]))
        weights.insert(0, settled(case, all_weights(layers, case.row_read, kind)))
    return Candidates(found, torch.cat(weights))


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

    An answer's start and end are read at two positions and added up: each is scaled to a total of one, so that none
    drowns the other. Numbers that agree to a millionth of themselves are equal: the rows of a product of many layers
    differ by rounding alone, and so do rows' sums, which `to` gives where the decision reads all positions alike. A
    rank would take that for meaning. None becomes zero by it.
    """
    weights = pooled(case, weights)
    if isinstance(case.target, Boundary):
        total = weights[..., real_units(case)].abs().sum(-1, keepdim=True)
        weights = weights / total.masked_fill(total == 0, 1)
    mantissa, exponent = torch.frexp(weights)
    return torch.ldexp((mantissa * 2**BITS).round() / 2**BITS, exponent)


def pooled(case: Case, weights: Tensor) -> Tensor:
    """Tokens' weights as those of words (their sum) or sentences (their mean). (..., token) -> (..., unit)"""
    if case.level == "token":
        return weights
    share = case.units.cpu().to(weights.dtype)  # (unit, token)
    if POOL[case.level] == "mean":
        share = share / share.sum(-1, keepdim=True)
    return weights @ share.T


def real_units(case: Case) -> Tensor:
    """True for units that are not a special token. (unit,)"""
    return ~(case.units & case.special).any(-1).cpu()


def searched(case: Case, select: Select) -> list[Aim]:
    """What is explained, of which the mean score decides. Prime takes all predicted labels of a multi-label model, one
    after the other, and both ends of an answer, together.
    """
    target, model = case.target, case.model
    if select == "label":
        return [(target,)]
    if len(case.together) > 1 or not target.independent or target.versus is not None:
        return [tuple(one.target for one in case.together)]
    chances = case.logits.double().sigmoid()
    predicted: list[Aim] = [(model.target(label),) for label in (chances >= PREDICTED).nonzero().flatten().tolist()]
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


def faithfulness(metric: str) -> ConfiguredMetric:
    """A metric that can choose: one that asks the model, and needs nothing but the scores."""
    found = ConfiguredMetric.read(metric)
    if found.choice.row.needs is not None or not hasattr(found.metric, "questions"):
        known = [row.name for row in all_metrics() if row.needs is None and hasattr(row.function, "questions")]
        raise BadOption(
            f"{metric} does not ask the model, so it cannot say what is faithful. Choose by one of: {', '.join(known)}."
        )
    return found


def scores_of(
    case: Case, weights: Tensor, aims: Sequence[Aim], metric: ConfiguredMetric, *, rationale: Flags | None = None
) -> Numbers:
    """What the metric says of each weighting: the mean over the aims, NaN where it is not defined. (candidate, unit) ->
    (candidate,)
    """
    if isinstance(metric.metric, Rft):
        return _by_rft(case, weights, aims, metric)
    special = ~real_units(case).numpy()
    numbers = weights.numpy()
    tasks = [
        GradingTask(case.encoding, case.level, aim, case.logits, Evidence(row, special, rationale=rationale))
        for row in numbers
        for aim in aims
    ]
    asker = case.group.asker
    before = asker.rows
    grades = grade(tasks, [metric], asker)
    case.asking.forwards += asker.rows - before
    values = np.array([np.nan if one.value is None else one.value for (one,) in grades])
    found: Numbers = values.reshape(len(numbers), len(aims)).mean(-1)
    return found


def _by_rft(case: Case, weights: Tensor, aims: Sequence[Aim], metric: ConfiguredMetric) -> Numbers:
    """RFT hides one unit at a time, whatever the weights are: its questions are put once for all candidates, its ranks
    had by one sort.
    """
    numbers = weights[:, real_units(case)].numpy()
    fallen = effects(case, aims, fill_of(metric, case.model))
    found: Numbers = np.mean([rft(numbers, one, normalise=metric.metric.normalise) for one in fallen], 0)
    return found


def ask_together(cases: Sequence[Case], metric: ConfiguredMetric) -> None:
    """Put RFT's questions about several texts in full batches; whoever asks them afterwards finds the answers there."""
    if isinstance(metric.metric, Rft):
        asker = cases[0].group.asker
        for case in cases:
            asker.note(case.encoding, _one_hidden(case), fill_of(metric, case.model))
        asker.run()


def _one_hidden(case: Case) -> Tensor:
    """What is kept when one unit after the other is hidden. (real unit, token)"""
    return ~case.units[real_units(case).to(case.units.device)]


def effects(case: Case, aims: Sequence[Aim], fill: str) -> Numbers:
    """How far each aim's probability falls when one unit is hidden. (aim, unit)"""
    answers = case.answers(_one_hidden(case), fill)
    whole = case.logits[None]
    fallen = [_chance(aim, whole) - _chance(aim, answers) for aim in aims]
    return torch.stack(fallen).cpu().numpy()


def _chance(aim: Aim, logits: Tensor) -> Tensor:
    """Of all parts together."""
    return torch.stack([target.probability(logits) for target in aim]).prod(0)
