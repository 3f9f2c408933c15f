"""Ranked faithful truthfulness: whether hiding a unit changes the probability as its score says, the important units
first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from wherefrom.core.arrays import Flags, Numbers
from wherefrom.grading.evidence import Answers, Evidence, Fill
from wherefrom.registry import metric


@metric(better="higher", paper="Mylonas et al. 2023, Optimus, arXiv:2209.10876", group="one at a time")
@dataclass(frozen=True, kw_only=True)
class Rft:
    fill: Fill = "unk"
    normalise: bool = True  # without 1/S, as in the paper's tables, where not

    def questions(self, evidence: Evidence) -> Flags:
        return evidence.each()

    def score(self, evidence: Evidence, answers: Answers) -> float:
        return float(rft(evidence.scores[evidence.real], answers.drops, normalise=self.normalise))

    def score_many(self, scores: Numbers, answers: Answers) -> Numbers:
        return rft(scores, answers.drops, normalise=self.normalise)

    def slopes(self, scores: Numbers) -> tuple[Numbers, Numbers]:
        """What each unit adds for every unit of effect: where the probability falls, and where it rises when the unit
        is hidden. The score is the sum over units. (..., unit) -> (..., unit) each
        """
        ranks = rankdata(-np.abs(scores), method="max", axis=-1)
        units = scores.shape[-1] if self.normalise else 1
        unit_effects = np.ones(scores.shape[-1])
        return agreement(scores, unit_effects) / ranks / units, agreement(scores, -unit_effects) / ranks / units


def rft(scores: Numbers, effects: Numbers, *, normalise: bool = True) -> Numbers:
    """Ranks are by absolute score, and units that tie share the worst rank. (..., unit), (unit,) -> (...)"""
    ranks = rankdata(-np.abs(scores), method="max", axis=-1)
    total: Numbers = (agreement(scores, effects) / ranks).sum(-1)
    return total / scores.shape[-1] if normalise else total


def agreement(scores: Numbers, effects: Numbers) -> Numbers:
    """Equation 2 of the Optimus paper. (..., unit)

    An effect counts for a score of the same sign and against one of the opposite sign; a score of zero counts against.
    """
    agreements: Numbers = np.where(scores == 0, -np.abs(effects), np.sign(scores) * effects)
    return agreements
