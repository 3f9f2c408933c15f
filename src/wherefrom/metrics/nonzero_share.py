"""Non-zero share: the share of units whose score is not exactly zero."""

from __future__ import annotations

from dataclasses import dataclass

from wherefrom.grading.evidence import Graded, Numbers
from wherefrom.registry import metric


@metric(better="lower", paper="Mylonas et al. 2023, Optimus, arXiv:2209.10876")
@dataclass(frozen=True, kw_only=True)
class NonzeroShare:
    def score(self, graded: Graded, whole: float, answers: Numbers) -> float:
        del whole, answers
        return float((graded.scores[graded.real] != 0).mean())
