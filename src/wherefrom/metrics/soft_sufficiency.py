"""Soft sufficiency: how much of the probability is left when word vectors keep elements in proportion to the scores.

The contrary of soft comprehensiveness: each element of a unit's word vectors is kept with a chance of its scaled score.
One less the fall of the probability, where it falls; mean over draws.

normalise: by the fall when all units lose everything, as the paper does. That fall may be next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wherefrom.core.arrays import Numbers
from wherefrom.grading.evidence import Answers, Evidence, Measured
from wherefrom.metrics.soft_comprehensiveness import scaled, soft_falls, soft_questions
from wherefrom.registry import metric


@metric(better="higher", paper="Zhao & Aletras 2023, arXiv:2305.10496", group="erasure")
@dataclass(frozen=True, kw_only=True)
class SoftSufficiency:
    draws: int = 8
    normalise: bool = False

    soft: ClassVar[bool] = True

    def questions(self, evidence: Evidence) -> Numbers:
        return soft_questions(evidence, scaled(evidence), self.draws)

    def score(self, evidence: Evidence, answers: Answers) -> Measured:
        del evidence
        left = 1 - soft_falls(answers, self.normalise)
        return Measured(float(left.mean()), {"draws": left.tolist()})
