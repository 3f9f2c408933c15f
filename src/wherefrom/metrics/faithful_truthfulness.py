"""Faithful truthfulness: whether hiding a unit changes the probability as its score says, all units alike."""

from __future__ import annotations

from dataclasses import dataclass

from wherefrom.core.arrays import Flags, Numbers
from wherefrom.grading.evidence import Evidence, Fill
from wherefrom.metrics.rft import agreement
from wherefrom.registry import metric


@metric(better="higher", paper="Mylonas et al. 2023, Optimus, arXiv:2209.10876")
@dataclass(frozen=True, kw_only=True)
class FaithfulTruthfulness:
    fill: Fill = "unk"
    normalise: bool = True

    def questions(self, evidence: Evidence) -> Flags:
        return evidence.each()

    def score(self, evidence: Evidence, whole: float, answers: Numbers) -> float:
        total = float(agreement(evidence.scores[evidence.real], whole - answers).sum())
        return total / len(evidence) if self.normalise else total
