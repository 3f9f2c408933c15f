"""Precision at K: of the answer's units, the share that is among the K with the largest scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wherefrom.errors import BadOption, NotDefined
from wherefrom.grading.evidence import Evidence, Measured
from wherefrom.registry import metric


@metric(better="higher", paper="Qiang et al. 2022, AttCAT", needs="answer", group="plausibility")
@dataclass(frozen=True, kw_only=True)
class PrecisionAtK:
    k: int = 20

    def __post_init__(self) -> None:
        if self.k < 1:
            raise BadOption(f"precision_at_k takes k = 1 or more, not {self.k}.")

    def score(self, evidence: Evidence) -> Measured:
        answer = evidence.real[evidence.marked("answer")]
        if self.k >= len(evidence):
            raise NotDefined(
                f"k = {self.k} is not less than the {len(evidence)} units of the text, so every ranking would do"
            )
        hits = int(np.isin(answer, evidence.order[: self.k]).sum())
        return Measured(hits / len(answer), {"count": hits, "of": len(answer)})
