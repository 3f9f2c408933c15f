"""Best: the explanation by whichever method is the most faithful for this text, with grades by measures that did not
choose it.

candidates: "representative", some of every family; "all"; or methods as `alti:norm=l2`, in a list or between commas.
metric: what chooses, any metric that hides words. judges: what also grades the winner and the runner-up. A method that
    hides the same words as
the metric, as occlusion does, can be good by it without being good: that is what judges are for.
"""

from __future__ import annotations

from wherefrom.case.case import Attribution, Case
from wherefrom.optimus.search import faithfulness
from wherefrom.registry import method
from wherefrom.selection.best import Winner, candidates_of, find_best, judges_of, reads_of


@method(
    family="selection",
    signed=True,
    per_class=True,
    reads=reads_of,
    paper="Wherefrom, after Mylonas et al. 2023, arXiv:2209.10876",
    scores_units=True,
    slow=True,
)
def best(
    case: Case,
    *,
    candidates: object = "representative",
    metric: str = "comprehensiveness",
    judges: object = "rft,sufficiency,faithfulness",
) -> Attribution:
    grader = faithfulness(metric)

    def find() -> Winner:
        return find_best(case.component_cases, candidates_of(candidates), grader, judges_of(judges, grader))

    selected = case.once(("best", str(candidates), metric, str(judges)), find)  # a start and an end have one winner
    attribution, report = selected.components[case.components.index(case.target)], selected.report
    return Attribution(
        attribution.scores,
        gap=attribution.gap,
        unassigned=attribution.unassigned,
        signed=attribution.signed,
        params={"winner": selected.name},
        notes=(report["sentence"], *attribution.notes),
        selection=report,
    )
