"""AOPC: how far the probability falls, on average, as more and more of the top units are deleted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wherefrom.core.arrays import Flags, Numbers
from wherefrom.grading.evidence import Evidence, Fill, Measured, Variant
from wherefrom.registry import metric

PERCENT = tuple(range(10, 101, 10))
STEPS = 9  # of the public code


@metric(better="higher", paper="Qiang et al. 2022, AttCAT; Nguyen 2018")
@dataclass(frozen=True, kw_only=True)
class Aopc:
    fill: Fill = "delete"
    variant: Variant = "paper"

    def questions(self, evidence: Evidence) -> Flags:
        return (
            published_rows(evidence)
            if self.variant == "published"
            else evidence.without([evidence.count_of(k) for k in PERCENT])
        )

    def score(self, evidence: Evidence, whole: float, answers: Numbers) -> Measured:
        del evidence
        if self.variant == "published":  # takes the size of the change, and leaves k = 0 out
            return Measured(float(np.abs(whole - answers).mean()))
        drops = [0.0, *(whole - answers).tolist()]
        return Measured(sum(drops) / len(drops), {"curve": drops})


def published_rows(evidence: Evidence) -> Flags:
    """As AttCAT's public code removes: nine steps of a ninth, counted over special tokens too, which are ranked but
    stay.

    Whatever is ranked last is never removed. (step, unit)
    """
    n = len(evidence.scores)
    ranked = np.argsort(-evidence.scores, kind="stable")[:-1]
    removable = ranked[~evidence.special[ranked]]
    keep = np.ones((STEPS, n), dtype=np.bool_)
    for step, row in enumerate(keep, start=1):
        row[removable[: round(n * step / STEPS)]] = False
    return keep
