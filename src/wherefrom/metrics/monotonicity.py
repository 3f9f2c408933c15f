"""Monotonicity: the correlation of the scores with what hiding each unit alone takes from the probability."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wherefrom.core.arrays import Flags
from wherefrom.errors import NotDefined
from wherefrom.grading.evidence import Answers, Evidence, Fill
from wherefrom.registry import metric


@metric(better="higher", paper="Luss et al. 2021; Nguyen & Martinez 2020, arXiv:2007.07584", group="one at a time")
@dataclass(frozen=True, kw_only=True)
class Monotonicity:
    fill: Fill = "unk"

    def questions(self, evidence: Evidence) -> Flags:
        if len(evidence) < 2:
            raise NotDefined("a text of one unit has no order")
        return evidence.each()

    def score(self, evidence: Evidence, answers: Answers) -> float:
        scores, effects = evidence.scores[evidence.real], answers.drops
        for name, numbers in (("scores", scores), ("effects of hiding", effects)):
            if np.ptp(numbers) == 0:
                raise NotDefined(f"all {name} are equal")
        return float(np.corrcoef(scores, effects)[0, 1])
