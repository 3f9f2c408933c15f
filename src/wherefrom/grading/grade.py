"""Grading explanations: the questions of all metrics about all explanations are collected, asked together, and
scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from wherefrom.case.asking import Asked, Asker, Progress
from wherefrom.case.case import Case
from wherefrom.core.comparison import Grade
from wherefrom.core.encoding import Encoding
from wherefrom.core.target import Target
from wherefrom.core.units import Level
from wherefrom.errors import MissingToken, NotDefined
from wherefrom.grading.evidence import Evidence, Measured
from wherefrom.model.text_model import TextModel
from wherefrom.registry import Choice, Metric, choose


@dataclass(frozen=True)
class GradingTask:
    """An explanation to grade: whose text it is, what it explains (in parts, as an answer's start and end), what
    metrics may see of it.
    """

    encoding: Encoding
    level: Level
    targets: Sequence[Target]
    logits: Tensor  # with the whole text
    evidence: Evidence

    @classmethod
    def of(cls, cases: Sequence[Case], evidence: Evidence) -> GradingTask:
        """Of one text's cases, which it does not hold on to: they keep whole passes in memory."""
        case = cases[0]
        return cls(case.encoding, case.level, [one.target for one in cases], case.logits, evidence)


@dataclass(frozen=True)
class ConfiguredMetric:
    """A metric with its options, ready to be used."""

    choice: Choice[Metric]
    metric: Any  # an instance of the metric's class

    @classmethod
    def read(cls, asked: str) -> ConfiguredMetric:
        choice = choose("metric", asked)
        return cls(choice, choice.row.function(**choice.options))

    @property
    def insists(self) -> bool:
        """Whether the fill was asked for, so that no other may stand in for it."""
        return "fill=" in self.choice.asked


def grade(
    tasks: Sequence[GradingTask], metrics: Sequence[ConfiguredMetric], asker: Asker, progress: Progress | None = None
) -> list[list[Grade]]:
    """One grade for every task and metric. (task, metric)"""
    for task in tasks:
        asker.know(task.encoding, task.logits)
    noted = [[_collect_questions(task, chosen, asker) for chosen in metrics] for task in tasks]
    asker.run(progress)
    return [
        [_grade(task, chosen, *found) for chosen, found in zip(metrics, row, strict=True)]
        for task, row in zip(tasks, noted, strict=True)
    ]


def _collect_questions(
    task: GradingTask, chosen: ConfiguredMetric, asker: Asker
) -> tuple[Asked | None, str | None, str]:
    """The questions, how tokens are hidden in them, and why there are none where the metric is not defined."""
    if not hasattr(chosen.metric, "questions"):
        return None, None, ""
    try:
        keep = chosen.metric.questions(task.evidence)
    except NotDefined as error:
        return None, None, str(error)
    fill = fill_of(chosen, asker.model)
    units = np.empty(len(task.encoding), dtype=np.int64)  # of each token
    for number, members in enumerate(task.encoding.members(task.level)):
        units[list(members)] = number
    return asker.note(task.encoding, keep[:, units], fill), fill, ""


def fill_of(chosen: ConfiguredMetric, model: TextModel) -> str:
    """The metric's fill; the usual one of a tokenizer that lacks it, unless it was asked for."""
    fill: str = chosen.metric.fill
    if fill == "delete" or chosen.insists:
        return fill
    try:
        model.filler(fill)
    except MissingToken:
        return model.usual_fill()
    return fill


def _grade(task: GradingTask, chosen: ConfiguredMetric, asked: Asked | None, fill: str | None, why: str) -> Grade:
    row = chosen.choice.row
    value: float | None = None
    details: dict[str, object] = {}
    if not why:
        whole = float(np.prod([target.probability(task.logits[None]).item() for target in task.targets]))
        try:
            found = chosen.metric.score(
                task.evidence, whole, np.zeros(0) if asked is None else asked.probability(task.targets)
            )
        except NotDefined as error:
            why = str(error)
        else:
            measured = found if isinstance(found, Measured) else Measured(found)
            value, details = measured.value, dict(measured.details)
            if not np.isfinite(value):
                value, why = None, "the result is not a finite number"
    if fill is not None and fill != chosen.metric.fill:
        details["instead_of"] = chosen.metric.fill
    return Grade(chosen.choice.asked, value, row.better, fill, why, details)
