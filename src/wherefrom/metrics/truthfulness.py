"""Truthfulness: the share of units whose hiding moves the probability the way their score's sign says."""

from __future__ import annotations

from dataclasses import dataclass

from wherefrom.grading.evidence import Fill, Flags, Graded, Numbers
from wherefrom.metrics.rft import agreement
from wherefrom.registry import metric


@metric(better="higher", paper="Mollas et al. 2022, Altruist; Mylonas et al. 2023, Optimus, arXiv:2209.10876")
@dataclass(frozen=True, kw_only=True)
class Truthfulness:
    fill: Fill = "unk"

    def questions(self, graded: Graded) -> Flags:
        return graded.each()

    def score(self, graded: Graded, whole: float, answers: Numbers) -> float:
        return float((agreement(graded.scores[graded.real], whole - answers) > 0).mean())
