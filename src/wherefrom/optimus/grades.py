"""The grades of every combination of attention operations on one text, each taken as a method of its own."""

from __future__ import annotations

from collections.abc import Sequence

from wherefrom.case.case import Attribution, Case
from wherefrom.case.explain import explanation
from wherefrom.core.arrays import Numbers
from wherefrom.core.units import Span
from wherefrom.grading.evidence import marked
from wherefrom.grading.grade import ConfiguredMetric
from wherefrom.optimus.combination import Combination
from wherefrom.optimus.search import RawChoice, all_candidates, scores_of, searched
from wherefrom.registry import find_method


def grade_combinations(
    case: Case,
    metrics: Sequence[str] = ("rft",),
    *,
    raw: RawChoice = "A",
    all_labels: bool = True,
    rationale: Sequence[Sequence[Span]] | None = None,
) -> tuple[Sequence[Combination], dict[str, Numbers]]:
    """Grade every combination of attention operations on one text.

    Args:
        case: the text and its target, from `Model.cases`.
        metrics: names from `wherefrom metrics`.
        raw: attention after the softmax ("A"), before it ("A*"), or "both".
        all_labels: of a multi-label model, whether the grade is the mean over all predicted labels, or that of the
            case's target alone.
        rationale: for metrics that compare with what people marked, the spans of characters in the text and those in
            its pair.

    Returns:
        The combinations, and for every metric the grade of each, NaN where the metric is not defined.

    Example:
        ```python
        for place, case in model.cases(texts, reads=["answers", "head_attention"]):
            combinations, grades = grade_combinations(case, ["rft", "aopc"])
        ```
    """
    candidates = all_candidates(case, raw)
    flags = None
    if rationale is not None:
        units = explanation([case], find_method("optimus"), {}, [Attribution(candidates.weights[0])])
        flags = marked(units, rationale)
    targets = searched(case, "prime" if all_labels else "label")
    grades = {
        metric: scores_of(case, candidates.weights, targets, ConfiguredMetric.read(metric), rationale=flags)
        for metric in metrics
    }
    return candidates.combinations, grades
