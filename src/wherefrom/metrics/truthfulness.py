"""Truthfulness: the share of units whose hiding moves the probability the way their score's sign says."""

from __future__ import annotations

from dataclasses import dataclass

from wherefrom.core.arrays import Flags, Numbers
from wherefrom.grading.evidence import Evidence, Fill
from wherefrom.metrics.rft import agreement
from wherefrom.registry import metric


@metric(better="higher", paper="Mollas et al. 2022, Altruist; Mylonas et al. 2023, Optimus, arXiv:2209.10876")
@dataclass(frozen=True, kw_only=True)
class Truthfulness:
    fill: Fill = "unk"

    def questions(self, evidence: Evidence) -> Flags:
        return evidence.each()

    def score(self, evidence: Evidence, whole: float, answers: Numbers) -> float:
        return float((agreement(evidence.scores[evidence.real], whole - answers) > 0).mean())
