"""Soft comprehensiveness: how far the probability falls when word vectors lose elements in proportion to the scores.

Scores are scaled to lie between 0 (the lowest) and 1 (the highest). Every element of a unit's word vectors is set to
zero with a chance of its scaled score, so that no input is as far from ordinary texts as one without its words. A rise
counts as no fall; mean over draws.

normalise: divide by the fall when all units lose everything, as the paper does. That fall may be next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wherefrom.core.arrays import Numbers
from wherefrom.errors import BadOption, NotDefined
from wherefrom.grading.evidence import Answers, Evidence, Measured
from wherefrom.registry import metric


@metric(better="higher", paper="Zhao & Aletras 2023, arXiv:2305.10496", group="erasure")
@dataclass(frozen=True, kw_only=True)
class SoftComprehensiveness:
    draws: int = 8
    normalise: bool = False

    soft: ClassVar[bool] = True

    def questions(self, evidence: Evidence) -> Numbers:
        return soft_questions(evidence, 1 - scaled(evidence), self.draws)

    def score(self, evidence: Evidence, answers: Answers) -> Measured:
        del evidence
        falls = soft_falls(answers, self.normalise)
        return Measured(float(falls.mean()), {"draws": falls.tolist()})


def scaled(evidence: Evidence) -> Numbers:
    """The scores of the real units, the lowest 0 and the highest 1; special tokens 0. (unit,)"""
    scores = evidence.scores[evidence.real]
    if not len(scores) or np.ptp(scores) == 0:
        raise NotDefined("all scores are equal")
    found = np.zeros(len(evidence.scores))
    found[evidence.real] = (scores - scores.min()) / np.ptp(scores)
    return found


def soft_questions(evidence: Evidence, kept: Numbers, draws: int) -> Numbers:
    """First nothing is kept of the real units, then the same shares in every draw. (1 + draw, unit)"""
    if draws < 1:
        raise BadOption(f"At least one draw is needed, not {draws}.")
    rows = np.tile(kept, (1 + draws, 1))
    rows[0, evidence.real] = 0
    rows[:, evidence.special] = 1
    return rows


def soft_falls(answers: Answers, normalise: bool) -> Numbers:
    """How far the probability falls in every draw, at least zero; in units of the fall when nothing is kept. (draw,)"""
    falls: Numbers = np.maximum(answers.drops, 0)
    if not normalise:
        return falls[1:]
    if falls[0] <= 0:
        raise NotDefined("the probability does not fall when all word vectors are zero, so there is no scale")
    in_units: Numbers = falls[1:] / falls[0]
    return in_units
