"""Randomisation: how much of the explanation is left when the model's weights are shuffled.

The size of Spearman's correlation between the scores and those that the same method gives the same target with a copy
of the model in which the entries of every weight have changed places. Near 0: the scores depend on what the model has
learned. Near 1: the method describes the text. All weights are shuffled at once, not layer by layer, as in the
efficient form of the test (Hedström et al. 2024, arXiv:2401.06465).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wherefrom.errors import NotDefined
from wherefrom.grading.evidence import Evidence
from wherefrom.metrics.spearman import spearman
from wherefrom.registry import metric


@metric(better="lower", paper="Adebayo et al. 2018, arXiv:1810.03292", needs="randomised", group="robustness")
@dataclass(frozen=True, kw_only=True)
class Randomisation:
    def score(self, evidence: Evidence) -> float:
        correlation = spearman(evidence.scores[evidence.real], evidence.need("randomised")[evidence.real])
        if np.isnan(correlation):
            raise NotDefined("all scores are equal, before or after the weights are shuffled")
        return abs(correlation)
