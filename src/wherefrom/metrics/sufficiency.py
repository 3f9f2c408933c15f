"""Sufficiency: how far the probability falls when only the most important units are left.

variant: the paper's formula; or what the public code of ALTI computes, which takes the highest probability so far
    instead of each, that of the text without any unit included, at ERASER's thresholds, divided by 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wherefrom.core.arrays import Flags
from wherefrom.grading.evidence import Answers, Evidence, Fill, Measured, Variant
from wherefrom.metrics.comprehensiveness import PERCENT, Bins, mean_drop, published_mean
from wherefrom.registry import metric


@metric(
    better="lower", paper="DeYoung et al. 2020, ERASER, arXiv:1911.03429; Ferrando et al. 2022, ALTI", group="erasure"
)
@dataclass(frozen=True, kw_only=True)
class Sufficiency:
    fill: Fill = "delete"
    bins: Bins = "alti"
    variant: Variant = "paper"

    def questions(self, evidence: Evidence) -> Flags:
        if self.variant == "published":
            return evidence.only([0, *(evidence.count_of(k) for k in PERCENT["eraser"])])
        return evidence.only([evidence.count_of(k) for k in PERCENT[self.bins]])

    def score(self, evidence: Evidence, answers: Answers) -> Measured:
        del evidence
        if self.variant == "paper":
            return mean_drop(answers, self.bins)
        return published_mean(answers.whole - np.maximum.accumulate(answers.probabilities)[1:])
