"""Metrics as another package would bring them through the entry point `wherefrom.metrics`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wherefrom.core.arrays import Flags, Numbers
from wherefrom.errors import NotDefined
from wherefrom.grading.evidence import Answers, Evidence, Fill, Measured
from wherefrom.registry import metric


@metric(better="lower", paper="none")
@dataclass(frozen=True, kw_only=True)
class DecisionFlip:
    """Decision flip: the share of the top units that must be hidden until the model decides otherwise."""

    wants_logits = True
    fill: Fill = "mask"

    def questions(self, evidence: Evidence) -> Flags:
        return evidence.without(range(1, len(evidence) + 1))

    def score(self, evidence: Evidence, answers: Answers) -> Measured:
        if answers.independent:  # the set of predicted labels changes
            flipped = ((answers.logits > 0) != (answers.whole_logits > 0)).any(-1)
        else:
            flipped = answers.logits.argmax(-1) != answers.whole_logits.argmax(-1)
            flipped = flipped.reshape(len(flipped), -1).any(-1)  # an answer has two ends
        if not flipped.any():
            raise NotDefined("the decision stays the same even with everything hidden")
        first = int(flipped.argmax())
        hidden = int((~answers.keep[first]).sum())
        return Measured(hidden / len(evidence), {"hidden": hidden, "flips": flipped.tolist()})


@metric(better="higher", paper="none")
@dataclass(frozen=True, kw_only=True)
class SignedGain:
    """Signed gain: the sum of the effects that the scores' signs predict, for one explanation or for many at once."""

    fill: Fill = "unk"

    def questions(self, evidence: Evidence) -> Flags:
        return evidence.each()

    def score(self, evidence: Evidence, answers: Answers) -> float:
        return float((np.sign(evidence.scores[evidence.real]) * answers.drops).sum())

    def score_many(self, scores: Numbers, answers: Answers) -> Numbers:
        gains: Numbers = np.sign(scores) @ answers.drops
        return gains
