"""What becomes of the claims of AttCAT's paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import kendalltau, spearmanr

from wherefrom.typing import Numbers
from wherefrom_studies.attcat.measuring import AttcatResults, answer_sets, text_sets
from wherefrom_studies.attcat.paper import ANSWER_METHODS, CLAIMS, CLASS_SPECIFIC, COLUMN, METHODS, OTHERS, OWN, PAPER
from wherefrom_studies.claims import EstimateOrReason, JudgedClaim, Statistic, difference, estimated, lead, trail


def judged(measured: AttcatResults) -> list[JudgedClaim]:
    """The verdict of every claim, each data set and base counting once."""
    texts, answers = text_sets(measured), answer_sets(measured)

    def of(metric: str) -> dict[str, Numbers]:
        return {" ".join(key): result.table(metric, METHODS) for key, result in texts.items()}

    def test(metric: str, statistic: Statistic) -> EstimateOrReason:
        return estimated(of(metric), METHODS, statistic)

    def at(names: Sequence[str]) -> list[int]:
        return [COLUMN[name] for name in names]

    own, six = COLUMN[OWN], at([name for name in PAPER.values() if name not in ("raw_attention", "attention_rollout")])
    attention = at(["raw_attention", "attention_rollout"])
    results: dict[str, EstimateOrReason] = {}
    for short, metric, sign in (("AOPC", "aopc", 1.0), ("LOdds", "log_odds", -1.0)):
        values = of(metric)
        tests: dict[str, Statistic] = {
            "C1": lead(own, at(OTHERS), sign),
            "C2": difference(own, COLUMN["cat"], sign),
            "C3": trail(attention, six, sign),
            "C4": difference(own, COLUMN["transatt"], sign),
        }
        results |= {f"{name} {short}": estimated(values, METHODS, one) for name, one in tests.items()}
    specific = at([name for name in CLASS_SPECIFIC if name != OWN])
    results["C5"] = test("kendall_confidence", lead(own, specific, -1.0))
    results["C5 published"] = test("kendall_confidence:variant=published", lead(own, specific, -1.0))
    counted = {
        " ".join(key): result.table("precision_at_k:k=20", ANSWER_METHODS, "count") for key, result in answers.items()
    }
    places = {name: number for number, name in enumerate(ANSWER_METHODS)}
    results["C6"] = estimated(counted, ANSWER_METHODS, lead(places[OWN], [places[name] for name in OTHERS]))
    results["C7 AOPC"] = test("aopc", difference(own, COLUMN["attcat:layers=rollout"]))
    slopes = {
        " ".join(key): np.array([[_slope(text)] for text in result.entropies], dtype=np.float64)
        for key, result in texts.items()
        if len(result.entropies)
    }
    results["C7 depth"] = estimated(slopes, ["the slope"], lambda means: float(np.mean([row[0] for row in means])))
    results["C8"] = test("aopc", difference(COLUMN["attcat:hidden=output"], own))
    results["C9 truth"] = test("truthfulness", difference(own, COLUMN["transatt"]))
    results["C9 violation"] = test("faithfulness_violation", difference(COLUMN["transatt"], own))
    both = {
        " ".join(key): np.concatenate(
            [result.table(metric, list(PAPER.values())) for metric in ("aopc", "aopc:variant=published")], 1
        )
        for key, result in texts.items()
    }
    results["C10"] = estimated(both, [*PAPER.values()] * 2, _other_order, rounds=500)
    return [claim.judged(*results[name]) for name, claim in CLAIMS.items()]


def _other_order(means: Sequence[Numbers]) -> float:
    half = len(PAPER)
    return float(np.mean([1 - kendalltau(row[:half], row[half:]).statistic for row in means]))


def _slope(by_layer: Sequence[float]) -> float:
    return float(spearmanr(range(len(by_layer)), by_layer)[0]) if len(set(by_layer)) > 1 else float("nan")
