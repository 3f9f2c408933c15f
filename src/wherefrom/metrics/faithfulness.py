"""Faithfulness score: how far the probability falls when the top unit is hidden."""

from __future__ import annotations

from dataclasses import dataclass

from wherefrom.core.arrays import Flags
from wherefrom.grading.evidence import Answers, Evidence, Fill
from wherefrom.metrics.rft import agreement
from wherefrom.registry import metric


@metric(better="higher", paper="Mylonas et al. 2023, Optimus, arXiv:2209.10876; Du et al. 2019", group="one at a time")
@dataclass(frozen=True, kw_only=True)
class Faithfulness:
    fill: Fill = "unk"

    def questions(self, evidence: Evidence) -> Flags:
        return evidence.without([1])

    def score(self, evidence: Evidence, answers: Answers) -> float:
        # Where even the top score is zero or negative, a fall speaks against the explanation: the rule of RFT.
        return float(agreement(evidence.scores[evidence.order[:1]], answers.drops)[0])
