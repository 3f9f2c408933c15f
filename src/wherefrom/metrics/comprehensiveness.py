"""Comprehensiveness: how far the probability falls when the most important units are deleted.

variant: the paper's formula; or what the public code of ALTI computes, which takes the lowest probability so far
    instead of each, at ERASER's thresholds, divided by 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from wherefrom.core.arrays import Flags, Numbers
from wherefrom.grading.evidence import Answers, Evidence, Fill, Measured, Variant
from wherefrom.registry import metric

Bins = Literal["alti", "eraser"]
PERCENT: dict[str, tuple[int, ...]] = {"alti": (5, 10, 20, 50), "eraser": (1, 5, 10, 20, 50)}
# ERASER's scorer takes the plain mean over its five thresholds. The ALTI paper divides by |B| + 1, where its
# B = {0, 5, 10, 20, 50}% counts the empty bin, which adds nothing.
DIVISOR: dict[str, int] = {"alti": 6, "eraser": 5}


@metric(
    better="higher", paper="DeYoung et al. 2020, ERASER, arXiv:1911.03429; Ferrando et al. 2022, ALTI", group="erasure"
)
@dataclass(frozen=True, kw_only=True)
class Comprehensiveness:
    fill: Fill = "delete"
    bins: Bins = "alti"
    variant: Variant = "paper"

    def questions(self, evidence: Evidence) -> Flags:
        bins = "eraser" if self.variant == "published" else self.bins
        return evidence.without([evidence.count_of(k) for k in PERCENT[bins]])

    def score(self, evidence: Evidence, answers: Answers) -> Measured:
        del evidence
        if self.variant == "paper":
            return mean_drop(answers, self.bins)
        lowest = np.minimum.accumulate([answers.whole, *answers.probabilities])[1:]
        return published_mean(answers.whole - lowest)


def mean_drop(answers: Answers, bins: Bins) -> Measured:
    """The mean of the curve itself: no running minimum or maximum is taken over it."""
    drops = answers.drops.tolist()
    return Measured(sum(drops) / DIVISOR[bins], {"curve": drops})


def published_mean(drops: Numbers) -> Measured:
    """As the public code of ALTI divides: by the number of its thresholds and one for the empty bin."""
    return Measured(float(drops.sum()) / (len(drops) + 1), {"curve": drops.tolist()})
