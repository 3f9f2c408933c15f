"""Non-zero share: the share of units whose score is not exactly zero."""

from __future__ import annotations

from dataclasses import dataclass

from wherefrom.grading.evidence import Evidence
from wherefrom.registry import metric


@metric(better="lower", paper="Mylonas et al. 2023, Optimus, arXiv:2209.10876", group="shape")
@dataclass(frozen=True, kw_only=True)
class NonzeroShare:
    def score(self, evidence: Evidence) -> float:
        return float((evidence.scores[evidence.real] != 0).mean())
