"""Jaccard 25%: of the units in the top quarter by either of two models, the share that is in the top quarter by
both.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from wherefrom.core.arrays import Numbers
from wherefrom.errors import BadOption
from wherefrom.grading.evidence import Evidence
from wherefrom.registry import metric


@metric(better="higher", paper="Ferrando et al. 2022, ALTI", needs="second", group="robustness")
@dataclass(frozen=True, kw_only=True)
class Jaccard25:
    share: float = 0.25

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise BadOption(f"jaccard_25 takes a share above 0 and up to 1, not {self.share}.")

    def score(self, evidence: Evidence) -> float:
        return jaccard(evidence.scores[evidence.real], evidence.need("second")[evidence.real], share=self.share)


def jaccard(a: Numbers, b: Numbers, *, share: float = 0.25) -> float:
    """Of the units among the top share of either, the part that is among the top of both."""
    count = ceil(share * len(a))
    tops = [set(np.argsort(-scores, kind="stable")[:count].tolist()) for scores in (a, b)]
    return len(tops[0] & tops[1]) / len(tops[0] | tops[1])
