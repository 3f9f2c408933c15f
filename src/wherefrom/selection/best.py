"""The search of Optimus with methods of every family as candidates: which of them is the most faithful for one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wherefrom.case.case import Attribution, Case
from wherefrom.errors import BadOption, WherefromError
from wherefrom.grading.evidence import Evidence
from wherefrom.grading.grade import ConfiguredMetric, GradingTask, grade
from wherefrom.optimus.search import Aim, chosen, pooled, real_units, scores_of
from wherefrom.registry import Choice, Method, all_methods, choose

REPRESENTATIVE = ("optimus", "gradcam", "attcat", "integrated_gradients", "alti", "gae", "attn_lrp", "occlusion")
APART = ("selection", "floor")  # families that "all" leaves out: choosing itself, and scores that know nothing


@dataclass(frozen=True)
class Found:
    """The winner, what it gives each part of the text, and how it stands among the others: plain data."""

    name: str
    parts: Sequence[Attribution]
    report: dict[str, Any]


def candidates_of(asked: object) -> list[Choice[Method]]:
    """ "representative", "all", or methods as `name:option=value`, in a list or between commas."""
    if asked == "all":
        asked = [row.name for row in all_methods() if row.family not in APART]
    found = [
        choose("method", name) for name in _listed("candidates", REPRESENTATIVE if asked == "representative" else asked)
    ]
    for choice in found:
        if choice.row.family == "selection":
            raise BadOption(f"{choice.row.name} chooses among methods, so it is no candidate itself.")
    return found


def judges_of(asked: object, metric: ConfiguredMetric) -> list[ConfiguredMetric]:
    """The metrics that grade what another one chose; that one is left out."""
    found = [ConfiguredMetric.read(name) for name in _listed("judges", asked)]
    others = [judge for judge in found if judge.choice.row is not metric.choice.row]
    if not others:
        raise BadOption(f"What {metric.choice.asked} chooses is graded by another metric: name at least one in judges.")
    return others


def _listed(what: str, asked: object) -> list[str]:
    names = asked.split(",") if isinstance(asked, str) else asked
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise BadOption(f"{what} are names, in a list or between commas, not {asked!r}.")
    found = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    if not found:
        raise BadOption(f"Name at least one of the {what}.")
    return found


def find_best(
    parts: Sequence[Case], tried: Sequence[Choice[Method]], metric: ConfiguredMetric, judges: Sequence[ConfiguredMetric]
) -> Found:
    """Explain by every candidate, choose by the metric, and have the judges grade the winner and the runner-up."""
    given, failed = _explained(parts, tried)
    if not given:
        raise WherefromError(
            f"No candidate could explain this text. {'; '.join(f'{name}: {why}' for name, why in failed.items())}"
        )
    case, names = parts[0], list(given)
    aim = tuple(part.target for part in parts)
    weights = torch.stack([_total(one) for one in given.values()])  # (candidate, unit)
    scores = scores_of(case, weights, [aim], metric)  # (candidate,)
    first = chosen(scores, metric)
    falling = np.where(np.isnan(scores), np.inf, scores if metric.choice.row.better == "lower" else -scores)
    order = [first, *(int(place) for place in np.argsort(falling, kind="stable") if place != first)]
    verdicts = _judged(case, aim, weights[order[:2]], judges)
    grades = [
        [_plain(scores[place]), *(verdicts[rank] if rank < 2 else [None] * len(judges))]
        for rank, place in enumerate(order)
    ]
    report = {
        "by": metric.choice.asked,
        "chosen": names[first],
        "score": grades[0][0],
        "runner_up": names[order[1]] if len(order) > 1 else None,
        "runner_up_score": grades[1][0] if len(order) > 1 else None,
        "candidates": len(names),
        "equals": sum(grade[0] == grades[0][0] for grade in grades) - 1,  # others that are as good: the first was taken
        "metrics": [metric.choice.asked, *(judge.choice.asked for judge in judges)],
        "better": [metric.choice.row.better, *(judge.choice.row.better for judge in judges)],
        "grades": dict(zip((names[place] for place in order), grades, strict=True)),
        "failed": failed,
    }
    return Found(names[first], given[names[first]], report)


def _explained(
    parts: Sequence[Case], tried: Sequence[Choice[Method]]
) -> tuple[dict[str, list[Attribution]], dict[str, str]]:
    """Every candidate on every part; one that cannot explain this text is left out, and said so."""
    given: dict[str, list[Attribution]] = {}
    failed: dict[str, str] = {}
    for choice in tried:
        try:
            given[choice.asked] = [_attribution(part, choice) for part in parts]
        except WherefromError as error:
            failed[choice.asked] = str(error)
    return given, failed


def _attribution(case: Case, choice: Choice[Method]) -> Attribution:
    """What a method gives, by the units of the case."""
    given = choice.row(case, **choice.options)
    found = given if isinstance(given, Attribution) else Attribution(given)
    scores = found.scores.detach().double().cpu()
    if not bool(scores.isfinite().all()):
        raise WherefromError("its scores are not finite")
    if case.level != "token" and not choice.row.scores_units:
        scores = pooled(case, scores.sum(0) if scores.ndim == 2 else scores)
    return replace(found, scores=scores, signed=choice.row.signed if found.signed is None else found.signed)


def _total(parts: Sequence[Attribution]) -> Tensor:
    """The parts added up, and layers if there are any. (unit,)"""
    return torch.stack([part.scores.sum(0) if part.scores.ndim == 2 else part.scores for part in parts]).sum(0)


def _judged(case: Case, aim: Aim, weights: Tensor, judges: Sequence[ConfiguredMetric]) -> list[list[float | None]]:
    """(candidate, judge)"""
    special = ~real_units(case).numpy()
    jobs = [GradingTask(case.encoding, case.level, aim, case.logits, Evidence(row, special)) for row in weights.numpy()]
    asker = case.group.asker
    before = asker.rows
    grades = grade(jobs, judges, asker)
    case.asking.forwards += asker.rows - before
    return [[one.value for one in row] for row in grades]


def _plain(score: Any) -> float | None:
    return None if np.isnan(score) else float(score)
