"""Grading explanations: the questions of all metrics about all explanations are collected, asked together, and
scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wherefrom.case.asking import Asker, PendingAnswers, Progress
from wherefrom.case.case import Case
from wherefrom.case.spread import PendingSpread, note_spread
from wherefrom.core.arrays import Flags, Numbers
from wherefrom.core.comparison import Grade
from wherefrom.core.encoding import Encoding
from wherefrom.core.masks import token_masks
from wherefrom.core.target import Target, joint_probability
from wherefrom.core.units import Level
from wherefrom.errors import BadOption, MissingToken, ModelFailed, NotDefined
from wherefrom.grading.evidence import Answers, Evidence, Measured
from wherefrom.model.hiding import SAMPLE, fill_in_place, fill_token
from wherefrom.model.text_model import TextModel
from wherefrom.registry import Configured, Metric, choose

SINGLE_PRECISION = 1e-6  # of a value: what single precision cannot tell apart


@dataclass(frozen=True)
class GradingTask:
    """One explanation to grade: its text, what it explains, and what metrics may see of it.

    targets: several where the explanation has parts, as the start and the end of an answer; their probabilities are
        multiplied.
    """

    encoding: Encoding
    level: Level
    targets: Sequence[Target]
    logits: Tensor  # with the whole text
    evidence: Evidence

    @classmethod
    def of(cls, cases: Sequence[Case], evidence: Evidence) -> GradingTask:
        """Of one text's cases. It keeps no reference to them, because they hold whole forward passes in memory."""
        case = cases[0]
        return cls(case.encoding, case.level, [component.target for component in cases], case.logits, evidence)


@dataclass(frozen=True)
class ConfiguredMetric:
    """A metric with its options, ready to be used."""

    choice: Configured[Metric]
    metric: Any  # an instance of the metric's class

    @classmethod
    def read(cls, text: str) -> ConfiguredMetric:
        """From `name:option=value:...`."""
        choice = choose("metric", text)
        return cls(choice, choice.row.function(**choice.options))

    @property
    def insists(self) -> bool:
        """Whether the user named the fill, so that no other may replace it."""
        return "fill=" in self.choice.asked


@dataclass(frozen=True, eq=False)
class Questions:
    """A metric's questions about one text, noted with the asker; they have answers once it ran."""

    pending: PendingAnswers
    keep: Flags  # (question, unit)
    fill: str | None  # how tokens are hidden; None where parts of their vectors are
    spread: PendingSpread | None = None  # what a regression model's values are measured in

    def answers(
        self, metric: ConfiguredMetric, targets: Sequence[Target], whole: Tensor, logits: Tensor | None = None
    ) -> Answers:
        """What the metric is given.

        whole: the logits of the whole text. logits: those of the questions, where the caller has them already; without
            them the probabilities come from the asker, which computes a target's for all of its rows at once.
        """
        probabilities = self.pending.probability(targets) if logits is None else _probability(targets, logits)
        every = None
        if metric.choice.row.wants_logits:
            rows = [whole[None]]
            if len(self.keep):
                rows.append(self.pending.logits if logits is None else logits)
            every = torch.cat(rows).detach().double().cpu().numpy()
        chance = float(_probability(targets, whole[None])[0])
        regression = self.spread is not None
        if self.spread is not None:
            unit = self.spread.of(targets)
            if not unit > SINGLE_PRECISION * max(1.0, abs(chance)):
                raise NotDefined("the model's value does not move when words are hidden, so it has no spread")
            chance, probabilities = chance / unit, probabilities / unit
        return Answers(chance, probabilities, self.keep, every, targets[0].independent, regression)


def _probability(targets: Sequence[Target], logits: Tensor) -> Numbers:
    """Of all parts of a target together. (row, class) -> (row,)"""
    probability: Numbers = joint_probability(targets, logits).cpu().numpy()
    return probability


def grade(
    tasks: Sequence[GradingTask],
    metrics: Sequence[ConfiguredMetric],
    asker: Asker,
    progress: Progress | None = None,
) -> list[list[Grade]]:
    """One grade for every task and metric. (task, metric)"""
    for task in tasks:
        asker.know(task.encoding, task.logits)
    collected = [[_collect_questions(task, metric, asker) for metric in metrics] for task in tasks]
    asker.run(progress)
    return [
        [_grade(task, metric, questions) for metric, questions in zip(metrics, row, strict=True)]
        for task, row in zip(tasks, collected, strict=True)
    ]


