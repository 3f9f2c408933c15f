"""Comprehensiveness: how far the probability falls when the most important units are deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wherefrom.core.arrays import Flags
from wherefrom.grading.evidence import Answers, Evidence, Fill, Measured
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

    def questions(self, evidence: Evidence) -> Flags:
        return evidence.without([evidence.count_of(k) for k in PERCENT[self.bins]])

    def score(self, evidence: Evidence, answers: Answers) -> Measured:
        del evidence
        return mean_drop(answers, self.bins)


def mean_drop(answers: Answers, bins: Bins) -> Measured:
    """The mean of the curve itself: no running minimum or maximum is taken over it."""
    drops = answers.drops.tolist()
    return Measured(sum(drops) / DIVISOR[bins], {"curve": drops})
