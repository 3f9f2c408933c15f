"""Precision at K: of the answer's units, the share that is among the K with the largest scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wherefrom.errors import BadOption, NotDefined
from wherefrom.grading.evidence import Graded, Measured, Numbers
from wherefrom.registry import metric


@metric(better="higher", paper="Qiang et al. 2022, AttCAT", needs="answer")
@dataclass(frozen=True, kw_only=True)
class PrecisionAtK:
    k: int = 20

    def __post_init__(self) -> None:
        if self.k < 1:
            raise BadOption(f"precision_at_k takes k = 1 or more, not {self.k}.")

    def score(self, graded: Graded, whole: float, answers: Numbers) -> Measured:
        del whole, answers
        wanted = graded.real[graded.marked("answer")]
        if self.k >= len(graded):
            raise NotDefined(
                f"k = {self.k} is not less than the {len(graded)} units of the text, so every ranking would do"
            )
        found = int(np.isin(wanted, graded.order[: self.k]).sum())
        return Measured(found / len(wanted), {"count": found, "of": len(wanted)})
