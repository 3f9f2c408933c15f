"""Spearman: the correlation of the ranks that two models give the units of one text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from wherefrom.core.arrays import Numbers
from wherefrom.errors import NotDefined
from wherefrom.grading.evidence import Evidence
from wherefrom.registry import metric


@metric(better="higher", paper="Ferrando et al. 2022, ALTI", needs="second", group="robustness")
@dataclass(frozen=True, kw_only=True)
class Spearman:
    def score(self, evidence: Evidence) -> float:
        correlation = spearman(evidence.scores[evidence.real], evidence.need("second")[evidence.real])
        if np.isnan(correlation):
            raise NotDefined("all scores by one of the models are equal")
        return correlation


def spearman(a: Numbers, b: Numbers) -> float:
    """Correlation of ranks, equal scores sharing their mean rank; nan where all are equal."""
    ranks = np.stack([rankdata(a), rankdata(b)])
    spread = ranks.std(1)
    if not spread.all():
        return float("nan")
    return float(((ranks - ranks.mean(1, keepdims=True)).prod(0)).mean() / spread.prod())
