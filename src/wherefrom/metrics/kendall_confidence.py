"""Kendall confidence: how alike the ranking for this class is to the rankings for the other classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import kendalltau

from wherefrom.errors import NotDefined
from wherefrom.grading.evidence import Evidence, Variant
from wherefrom.registry import metric


@metric(better="lower", paper="Qiang et al. 2022, AttCAT", needs="others", group="classes")
@dataclass(frozen=True, kw_only=True)
class KendallConfidence:
    variant: Variant = "paper"

    def score(self, evidence: Evidence) -> float:
        others = evidence.need("others")
        if len(evidence) < 2:
            raise NotDefined("a text of one unit has no ranking")
        if self.variant == "published":  # the order's positions instead of the ranks, special tokens included
            places = [np.argsort(-scores, kind="stable") for scores in (evidence.scores, *others)]
        else:
            places = [scores[evidence.real] for scores in (evidence.scores, *others)]
        if any(np.ptp(ranking) == 0 for ranking in places):
            raise NotDefined("all scores for a class are equal, so they rank nothing")
        return float(np.mean([kendalltau(places[0], other).statistic for other in places[1:]]))
