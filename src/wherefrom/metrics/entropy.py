"""Entropy: how widely the scores are spread in size, from 0 (all on one unit) to 1 (all alike)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wherefrom.errors import NotDefined
from wherefrom.grading.evidence import Evidence
from wherefrom.registry import metric


@metric(better="lower", paper="Meister et al. 2021, arXiv:2106.01087", group="shape")
@dataclass(frozen=True, kw_only=True)
class Entropy:
    normalise: bool = True  # by the logarithm of the number of units; in nats where not

    def score(self, evidence: Evidence) -> float:
        sizes = np.abs(evidence.scores[evidence.real])
        if not sizes.any():
            raise NotDefined("every score is zero")
        shares = sizes[sizes > 0] / sizes.sum()
        nats = float(-(shares * np.log(shares)).sum())
        return abs(nats / float(np.log(len(sizes))) if self.normalise and len(sizes) > 1 else nats)
