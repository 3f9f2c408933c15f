"""Faithful truthfulness: whether hiding a unit changes the probability as its score says, all units alike."""

from __future__ import annotations

from dataclasses import dataclass

from wherefrom.grading.evidence import Fill, Flags, Graded, Numbers
from wherefrom.metrics.rft import agreement
from wherefrom.registry import metric


@metric(better="higher", paper="Mylonas et al. 2023, Optimus, arXiv:2209.10876")
@dataclass(frozen=True, kw_only=True)
class FaithfulTruthfulness:
    fill: Fill = "unk"
    normalise: bool = True

    def questions(self, graded: Graded) -> Flags:
        return graded.each()

    def score(self, graded: Graded, whole: float, answers: Numbers) -> float:
        total = float(agreement(graded.scores[graded.real], whole - answers).sum())
        return total / len(graded) if self.normalise else total
