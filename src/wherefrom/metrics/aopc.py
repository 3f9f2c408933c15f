"""AOPC: how far the probability falls, on average, as more and more of the top units are deleted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wherefrom.core.arrays import Flags
from wherefrom.grading.evidence import Answers, Evidence, Fill, Measured, Variant
from wherefrom.registry import metric

PERCENT = tuple(range(10, 101, 10))
STEPS = 9  # of the public code


@metric(better="higher", paper="Qiang et al. 2022, AttCAT; Nguyen 2018", group="erasure")
@dataclass(frozen=True, kw_only=True)
class Aopc:
    fill: Fill = "delete"
    variant: Variant = "paper"

    def questions(self, evidence: Evidence) -> Flags:
        if self.variant == "published":
            return published_rows(evidence)
        return evidence.without([evidence.count_of(percent) for percent in PERCENT])

    def score(self, evidence: Evidence, answers: Answers) -> Measured:
        del evidence
        if self.variant == "published":  # takes the absolute change and leaves k = 0 out
            return Measured(float(np.abs(answers.drops).mean()))
        drops = [0.0, *answers.drops.tolist()]
        return Measured(sum(drops) / len(drops), {"curve": drops})


def published_rows(evidence: Evidence) -> Flags:
    """The questions of AttCAT's public code. (step, unit)

    It removes a ninth more of the text in each of nine steps. Special tokens are counted and ranked, but stay; the unit
    that is ranked last is never removed.
    """
    n = len(evidence.scores)
    ranked = np.argsort(-evidence.scores, kind="stable")[:-1]
    removable = ranked[~evidence.special[ranked]]
    keep = np.ones((STEPS, n), dtype=np.bool_)
    for step, row in enumerate(keep, start=1):
        row[removable[: round(n * step / STEPS)]] = False
    return keep
