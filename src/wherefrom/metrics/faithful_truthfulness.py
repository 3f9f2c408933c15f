"""Faithful truthfulness: whether hiding a unit changes the probability as its score says, all units alike."""

from __future__ import annotations

from dataclasses import dataclass

from wherefrom.core.arrays import Flags, Numbers
from wherefrom.grading.evidence import Answers, Evidence, Fill
from wherefrom.metrics.rft import agreement
from wherefrom.registry import metric


@metric(better="higher", paper="Mylonas et al. 2023, Optimus, arXiv:2209.10876", group="one at a time")
@dataclass(frozen=True, kw_only=True)
class FaithfulTruthfulness:
    fill: Fill = "unk"
    normalise: bool = True

    def questions(self, evidence: Evidence) -> Flags:
        return evidence.each()

    def score(self, evidence: Evidence, answers: Answers) -> float:
        return float(self.score_many(evidence.scores[evidence.real], answers))

    def score_many(self, scores: Numbers, answers: Answers) -> Numbers:
        total: Numbers = agreement(scores, answers.drops).sum(-1)
        return total / scores.shape[-1] if self.normalise else total
