"""Which metrics the first table of a view has, where there are many."""

from __future__ import annotations

from collections.abc import Mapping

SHOWN_METRICS = 3


def main_metrics(questions: Mapping[str, str | None]) -> list[str]:
    """The first metric of each question that metrics put to the model, then others in their order, and last those that
    only describe scores.

    questions: the question of every metric; None where it asks nothing of the model.
    """
    first = {question: metric for metric, question in reversed(list(questions.items()))}
    later = {metric: 2 if question is None else first[question] != metric for metric, question in questions.items()}
    chosen = sorted(questions, key=lambda metric: later[metric])[:SHOWN_METRICS]
    return [metric for metric in questions if metric in chosen]
