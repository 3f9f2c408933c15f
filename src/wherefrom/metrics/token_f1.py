"""Token F1: of as many top units as the rationale has, the share that people marked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wherefrom.grading.evidence import Evidence
from wherefrom.registry import metric


@metric(better="higher", paper="DeYoung et al. 2020, ERASER, arXiv:1911.03429", needs="rationale", group="plausibility")
@dataclass(frozen=True, kw_only=True)
class TokenF1:
    def score(self, evidence: Evidence) -> float:
        rationale = evidence.real[evidence.marked("rationale")]
        # As many are predicted as there are, so precision, recall and F1 are one number.
        return float(np.isin(evidence.order[: len(rationale)], rationale).mean())
