"""Metrics of every generated token: the same questions as for any explanation, all steps answered by the same rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from wherefrom.case.generation import step_cases
from wherefrom.core.comparison import Grade
from wherefrom.core.encoding import Encoding
from wherefrom.core.generation import Generation
from wherefrom.errors import BadOption
from wherefrom.grading.evidence import Evidence
from wherefrom.grading.grade import ConfiguredMetric, GradingTask, grade
from wherefrom.model.text_model import TextModel


def grade_generation(
    model: TextModel, prompt: Encoding, generation: Generation, metrics: Sequence[ConfiguredMetric]
) -> list[list[Grade]]:
    """The grades of every generated token. (step, metric)

    Only tokens of the prompt are hidden; what was generated stays. So the rows that hide them serve all steps.
    """
    for metric in metrics:
        if metric.choice.row.needs is not None or metric.choice.row.wants_logits:
            raise BadOption(
                f"{metric.choice.asked} needs more than a generated token has: other classes, marks or models."
            )
    if prompt.tokens != generation.tokens:
        raise BadOption("The model reads other tokens in the prompt. Was it explained with another tokenizer?")
    with torch.inference_mode(False):
        passes, cases = step_cases(model, prompt, generation.token_ids, generation.versus_ids)
        tasks = [GradingTask.of([case], _evidence(generation, step)) for step, case in enumerate(cases)]
        return grade(tasks, metrics, passes.asker)


def _evidence(generation: Generation, step: int) -> Evidence:
    """The scores of one step. Generated tokens count as special, so that they are neither ranked nor hidden."""
    explanation = generation.step(step)
    later = len(generation.generated) - step
    padded = Evidence.of(explanation)
    scores = torch.tensor([*padded.scores, *[0.0] * later]).numpy()
    special = torch.tensor([*padded.special, *[True] * later]).numpy()
    return Evidence(scores, special)
