"""The search of Optimus: the weights that every combination of attention operations gives one text, and how each of them scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whence.core.case import Case
from whence.core.target import Boundary, Target
from whence.core.units import POOL
from whence.errors import BadOption
from whence.optimus.combination import MATRICES, Combination, Raw, combinations
from whence.optimus.operations import all_weights, unmasked, weights_of

Numbers = npt.NDArray[np.float64]
Select = Literal["prime", "label", "batch"]
Choice = Literal["A", "A*", "both"]
Fallback = Literal["maximum", "baseline"]

PREDICTED = 0.5  # from this probability on a label of a multi-label model is predicted


@dataclass(frozen=True, eq=False)
class Candidates:
    """Every combination and the weights it gives."""

    combinations: Sequence[Combination]
    weights: Tensor  # (combination, unit)


def all_candidates(case: Case, raw: Choice) -> Candidates:
    """All combinations on one text, from one recorded pass."""
    kinds: list[Raw] = ["A", "A*"] if raw == "both" else [raw]
    found: list[Combination] = []
    weights: list[Tensor] = []
    for kind in reversed(kinds):  # A* first: where its pass is made, A needs none of its own
        layers = matrices(case, kind)
        found[:0] = combinations(kind, len(layers), len(layers[0]))
        weights.insert(0, pooled(case, all_weights(layers, case.row_read, kind)))
    return Candidates(found, torch.cat(weights))


def matrices(case: Case, raw: Raw) -> list[Tensor]:
    """A or A* of every layer. (head, query, key)"""
    return [unmasked(layer) for layer in case.attention(scores=True)] if raw == "A*" else case.attention(scores=False)


def weights_by(case: Case, combination: Combination) -> Tensor:
    """What one combination gives each unit of the text. (unit,)"""
    layers = matrices(case, combination.raw)
    combination.check(len(layers), len(layers[0]))
    return pooled(case, weights_of(combination, layers, case.row_read))


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


def searched(case: Case, select: Select) -> list[Target]:
    """The targets whose mean score decides. Prime takes all predicted labels of a multi-label model together."""
    target, model = case.target, case.model
    if select == "label" or not target.independent or target.versus is not None or isinstance(target, Boundary):
        return [target]
    chances = case.logits.double().sigmoid()
    predicted = [model.target(label) for label in (chances >= PREDICTED).nonzero().flatten().tolist()]
    return predicted if target in predicted else [target]


def chosen(scores: Numbers, fallback: Fallback) -> int:
    """The best, the first of equals; with fallback "baseline" the first of all unless one is better than nothing (Algorithm 2)."""
    known = np.where(np.isnan(scores), -np.inf, scores)
    best = int(known.argmax())
    if not np.isfinite(known[best]):
        raise BadOption("The metric is not defined for any combination on this text, so there is nothing to choose by. Take another.")
    return 0 if fallback == "baseline" and not known[best] > 0 else best


def drops(case: Case, targets: Sequence[Target], fill: str) -> Numbers:
    """How far each target's probability falls when one unit is hidden: one pass over the units serves every combination. (target, unit)"""
    answers = case.answers(~case.units[real_units(case).to(case.units.device)], fill)
    whole = case.logits[None]
    fallen = [target.probability(whole) - target.probability(answers) for target in targets]
    return torch.stack(fallen).cpu().numpy()


def ranked(weights: Numbers) -> Numbers:
    """Ranks by size, the largest first; equals share the worst. (..., unit)"""
    size = np.abs(weights)
    order = np.argsort(-size, axis=-1, kind="stable")
    falling = np.take_along_axis(size, order, -1)
    count = size.shape[-1]
    last = np.ones(size.shape, dtype=bool)
    last[..., :-1] = falling[..., :-1] > falling[..., 1:]  # the last of its equals
    worst = np.where(last, np.arange(1, count + 1), count)
    worst = np.minimum.accumulate(worst[..., ::-1], -1)[..., ::-1]
    ranks = np.empty(size.shape)
    np.put_along_axis(ranks, order, worst, -1)
    return ranks


def rft(weights: Numbers, fallen: Numbers, *, normalise: bool = True) -> Numbers:
    """Ranked faithful truthfulness (Eqs. 2 and 3) of many weightings at once. (..., unit), (target, unit) -> (..., target)"""
    share = 1 / ranked(weights)
    found: Numbers = (np.sign(weights) * share) @ fallen.T - ((weights == 0) * share) @ np.abs(fallen).T
    return found / weights.shape[-1] if normalise else found


def scores_of(case: Case, weights: Tensor, targets: Sequence[Target], metric: str) -> Numbers:
    """How faithful each weighting is: the mean over the targets, higher is better. (candidate, unit) -> (candidate,)"""
    real = weights[:, real_units(case)].numpy()
    found: Numbers = rft(real, drops(case, targets, "unk")).mean(-1)
    return found


def table(found: Sequence[Combination], scores: Numbers) -> dict[str, object]:
    """The score of every combination as plain data: for each kind of matrix its operations and (matrix operation, head, layer)."""
    shown: dict[str, object] = {}
    for raw in dict.fromkeys(one.raw for one in found):
        places = [place for place, one in enumerate(found) if one.raw == raw]
        heads = list(dict.fromkeys(found[place].head for place in places))
        layers = list(dict.fromkeys(found[place].layer for place in places))
        numbers = scores[places].reshape(len(heads), len(layers), len(MATRICES)).transpose(2, 0, 1)
        shown[raw] = {"heads": heads, "layers": layers, "scores": dict(zip(MATRICES, numbers.tolist(), strict=True))}
    return shown
