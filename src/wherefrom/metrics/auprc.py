"""AUPRC: the area under the precision-recall curve of the scores against what people marked (average precision)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wherefrom.core.arrays import Flags, Numbers
from wherefrom.grading.evidence import Evidence, Variant
from wherefrom.registry import metric


@metric(better="higher", paper="DeYoung et al. 2020, ERASER, arXiv:1911.03429", needs="rationale", group="plausibility")
@dataclass(frozen=True, kw_only=True)
class Auprc:
    variant: Variant = "paper"

    def score(self, evidence: Evidence) -> float:
        marked = evidence.marked("rationale")
        precision, recall = curve(evidence.scores[evidence.real], marked)
        if self.variant == "published":  # Optimus joins the points by straight lines, from precision one at recall zero
            return float(np.trapezoid([1.0, *precision], [0.0, *recall]))
        return float((precision * np.diff(recall, prepend=0)).sum())


def curve(scores: Numbers, marked: Flags) -> tuple[Numbers, Numbers]:
    """Precision and recall at every threshold from the highest down; equal scores pass it together. (threshold,)
    each
    """
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.diff(scores[order], append=-np.inf))  # where a group of equal scores ends
    hits = np.cumsum(marked[order])[last]
    return hits / (last + 1), hits / marked.sum()
