"""What becomes of the claims of Optimus' paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from wherefrom.optimus import BASELINE, Combination
from wherefrom.typing import Numbers
from wherefrom_studies.bench import SetAndBase
from wherefrom_studies.claims import JudgedClaim
from wherefrom_studies.comparisons import Finding, Pairs, compared, leads, ordered
from wherefrom_studies.data import SETS
from wherefrom_studies.optimus.analyses import correlation_of
from wherefrom_studies.optimus.measuring import OptimusResults, passes_of, table_of, winners
from wherefrom_studies.optimus.paper import AUPRC, CLAIMS, COMP, ORDER, SUFF, F


def judged(results: OptimusResults) -> list[JudgedClaim]:
    """The verdict of every claim."""
    marked = {key: result for key, result in results.items() if result.combinations is not None}
    several = {key: result for key, result in results.items() if SETS[key[0]].task == "several_labels"}

    def order(metric: str, pairs: Pairs, sign: float = 1.0, among: OptimusResults = results) -> Finding:
        tables = {key: table_of(result.runs, metric, result.methods) for key, result in among.items()}
        return ordered(tables, ORDER, pairs, sign)

    grades = {
        key: result.combinations.table("rft", "faithfulness", "auprc")
        for key, result in marked.items()
        if result.combinations is not None
    }
    columns = [""] * max((table.shape[1] for table in grades.values()), default=0)
    rivals = ("B", "IG", "LIME")
    findings = {
        "O1": compared(grades, columns, _closer_to_rationales),
        "O2 comp": order(COMP, leads("OP", rivals)),
        "O2 suff": order(SUFF, leads("OP", rivals), -1.0),
        "O2 F": order(F, leads("OP", rivals)),
        "O2 AUPRC": order(AUPRC, leads("OP", rivals), among=marked),
        "O3": order(F, [("OL", "OP")], among=several),
        "O4 comp": order(COMP, leads("OB", rivals[1:])),
        "O4 AUPRC": order(AUPRC, leads("OB", [*rivals, "OP"]), among=marked),
        "O5 B": order(F, [("B", "B*")]),
        "O5 OB": order(F, [("OB", "OB*")]),
        "O6": order(F, [("OP A and A*", "OP")]),
    }
    changes = {
        key: np.array([result.changes["delete"], result.changes["unk"]]).T
        for key, result in results.items()
        if result.changes["unk"]
    }
    findings["O7"] = ordered(changes, ["delete", "unk"], [("delete", "unk")])
    won = {key: [Combination.read(str(name)) for name in winners(result)] for key, result in results.items()}
    known = {key: [value for value in part if value is not None] for key, part in won.items()}
    findings |= _operations({key: part for key, part in known.items() if part})
    by_token = {key: passes_of(result.runs, result.methods) for key, result in results.items()}
    findings["O9 token"] = ordered(by_token, ["IG", "OP"], [("OP", "IG")])
    by_sentence = {
        key: passes_of(result.sentences, result.sentence_methods)
        for key, result in results.items()
        if result.sentences is not None
    }
    findings["O9 sentence"] = ordered(by_sentence, ["IG", "OP"], [("IG", "OP")])
    return [claim.judged(*findings[name]) for name, claim in CLAIMS.items()]


def _closer_to_rationales(means: Numbers) -> float:
    """The correlation of RFT with AUPRC over combinations less that of F."""
    rft, faithfulness = (correlation_of(first, last=2, parts=3)([means]) for first in (0, 1))
    return rft - faithfulness


def _operations(won: Mapping[SetAndBase, Sequence[Combination]]) -> dict[str, Finding]:
    """Whether the mean of heads, the mean of layers and From win more often than every other operation."""
    findings = {}
    for name, part, claimed in (("heads", "head", "mean"), ("layers", "layer", "mean"), ("matrix", "matrix", "from")):
        operations = {str(getattr(winner, part)) for part_of in won.values() for winner in part_of}
        kinds = [claimed, *(sorted(operations - {claimed}) or ["any other"])]
        tables = {
            key: np.array([[float(str(getattr(winner, part)) == kind) for kind in kinds] for winner in winners])
            for key, winners in won.items()
        }
        findings[f"O8 {name}"] = ordered(tables, kinds, leads(claimed, kinds[1:]))
    all_three = {key: np.array([[float(winner == BASELINE)] for winner in winners]) for key, winners in won.items()}
    findings["O8 minority"] = compared(all_three, ["mean, mean, From"], lambda means: 0.5 - float(means[0]))
    return findings
