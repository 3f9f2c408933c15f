"""Which method is the most faithful for one text: every candidate explains it, one metric chooses, others judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wherefrom.case.case import Attribution, Case
from wherefrom.case.explain import INSIDE, attributions, unit_scores
from wherefrom.core.comparison import printed
from wherefrom.core.names import join_names, read_names
from wherefrom.errors import BadOption, WherefromError
from wherefrom.grading.choosing import without_twins
from wherefrom.grading.evidence import Evidence
from wherefrom.grading.grade import ConfiguredMetric, GradingTask, grade
from wherefrom.optimus.search import chosen, real_units, scores_of
from wherefrom.registry import Configured, Method, Reads, all_methods, choose, methods_in

NO_CANDIDATES = ("selection", "floor")  # families that "all" leaves out: choosing itself, and scores that know nothing
NAMED = 5  # equally good candidates that are named before the rest is counted


@dataclass(frozen=True)
class Winner:
    """The method that won, what it gives each component of the target, and its grades beside those of the others."""

    name: str
    components: Sequence[Attribution]
    report: dict[str, Any]  # plain data


def candidates_of(names_or_set: object) -> list[Configured[Method]]:
    """ "representative", "all", or methods as `name:option=value`, in a list or between commas."""
    if names_or_set == "all":
        names_or_set = [
            row.name for row in all_methods() if row.family not in NO_CANDIDATES and row.other_name() is None
        ]
    names = _names("candidates", methods_in("candidates") if names_or_set == "representative" else names_or_set)
    candidates = [choose("method", name) for name in names]
    for choice in candidates:
        if choice.row.family == "selection":
            raise BadOption(f"{choice.row.name} chooses among methods, so it is no candidate itself.")
    return without_twins(candidates)


def reads_of(options: Mapping[str, Any]) -> set[Reads]:
    """What all candidates together read."""
    reads: set[Reads] = {"answers"}
    for choice in candidates_of(options["candidates"]):
        reads |= choice.row.needs(choice.options)
    return reads


def judges_of(names: object, metric: ConfiguredMetric) -> list[ConfiguredMetric]:
    """The metrics that grade what another one chose; that one is left out."""
    judges = [ConfiguredMetric.read(name) for name in _names("judges", names)]
    others = [judge for judge in judges if judge.choice.row is not metric.choice.row]
    if not others:
        raise BadOption(f"What {metric.choice.asked} chooses is graded by another metric: name at least one in judges.")
    return others


def _names(what: str, value: object) -> list[str]:
    names = list(dict.fromkeys(read_names(value, what)))
    if not names:
        raise BadOption(f"Name at least one of the {what}.")
    return names


def find_best(
    cases: Sequence[Case],
    candidates: Sequence[Configured[Method]],
    metric: ConfiguredMetric,
    judges: Sequence[ConfiguredMetric],
) -> Winner:
    """Explain by every candidate, choose by the metric, and have the judges grade the winner and the runner-up.

    cases: one for every component of the target.
    """
    explained, failed = _explained(cases, candidates)
    if not explained:
        reasons = "; ".join(f"{name}: {why}" for name, why in failed.items())
        raise WherefromError(f"No candidate could explain this text. {reasons}")
    case, names = cases[0], list(explained)
    targets = tuple(component.target for component in cases)
    scores = torch.stack([_added_up(components) for components in explained.values()])  # (candidate, unit)
    values = scores_of(case, scores, [targets], metric)  # (candidate,)
    best = printed(values[chosen(values, metric)])
    equals = [place for place, value in enumerate(values) if not np.isnan(value) and printed(value) == best]
    cost = {choice.asked: _cost(choice) for choice in candidates}
    first = min(equals, key=lambda place: (cost[names[place]], place))
    falling = np.where(np.isnan(values), np.inf, values if metric.choice.row.better == "lower" else -values)
    rest = [int(place) for place in np.argsort(falling, kind="stable") if place != first]
    order = [first, *sorted(rest, key=lambda place: place not in equals)]
    judged = _judged(case, targets, scores[order[:2]], judges)
    grades = [
        [_or_none(values[place]), *(judged[rank] if rank < 2 else [None] * len(judges))]
        for rank, place in enumerate(order)
    ]
    report = {
        "by": metric.choice.asked,
        "chosen": names[first],
        "score": grades[0][0],
        "runner_up": names[order[1]] if len(order) > 1 else None,
        "runner_up_score": grades[1][0] if len(order) > 1 else None,
        "candidates": len(names),
        "equals": [names[place] for place in order[1:] if place in equals],  # as good, and none of them cheaper
        "metrics": [metric.choice.asked, *(judge.choice.asked for judge in judges)],
        "better": [metric.choice.row.better, *(judge.choice.row.better for judge in judges)],
        "grades": dict(zip((names[place] for place in order), grades, strict=True)),
        "failed": failed,
    }
    report["sentence"] = choice_in_words(report)
    return Winner(names[first], explained[names[first]], report)


def choice_in_words(report: Mapping[str, Any]) -> str:
    """Which candidate `best` took. Those whose grades are printed alike are equally good: none of them is a winner."""
    graded = f"{printed(report['score'])} by {report['by']}"
    if report["equals"]:
        names = [report["chosen"], *report["equals"]]
        are = join_names(names) if len(names) <= NAMED else f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
        return f"{are} are equally good ({graded}) among {report['candidates']}; shown: {names[0]}, the cheapest."
    beside = ""
    if report["runner_up_score"] is not None:
        beside = f"; the runner-up, {report['runner_up']}, has {printed(report['runner_up_score'])}"
    return f"{report['chosen']}: {graded}, chosen among {report['candidates']}{beside}."


def _cost(choice: Configured[Method]) -> tuple[bool, bool, bool]:
    """What a method needs beside a forward pass, the dearest first: hundreds of queries, queries, a backward pass."""
    needs = choice.row.needs(choice.options)
    return choice.row.slow, "answers" in needs, bool(needs & INSIDE)


def _explained(
    cases: Sequence[Case], candidates: Sequence[Configured[Method]]
) -> tuple[dict[str, list[Attribution]], dict[str, str]]:
    """Every candidate's scores by unit, for every component; and why some could not explain this text."""
    explained: dict[str, list[Attribution]] = {}
    failed: dict[str, str] = {}
    for choice in candidates:
        try:
            by_method = attributions(cases, choice.row, choice.options)
        except WherefromError as error:
            failed[choice.asked] = str(error)
            continue
        # Layers stay where they can: by token. `flow` would hold on to the case.
        by_unit = [
            attribution.scores if case.level == "token" else unit_scores(case, choice.row, attribution)
            for case, attribution in zip(cases, by_method, strict=True)
        ]
        explained[choice.asked] = [
            replace(attribution, scores=scores, flow=None)
            for attribution, scores in zip(by_method, by_unit, strict=True)
        ]
    return explained, failed


def _added_up(components: Sequence[Attribution]) -> Tensor:
    """The components added up, and layers if there are any. (unit,)"""
    return torch.stack(
        [
            attribution.scores.sum(0) if attribution.scores.ndim == 2 else attribution.scores
            for attribution in components
        ]
    ).sum(0)


def _judged(case: Case, targets: Any, scores: Tensor, judges: Sequence[ConfiguredMetric]) -> list[list[float | None]]:
    """(candidate, judge)"""
    special = ~real_units(case).numpy()
    jobs = [
        GradingTask(case.encoding, case.level, targets, case.logits, Evidence(row, special)) for row in scores.numpy()
    ]
    asker = case.passes.asker
    before = asker.rows
    grades = grade(jobs, judges, asker)
    case.own_count.forwards += asker.rows - before
    return [[result.value for result in row] for row in grades]


def _or_none(value: Any) -> float | None:
    """JSON has no NaN."""
    return None if np.isnan(value) else float(value)
