"""What becomes of the claims of ALTI's paper."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from wherefrom.typing import Numbers
from wherefrom_studies.alti.measuring import AltiResult, AltiResults
from wherefrom_studies.alti.paper import CLAIMS, COMP, GRADIENTS, METHODS, NAMES, PAPER, PUBLISHED, SIGNED, SUFF
from wherefrom_studies.claims import JudgedClaim
from wherefrom_studies.comparisons import Finding, SetTables, ascend, compared, joined, leads, ordered


def judged(results: AltiResults) -> list[JudgedClaim]:
    """The verdict of every claim."""

    def of(metric: str) -> SetTables:
        return {key: result.runs.table(metric, METHODS) for key, result in results.items()}

    others = [name for name in PAPER if name != "ALTI"]
    findings: dict[str, Finding] = {}
    for short, metric, sign in (("comp", COMP, 1.0), ("suff", SUFF, -1.0)):
        tables = of(metric)
        orders = {
            "A1": leads("ALTI", others),
            "A3": leads("IG l2", [name for name in GRADIENTS if name != "IG l2"]),
            "A4": leads("ALTI", ["IG l2"]),
            "A5": leads("ALTI", SIGNED),
            "A6": leads("ALTI", ["ALTI l2"]),
            "A7": leads("ALTI l2", ["Norms"]),
            "A8": leads("ALTI LN2", ["ALTI"]),
            "A11": ascend(["Rollout", "Globenc", "ALTI"]),
            "L1": leads("Logit", ["ALTI"]),
            "L2": leads("Logit", SIGNED),
        }
        findings |= {
            f"{name} {short}": ordered(tables, list(NAMES), pairs, 1.0 if name == "A8" else sign)
            for name, pairs in orders.items()
        }
    findings["A1 published"] = ordered(of(PUBLISHED["comp"]), list(NAMES), leads("ALTI", others))
    lengths = {key: table for key, result in results.items() if (table := _lead_by_length(result)) is not None}
    findings["A2"] = compared(lengths, ["the slope"], lambda means: float(means[0]))
    alike = {
        "A9 Jaccard": {key: result.jaccard for key, result in results.items() if result.jaccard is not None},
        "A9 Spearman": {key: result.spearman for key, result in results.items() if result.spearman is not None},
    }
    findings |= {name: ordered(tables, list(NAMES), leads("ALTI", GRADIENTS)) for name, tables in alike.items()}
    findings["A10"] = _in_every_layer(results)
    return [claim.judged(*findings[name]) for name, claim in CLAIMS.items()]


def _lead_by_length(result: AltiResult) -> Numbers | None:
    """Of every text its part in the slope of ALTI's lead over IG l2 by the rank of its length, from the shortest text
    (0) to the longest (1): the mean over texts is the slope of least squares. None where all texts are as long.
    """
    if not len(result.lengths):
        return None
    values = result.runs.table(COMP, [NAMES["ALTI"], NAMES["IG l2"]])
    gains = values[:, 0] - values[:, 1]
    known = np.isfinite(gains)
    gains, ranks = gains[known], rankdata(np.asarray(result.lengths)[known])
    ranks = (ranks - ranks.mean()) / max(len(ranks) - 1, 1)
    if not ranks.any():
        return None
    slopes: Numbers = (gains - gains.mean()) * ranks / np.mean(ranks**2)
    return slopes[:, None]


def _in_every_layer(results: AltiResults) -> Finding:
    """Whether what positions hold is more alike than what tokens bring in every layer that a model has."""
    tables = {
        key: np.stack([np.asarray(result.outputs), np.asarray(result.parts)], 2)  # (text, layer, which)
        for key, result in results.items()
        if len(result.outputs)
    }
    depth = max((table.shape[1] for table in tables.values()), default=0)
    findings = []
    for layer in range(depth):
        columns = [f"outputs of layer {layer + 1}", "its parts"]
        deep = {key: table[:, layer] for key, table in tables.items() if layer < table.shape[1]}
        findings.append(ordered(deep, columns, [(columns[0], columns[1])]))
    return joined(findings)
