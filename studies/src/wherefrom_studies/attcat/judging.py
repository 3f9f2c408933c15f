"""What becomes of the claims of AttCAT's paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import kendalltau, spearmanr

from wherefrom.typing import Numbers
from wherefrom_studies.attcat.measuring import AttcatResults, answer_sets, text_sets
from wherefrom_studies.attcat.paper import ANSWER_METHODS, CLAIMS, CLASS_SPECIFIC, METHODS, OTHERS, OWN, PAPER
from wherefrom_studies.claims import JudgedClaim
from wherefrom_studies.comparisons import Finding, Pairs, SetTables, compared, leads, ordered, trail

ATTENTION = ("raw_attention", "attention_rollout")


def judged(measured: AttcatResults) -> list[JudgedClaim]:
    """The verdict of every claim."""
    texts, answers = text_sets(measured), answer_sets(measured)

    def of(metric: str) -> SetTables:
        return {key: result.table(metric, METHODS) for key, result in texts.items()}

    def order(metric: str, pairs: Pairs, sign: float = 1.0) -> Finding:
        return ordered(of(metric), METHODS, pairs, sign)

    findings: dict[str, Finding] = {}
    for short, metric, sign in (("AOPC", "aopc", 1.0), ("LOdds", "log_odds", -1.0)):
        orders = {
            "C1": leads(OWN, OTHERS),
            "C2": leads(OWN, ["cat"]),
            "C3": trail(ATTENTION, [name for name in PAPER.values() if name not in ATTENTION]),
            "C4": leads(OWN, ["transatt"]),
        }
        findings |= {f"{name} {short}": order(metric, pairs, sign) for name, pairs in orders.items()}
    specific = leads(OWN, [name for name in CLASS_SPECIFIC if name != OWN])
    findings["C5"] = order("kendall_confidence", specific, -1.0)
    findings["C5 published"] = order("kendall_confidence:variant=published", specific, -1.0)
    counted = {key: result.table("precision_at_k:k=20", ANSWER_METHODS, "count") for key, result in answers.items()}
    findings["C6"] = ordered(counted, ANSWER_METHODS, leads(OWN, OTHERS))
    findings["C7 AOPC"] = order("aopc", [(OWN, "attcat:layers=rollout")])
    slopes = {
        key: np.array([[_slope(text)] for text in result.entropies], dtype=np.float64)
        for key, result in texts.items()
        if len(result.entropies)
    }
    findings["C7 depth"] = compared(slopes, ["the slope"], lambda means: float(means[0]))
    findings["C8"] = order("aopc", [("attcat:hidden=output", OWN)])
    findings["C9"] = order("truthfulness", [(OWN, "transatt")])
    both = {
        key: np.concatenate(
            [result.table(metric, list(PAPER.values())) for metric in ("aopc", "aopc:variant=published")], 1
        )
        for key, result in texts.items()
    }
    findings["C10"] = compared(both, [*PAPER.values()] * 2, _other_order)
    return [claim.judged(*findings[name]) for name, claim in CLAIMS.items()]


def _other_order(means: Numbers) -> float:
    return float(1 - kendalltau(means[: len(PAPER)], means[len(PAPER) :]).statistic)


def _slope(by_layer: Sequence[float]) -> float:
    return float(spearmanr(range(len(by_layer)), by_layer)[0]) if len(set(by_layer)) > 1 else float("nan")
