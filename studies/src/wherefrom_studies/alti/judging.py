"""What becomes of the claims of ALTI's paper."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from wherefrom.typing import Numbers
from wherefrom_studies.alti.measuring import AltiResults
from wherefrom_studies.alti.paper import (
    CLAIMS,
    COLUMN,
    COMP,
    GRADIENTS,
    LONG,
    METHODS,
    PAPER,
    PUBLISHED,
    SHORT,
    SIGNED,
    SUFF,
)
from wherefrom_studies.claims import Estimate, JudgedClaim, Statistic, difference, estimate, lead


def judged(found: AltiResults) -> list[JudgedClaim]:
    """The verdict of every claim, each data set and base counting once."""

    def of(metric: str) -> list[Numbers]:
        return [one.runs.table(metric, METHODS) for one in found.values()]

    def at(names: Sequence[str]) -> list[int]:
        return [COLUMN[name] for name in names]

    own, others = COLUMN["ALTI"], at([name for name in PAPER if name != "ALTI"])
    results: dict[str, Estimate | None] = {}
    for short, metric, sign in (("comp", COMP, 1.0), ("suff", SUFF, -1.0)):
        values = of(metric)
        tests: dict[str, Statistic] = {
            "A1": lead(own, others, sign),
            "A3": lead(COLUMN["IG l2"], at([name for name in GRADIENTS if name != "IG l2"]), sign),
            "A4": difference(own, COLUMN["IG l2"], sign),
            "A5": lead(own, at(list(SIGNED)), sign),
            "A6": difference(own, COLUMN["ALTI l2"], sign),
            "A7": difference(COLUMN["ALTI l2"], COLUMN["Norms"], sign),
            "A8": difference(COLUMN["ALTI LN2"], own),
            "A11": ascending(at(["Rollout", "Globenc", "ALTI"]), sign),
            "L1": difference(COLUMN["Logit"], own, sign),
            "L2": lead(COLUMN["Logit"], at(list(SIGNED)), sign),
        }
        results |= {f"{name} {short}": estimate(values, test) for name, test in tests.items()}
    results["A1 published"] = estimate(of(PUBLISHED["comp"]), lead(own, others))
    names = [name for name, _ in found]
    long = [place for place, name in enumerate(names) if name in LONG]
    short_ones = [place for place, name in enumerate(names) if name in SHORT]
    if long and short_ones:
        ahead = COLUMN["ALTI"], COLUMN["IG l2"]
        results["A2"] = estimate(
            of(COMP), lambda means: _gains(means, long, *ahead) - _gains(means, short_ones, *ahead)
        )
    for short, tables in (
        ("Jaccard", [one.jaccard for one in found.values() if one.jaccard is not None]),
        ("Spearman", [one.spearman for one in found.values() if one.spearman is not None]),
    ):
        results[f"A9 {short}"] = estimate(tables, lead(own, at(GRADIENTS)))
    gaps = [np.asarray(one.outputs) - np.asarray(one.parts) for one in found.values() if len(one.outputs)]
    results["A10"] = estimate(gaps, lambda means: float(np.mean([row.min() for row in means])))
    why = "nothing that it needs was measured"
    return [claim.judged(results.get(name), why) for name, claim in CLAIMS.items()]


def _gains(means: Sequence[Numbers], places: Sequence[int], one: int, other: int) -> float:
    return float(np.mean([means[place][one] - means[place][other] for place in places]))


def ascending(columns: Sequence[int], sign: float = 1.0) -> Statistic:
    """The mean over data sets of the smallest step from one column to the next. Above zero: they are in this order."""
    return lambda means: float(np.mean([min(sign * (row[b] - row[a]) for a, b in pairwise(columns)) for row in means]))
