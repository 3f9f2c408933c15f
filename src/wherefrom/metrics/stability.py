"""Stability: how alike the ranks of the units stay under small edits of the text that do not change the decision.

The mean, over edits of case, punctuation, white space and the order of lists, of Spearman's correlation between the
scores of the text and of the edited text, over the units that are in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from wherefrom.errors import NotDefined
from wherefrom.grading.evidence import Evidence, Measured
from wherefrom.metrics.jaccard_25 import jaccard
from wherefrom.metrics.spearman import spearman
from wherefrom.registry import metric

LEAST_UNITS = 2  # that both texts share


@metric(
    better="higher",
    paper="after Alvarez-Melis & Jaakkola 2018, arXiv:1806.08049",
    needs="edited",
    group="robustness",
)
@dataclass(frozen=True, kw_only=True)
class Stability:
    by: Literal["ranks", "top"] = "ranks"  # top: of the units in the top quarter of either, the share that is in both

    def score(self, evidence: Evidence) -> Measured:
        scores = evidence.scores[evidence.real]
        values: dict[str, float] = {}
        for name, row in zip(evidence.edits, evidence.need("edited")[:, evidence.real], strict=True):
            known = ~np.isnan(row)
            if known.sum() < LEAST_UNITS:
                continue
            compare = spearman if self.by == "ranks" else jaccard
            value = compare(scores[known], row[known])
            if np.isfinite(value):
                values[name] = value
        if not values:
            raise NotDefined("no edited text shares two units with this one whose scores differ")
        return Measured(float(np.mean(list(values.values()))), {"edits": values})
