"""Faithfulness violation: the share of units whose hiding moves the probability against their score's sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wherefrom.grading.evidence import Fill, Flags, Graded, Numbers
from wherefrom.registry import metric


@metric(better="lower", paper="Liu et al. 2022, arXiv:2201.12114")
@dataclass(frozen=True, kw_only=True)
class FaithfulnessViolation:
    fill: Fill = "unk"
    of: Literal["all", "top"] = "all"  # all units, or only the one with the largest score in size, as in the paper

    def questions(self, graded: Graded) -> Flags:
        return graded.each()

    def score(self, graded: Graded, whole: float, answers: Numbers) -> float:
        scores = graded.scores[graded.real]
        violated = scores * (whole - answers) < 0
        return float(violated[abs(scores).argmax()] if self.of == "top" else violated.mean())
