"""Log-odds: how far the logarithm of the probability falls, on average, as more and more of the top units are
padded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wherefrom.core.arrays import Flags
from wherefrom.errors import NotDefined
from wherefrom.grading.evidence import Answers, Evidence, Fill, Measured, Variant
from wherefrom.metrics.aopc import PERCENT, published_rows
from wherefrom.registry import metric


@metric(better="lower", paper="Qiang et al. 2022, AttCAT; Shrikumar et al. 2017, arXiv:1704.02685", group="erasure")
@dataclass(frozen=True, kw_only=True)
class LogOdds:
    fill: Fill = "pad"
    variant: Variant = "paper"

    def questions(self, evidence: Evidence) -> Flags:
        if self.variant == "published":
            return published_rows(evidence)
        return evidence.without([evidence.count_of(percent) for percent in PERCENT])

    def score(self, evidence: Evidence, answers: Answers) -> Measured:
        del evidence
        if answers.regression:
            raise NotDefined("a regression model has a value and no probability, so there are no odds")
        if answers.whole <= 0 or not bool((answers.probabilities > 0).all()):
            raise NotDefined("a probability is zero, so it has no logarithm")
        changes = (np.log(answers.probabilities) - np.log(answers.whole)).tolist()
        if self.variant == "published":
            return Measured(sum(changes) / len(changes))
        return Measured(sum(changes) / (1 + len(changes)), {"curve": [0.0, *changes]})
