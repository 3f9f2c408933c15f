"""Optimus: the attention weights of that combination of heads, layers and matrix operation which is the most faithful for this text.

Heads (mean, element-wise product, each one), layers (mean, matrix product, each one) and the matrix (the deciding position's row, its
column, the mean or the largest of every column) give (2 + H)(2 + L) 4 weightings. Each is graded by a faithfulness metric, RFT unless
said otherwise; the best is the explanation. One recorded pass and one hidden unit at a time serve all of them.

select: prime, one search for all predicted labels of a multi-label model; label, one for the label that is explained; batch, none: the
combination was fitted before (see `whence.optimus.fit`), and `combination` is its file, or the combination itself as it is written.
raw: attention behind the softmax (A), before it (A*), or both. fallback: what is taken if nothing scores above zero: the maximum all the
same, or the baseline, as the paper's algorithm has it. all_scores: keep every combination's score in the explanation.
"""

from __future__ import annotations

from torch import Tensor

from whence.core.case import Attribution, Case
from whence.core.target import Boundary
from whence.errors import BadOption
from whence.optimus.fit import combination_of
from whence.optimus.search import Choice, Fallback, Select, all_candidates, chosen, real_units, scores_of, searched, table, weights_by
from whence.registry import method


@method(
    family="attention",
    signed=False,
    per_class=True,
    reads="attention",
    paper="Mylonas et al. 2022, arXiv:2209.10876",
    scores_units=True,
)
def optimus(
    case: Case,
    *,
    select: Select = "prime",
    raw: Choice = "A",
    metric: str = "rft",
    fallback: Fallback = "maximum",
    combination: object = None,
    all_scores: bool = False,
) -> Attribution:
    if combination is not None:
        one, notes = combination_of(combination, case)
        known: dict[str, object] = {"select": "batch", "raw": one.raw, "combination": str(one)}  # enough to do it again
        return Attribution(_comparable(case, weights_by(case, one)), signed=one.raw == "A*", params=known, notes=notes)
    if select == "batch":
        raise BadOption("select=batch takes a combination that was fitted before: combination=FILE, written by 'whence optimus'.")
    found = all_candidates(case, raw)
    targets = searched(case, select)
    scores = scores_of(case, found.weights, targets, metric)
    best = chosen(scores, fallback)
    winner, baseline = found.combinations[best], found.combinations[0]
    selection = {
        "by": metric,
        "chosen": str(winner),
        "score": float(scores[best]),
        "baseline": str(baseline),
        "baseline_score": float(scores[0]),
        "candidates": len(scores),
        "labels": [target.label for target in targets],
        **({"scores": table(found.combinations, scores)} if all_scores else {}),
    }
    part = "" if not isinstance(case.target, Boundary) else "End: " if case.target.end else "Start: "
    notes = (
        f"{part}{winner} has {scores[best]:.4g} by {metric}, chosen among {len(scores)}; the baseline ({baseline}) has {scores[0]:.4g}.",
        *_doubts(float(scores[best]), fallback),
    )
    return Attribution(
        _comparable(case, found.weights[best]),
        signed=winner.raw == "A*",
        params={"winner": str(winner)},
        notes=notes,
        selection=selection,
    )


def _doubts(best: float, fallback: Fallback) -> list[str]:
    if best > 0:
        return []
    taken = "the baseline was taken" if fallback == "baseline" else "this is only the least bad"
    return [f"No combination scores above zero: hiding what they weigh most does not lower the probability. So {taken}."]


def _comparable(case: Case, weights: Tensor) -> Tensor:
    """An answer's start and end are searched apart and added up. Each is scaled to a total of one, or the larger numbers would drown
    the others."""
    if not isinstance(case.target, Boundary):
        return weights
    total = weights[real_units(case)].abs().sum()
    return weights / total if total > 0 else weights
