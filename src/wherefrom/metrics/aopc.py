"""AOPC: how far the probability falls, on average, as more and more of the top units are deleted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wherefrom.grading.evidence import Fill, Flags, Graded, Measured, Numbers, Variant
from wherefrom.registry import metric

PERCENT = tuple(range(10, 101, 10))
STEPS = 9  # of the public code


@metric(better="higher", paper="Qiang et al. 2022, AttCAT; Nguyen 2018")
@dataclass(frozen=True, kw_only=True)
class Aopc:
    fill: Fill = "delete"
    variant: Variant = "paper"

    def questions(self, graded: Graded) -> Flags:
        return (
            published_rows(graded) if self.variant == "published" else graded.without([graded.part(k) for k in PERCENT])
        )

    def score(self, graded: Graded, whole: float, answers: Numbers) -> Measured:
        del graded
        if self.variant == "published":  # takes the size of the change, and leaves k = 0 out
            return Measured(float(np.abs(whole - answers).mean()))
        drops = [0.0, *(whole - answers).tolist()]
        return Measured(sum(drops) / len(drops), {"curve": drops})


def published_rows(graded: Graded) -> Flags:
    """As AttCAT's public code removes: nine steps of a ninth, counted over special tokens too, which are ranked but
    stay.

    Whatever is ranked last is never removed. (step, unit)
    """
    n = len(graded.scores)
    ranked = np.argsort(-graded.scores, kind="stable")[:-1]
    removable = ranked[~graded.special[ranked]]
    keep = np.ones((STEPS, n), dtype=np.bool_)
    for step, row in enumerate(keep, start=1):
        row[removable[: round(n * step / STEPS)]] = False
    return keep