def _collect_questions(task: GradingTask, metric: ConfiguredMetric, asker: Asker) -> Questions | NotDefined | None:
    """The questions of one metric about one explanation: none, or the reason why it is not defined."""
    if not metric.choice.row.asks:
        return None
    try:
        keep = metric.metric.questions(task.evidence)
        return note_questions(task.encoding, task.level, keep, metric, asker)
    except NotDefined as error:
        return error


def note_questions(encoding: Encoding, level: Level, keep: Flags, metric: ConfiguredMetric, asker: Asker) -> Questions:
    """Note what is kept of the units of a text for the asker's next run, as what is kept of its tokens."""
    if metric.choice.row.soft:
        if asker.model.network.facts.only_answers:
            raise NotDefined("the model is a function of texts, and has no word vectors to drop elements of")
        shares = np.asarray(token_masks(keep, encoding.members(level), len(encoding)), dtype=np.float64)
        return Questions(asker.note_soft(encoding, shares), keep > 0, None, note_spread(encoding, asker))
    fill = fill_of(metric, asker.model)
    tokens = token_masks(keep, encoding.members(level), len(encoding))
    return Questions(asker.note(encoding, tokens, fill), keep, fill, note_spread(encoding, asker))


def fill_of(metric: ConfiguredMetric, model: TextModel) -> str:
    """The metric's fill; if the tokenizer lacks that token and the user did not name it, the model's usual one."""
    fill = fill_in_place(model, metric.metric.fill)
    if fill in ("delete", SAMPLE) or metric.insists:
        return fill
    try:
        fill_token(model, fill)
    except MissingToken:
        return model.hiding.usual_fill()
    return fill


def _grade(task: GradingTask, metric: ConfiguredMetric, questions: Questions | NotDefined | None) -> Grade:
    row = metric.choice.row
    fill = questions.fill if isinstance(questions, Questions) else None
    value: float | None = None
    why = ""
    details: dict[str, object] = {}
    try:
        measured = _measured(task, metric, questions)
    except (NotDefined, ModelFailed) as error:  # the model may have no answer to a question about the text
        why = str(error)
    else:
        value, details = measured.value, dict(measured.details)
        if not np.isfinite(value):
            value, why = None, "the result is not a finite number"
    if fill is not None and fill != metric.metric.fill:
        details["instead_of"] = metric.metric.fill
    return Grade(metric.choice.asked, value, row.better, fill, why, details, row.group)


def _measured(task: GradingTask, metric: ConfiguredMetric, questions: Questions | NotDefined | None) -> Measured:
    if isinstance(questions, NotDefined):
        raise questions
    if questions is None:
        value = metric.metric.score(task.evidence)
    else:
        value = metric.metric.score(task.evidence, questions.answers(metric, task.targets, task.logits))
    return value if isinstance(value, Measured) else Measured(value)


def shared_questions(metric: ConfiguredMetric, special: Flags) -> Flags:
    """The questions of a metric with `score_many`, which serve every explanation of one text. (question, unit)

    They may not depend on the scores. That is checked with two opposite rankings, since otherwise most candidates
    would be graded by the answers to another candidate's questions.
    """
    rising = np.arange(len(special), dtype=np.float64)
    keep: Flags = metric.metric.questions(Evidence(rising, special))
    if not np.array_equal(keep, metric.metric.questions(Evidence(-rising, special))):
        raise BadOption(
            f"{metric.choice.row.name} has score_many, so one set of questions must serve all explanations of a text,"
            " but its questions depend on the scores. Remove score_many from its class."
        )
    return keep


def score_many(scores: Numbers, metric: ConfiguredMetric, answers: Answers) -> Numbers:
    """What a metric with `score_many` says of many explanations of one text; NaN where it is not defined. (candidate,
    real unit) -> (candidate,)
    """
    try:
        values: Numbers = np.asarray(metric.metric.score_many(scores, answers), dtype=np.float64)
    except NotDefined:
        return np.full(len(scores), np.nan)
    if values.shape != (len(scores),):
        raise BadOption(
            f"score_many of {metric.choice.row.name} was given {len(scores)} explanations and must return one number"
            f" for each, but returned an array of shape {values.shape}."
        )
    return np.where(np.isfinite(values), values, np.nan)
