"""Comprehensiveness: how far the probability falls when the most important units are deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wherefrom.core.arrays import Flags, Numbers
from wherefrom.grading.evidence import Evidence, Fill, Measured
from wherefrom.registry import metric

Bins = Literal["alti", "eraser"]
PERCENT: dict[str, tuple[int, ...]] = {"alti": (5, 10, 20, 50), "eraser": (1, 5, 10, 20, 50)}
# ALTI's B = {0, 5, 10, 20, 50}% is divided by |B| + 1; ERASER's has five bins without the empty one, and the same six
# to divide by.
DIVISOR = 6


@metric(better="higher", paper="DeYoung et al. 2020, ERASER, arXiv:1911.03429; Ferrando et al. 2022, ALTI")
@dataclass(frozen=True, kw_only=True)
class Comprehensiveness:
    fill: Fill = "delete"
    bins: Bins = "alti"

    def questions(self, evidence: Evidence) -> Flags:
        return evidence.without([evidence.count_of(k) for k in PERCENT[self.bins]])

    def score(self, evidence: Evidence, whole: float, answers: Numbers) -> Measured:
        del evidence
        return mean_drop(whole, answers)


def mean_drop(whole: float, answers: Numbers) -> Measured:
    """The curve as it is: no running minimum or maximum is taken over it."""
    drops = (whole - answers).tolist()
    return Measured(sum(drops) / DIVISOR, {"curve": drops})
