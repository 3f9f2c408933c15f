"""Faithfulness violation: the share of units whose hiding moves the probability against their score's sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wherefrom.core.arrays import Flags
from wherefrom.grading.evidence import Answers, Evidence, Fill
from wherefrom.registry import metric


@metric(better="lower", paper="Liu et al. 2022, arXiv:2201.12114", group="one at a time")
@dataclass(frozen=True, kw_only=True)
class FaithfulnessViolation:
    fill: Fill = "unk"
    of: Literal["all", "top"] = "all"  # all units, or only the one with the largest score in size, as in the paper

    def questions(self, evidence: Evidence) -> Flags:
        return evidence.each()

    def score(self, evidence: Evidence, answers: Answers) -> float:
        scores = evidence.scores[evidence.real]
        violated = scores * answers.drops < 0
        return float(violated[abs(scores).argmax()] if self.of == "top" else violated.mean())
