"""Truthfulness: the share of units whose hiding moves the probability the way their score's sign says."""

from __future__ import annotations

from dataclasses import dataclass

from wherefrom.core.arrays import Flags, Numbers
from wherefrom.grading.evidence import Answers, Evidence, Fill
from wherefrom.metrics.rft import agreement
from wherefrom.registry import metric


@metric(
    better="higher",
    paper="Mollas et al. 2022, Altruist; Mylonas et al. 2023, Optimus, arXiv:2209.10876",
    group="one at a time",
)
@dataclass(frozen=True, kw_only=True)
class Truthfulness:
    fill: Fill = "unk"

    def questions(self, evidence: Evidence) -> Flags:
        return evidence.each()

    def score(self, evidence: Evidence, answers: Answers) -> float:
        return float(self.score_many(evidence.scores[evidence.real], answers))

    def score_many(self, scores: Numbers, answers: Answers) -> Numbers:
        shares: Numbers = (agreement(scores, answers.drops) > 0).mean(-1)
        return shares
