"""Optimus: the attention weights of that combination of heads, layers and matrix operation which is the most faithful
for this text.

Heads (mean, element-wise product, each one), layers (mean, matrix product, each one) and the matrix (the deciding
position's row, its column, the mean or the largest of every column) give (2 + H)(2 + L) 4 weightings. Each is graded by
a faithfulness metric, RFT unless said otherwise; the best is the explanation. One recorded pass and one hidden unit at
a time serve all of them.

select: prime, one search for all predicted labels of a multi-label model; label, one for the label that is explained;
    batch, none: the
combination was fitted before (see `wherefrom.optimus.fit`), and `combination` is its file, or the combination itself as
it is written.
raw: attention after the softmax (A), before it (A*), or both. fallback: what is taken if nothing scores above zero:
    the maximum all the
same, or the baseline, as the paper's algorithm has it. all_scores: keep every combination's score in the explanation.
stop: never, every unit is asked; certain, until no other combination can win any more; likely, until none is likely to
    (see `wherefrom.optimus.stopping`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wherefrom.case.case import Attribution, Case
from wherefrom.errors import BadOption
from wherefrom.optimus.fit import combination_of
from wherefrom.optimus.search import (
    Fallback,
    RawChoice,
    Select,
    announce_questions,
    check_stop,
    chosen,
    faithfulness,
    search,
    weights_by,
)
from wherefrom.optimus.stopping import Stop
from wherefrom.registry import Reads, method

_NONE = "No combination scores above zero: hiding what it weighs most does not lower the probability. "
HOPELESS: dict[Fallback, str] = {
    "maximum": _NONE + "This is only the least bad.",
    "baseline": _NONE + "So the baseline was taken.",
}

STOPPED: dict[Stop, str] = {"certain": "could win any more", "likely": "was likely to win any more"}


def reads_of(options: Mapping[str, Any]) -> set[Reads]:
    """Attention before the softmax (A*) takes a pass that records the scores, too."""
    return {"answers", "head_attention" if options["raw"] == "A" else "scores"}


def asks(case: Case, options: Mapping[str, Any]) -> None:
    """What serves all combinations alike, for metrics whose questions do not depend on the weights."""
    if options["combination"] is None and options["stop"] == "never":
        announce_questions(case, faithfulness(options["metric"]))


@method(
    family="attention",
    signed=False,
    per_class=True,
    reads=reads_of,
    paper="Mylonas et al. 2023, Optimus, arXiv:2209.10876",
    scores_units=True,
    asks=asks,
    sets={"candidates": 1},
)
def optimus(
    case: Case,
    *,
    select: Select = "prime",
    raw: RawChoice = "A",
    metric: str = "rft",
    fallback: Fallback = "maximum",
    combination: object = None,
    all_scores: bool = False,
    stop: Stop = "never",
) -> Attribution:
    if combination is not None:
        fitted, notes = combination_of(combination, case)
        known: dict[str, object] = {
            "select": "batch",
            "raw": fitted.raw,
            "combination": str(fitted),
        }  # enough to do it again
        return Attribution(weights_by(case, fitted), signed=fitted.raw == "A*", params=known, notes=notes)
    if select == "batch":
        raise BadOption(
            "select=batch takes a combination that was fitted before: combination=FILE, written by 'wherefrom optimus'."
        )
    grader = faithfulness(metric)
    check_stop(stop, grader, fallback, all_scores=all_scores, regression=case.target.regression)
    searched = search(case, select, raw, grader, stop=stop)
    best = chosen(searched.scores, grader, fallback)
    winner = searched.combinations[best]
    alone = len(searched.targets[0]) < len(case.components)  # one end of an answer, searched for on its own
    end = f"{case.target.component.capitalize()}: " if alone else ""
    if searched.queried is not None and searched.ended_early:
        hidden, units = searched.queried
        note = (
            f"{end}{winner}: chosen by {metric} among {len(searched.scores)} after {hidden} of {units} units were"
            f" hidden; no other {STOPPED[stop]}. Its score was not measured."
        )
    else:
        note = (
            f"{end}{winner}: {searched.scores[best]:.4g} by {metric}, chosen among {len(searched.scores)};"
            f" the baseline has {searched.scores[0]:.4g}."
        )
    hopeless = grader.choice.row.better == "higher" and searched.scores[best] <= 0 and not searched.ended_early
    return Attribution(
        searched.weights[best],
        signed=winner.raw == "A*",
        params={"winner": str(winner)},
        notes=(note, *([end + HOPELESS[fallback]] if hopeless else [])),
        selection=searched.report(best, metric, every=all_scores),
    )
