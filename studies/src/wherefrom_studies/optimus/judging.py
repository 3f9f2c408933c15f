"""What becomes of the claims of Optimus' paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wherefrom.optimus import BASELINE, Combination
from wherefrom.typing import Numbers
from wherefrom_studies.claims import (
    NOT_MEASURED,
    Estimate,
    EstimateOrReason,
    JudgedClaim,
    Statistic,
    difference,
    estimate,
    estimated,
    lead,
)
from wherefrom_studies.data import SETS
from wherefrom_studies.optimus.analyses import correlation_of
from wherefrom_studies.optimus.measuring import OptimusResults, passes_of, table_of, winners
from wherefrom_studies.optimus.paper import AUPRC, CLAIMS, COMP, ORDER, SUFF, F


def judged(found: OptimusResults) -> list[JudgedClaim]:
    """The verdict of every claim, each data set and base counting once."""
    at = {name: place for place, name in enumerate(ORDER)}
    marked = {key: one for key, one in found.items() if one.combinations is not None}
    several = {key: one for key, one in found.items() if SETS[key[0]].task == "several_labels"}

    def test(metric: str, statistic: Statistic, some: OptimusResults = found) -> EstimateOrReason:
        tables = {" ".join(key): table_of(one.runs, metric, one.methods) for key, one in some.items()}
        return estimated(tables, ORDER, statistic)

    three = [at["B"], at["IG"], at["LIME"]]
    results: dict[str, EstimateOrReason] = {}
    grades = [one.combinations.table("rft", "faithfulness", "faithful_truthfulness", "auprc")
              for one in marked.values() if one.combinations is not None]  # fmt: skip
    undefined = "not defined: without ranks all combinations of A have the same FT, because A has no signs"
    for name, other, ranks in (("O1 Pearson", 1, False), ("O1 Spearman", 1, True), ("O10", 2, False)):
        own, beside = (correlation_of(first, ranks=ranks, last=3, parts=4) for first in (0, other))
        settled = estimate(grades, lambda means, o=own, b=beside: o(means) - b(means), rounds=500)  # type: ignore[misc]
        results[name] = EstimateOrReason(settled, undefined if marked and name == "O10" else NOT_MEASURED)
    results["O2 comp"] = test(COMP, lead(at["OP"], three))
    results["O2 suff"] = test(SUFF, lead(at["OP"], three, -1.0))
    results["O2 F"] = test(F, lead(at["OP"], three))
    results["O2 AUPRC"] = test(AUPRC, lead(at["OP"], three), marked)
    results["O3"] = test(F, difference(at["OL"], at["OP"]), several)
    results["O4 comp"] = test(COMP, lead(at["OB"], three[1:]))
    results["O4 AUPRC"] = test(AUPRC, lead(at["OB"], [*three, at["OP"]]), marked)
    results["O5 B"] = test(F, difference(at["B"], at["B*"]))
    results["O5 OB"] = test(F, difference(at["OB"], at["OB*"]))
    results["O6"] = test(F, difference(at["OP A and A*"], at["OP"]))
    changes = {
        " ".join(key): np.array([one.changes["delete"], one.changes["unk"]]).T
        for key, one in found.items()
        if one.changes["unk"]
    }
    results["O7"] = estimated(changes, ["delete", "unk"], difference(0, 1))
    won = [[Combination.read(str(name)) for name in winners(one)] for one in found.values()]
    operations = _operations([[one for one in part if one is not None] for part in won if part])
    results |= {name: EstimateOrReason(one, NOT_MEASURED) for name, one in operations.items()}
    by_token = {" ".join(key): passes_of(one.runs, one.methods) for key, one in found.items()}
    results["O9 token"] = estimated(by_token, ["IG", "OP"], difference(1, 0))
    by_sentence = {
        " ".join(key): passes_of(one.sentences, one.sentence_methods)
        for key, one in found.items()
        if one.sentences is not None
    }
    results["O9 sentence"] = estimated(by_sentence, ["IG", "OP"], difference(0, 1))
    return [claim.judged(*results[name]) for name, claim in CLAIMS.items()]


def _operations(won: Sequence[Sequence[Combination]]) -> dict[str, Estimate | None]:
    """How much more often than any other operation the mean of heads, the mean of layers and From win."""
    results: dict[str, Estimate | None] = {}
    for name, field, own in (("heads", "head", "mean"), ("layers", "layer", "mean"), ("matrix", "matrix", "from")):
        kinds = sorted({str(getattr(one, field)) for part in won for one in part} - {own})
        tables = [
            np.array([[float(str(getattr(one, field)) == kind) for kind in (own, *kinds)] for one in part])
            for part in won
        ]

        def ahead(means: Sequence[Numbers]) -> float:
            shares = np.mean(means, 0)
            return float(shares[0] - max(shares[1:], default=0.0))

        results[f"O8 {name}"] = estimate(tables, ahead)
    all_three = [np.array([[float(one == BASELINE)] for one in part]) for part in won]
    results["O8 minority"] = estimate(all_three, lambda means: 0.5 - float(np.mean([row[0] for row in means])))
    return results
