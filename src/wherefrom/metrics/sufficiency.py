"""Sufficiency: how far the probability falls when only the most important units are left."""

from __future__ import annotations

from dataclasses import dataclass

from wherefrom.core.arrays import Flags
from wherefrom.grading.evidence import Answers, Evidence, Fill, Measured
from wherefrom.metrics.comprehensiveness import PERCENT, Bins, mean_drop
from wherefrom.registry import metric


@metric(
    better="lower", paper="DeYoung et al. 2020, ERASER, arXiv:1911.03429; Ferrando et al. 2022, ALTI", group="erasure"
)
@dataclass(frozen=True, kw_only=True)
class Sufficiency:
    fill: Fill = "delete"
    bins: Bins = "alti"

    def questions(self, evidence: Evidence) -> Flags:
        return evidence.only([evidence.count_of(k) for k in PERCENT[self.bins]])

    def score(self, evidence: Evidence, answers: Answers) -> Measured:
        del evidence
        return mean_drop(answers, self.bins)
