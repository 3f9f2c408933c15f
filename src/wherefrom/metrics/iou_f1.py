"""IOU F1: how well the runs of top units match the runs that people marked; half an overlap is a match."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wherefrom.core.arrays import Flags
from wherefrom.errors import BadOption
from wherefrom.grading.evidence import Evidence
from wherefrom.registry import metric


@metric(better="higher", paper="DeYoung et al. 2020, ERASER, arXiv:1911.03429", needs="rationale", group="plausibility")
@dataclass(frozen=True, kw_only=True)
class IouF1:
    threshold: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise BadOption(f"iou_f1 takes a threshold above 0 and up to 1, not {self.threshold}.")

    def score(self, evidence: Evidence) -> float:
        marked = evidence.marked("rationale")
        top = np.isin(evidence.real, evidence.order[: int(marked.sum())])
        rationale, predicted = runs(marked), runs(top)
        precision, recall = (
            sum(any(self._match(run, other) for other in others) for run in ones) / len(ones)
            for ones, others in ((predicted, rationale), (rationale, predicted))
        )
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0

    def _match(self, run: set[int], other: set[int]) -> bool:
        return len(run & other) / len(run | other) >= self.threshold


def runs(flags: Flags) -> list[set[int]]:
    """Stretches of neighbours that are all marked."""
    sets: list[set[int]] = []
    for place in np.flatnonzero(flags).tolist():
        if sets and place - 1 in sets[-1]:
            sets[-1].add(place)
        else:
            sets.append({place})
    return sets
