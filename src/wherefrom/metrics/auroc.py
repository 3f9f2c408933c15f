"""AUROC: the chance that a unit that people marked scores higher than one that they did not."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.stats import rankdata

from wherefrom.grading.evidence import Evidence
from wherefrom.registry import metric


@metric(better="higher", paper="DeYoung et al. 2020, ERASER, arXiv:1911.03429", needs="rationale", group="plausibility")
@dataclass(frozen=True, kw_only=True)
class Auroc:
    def score(self, evidence: Evidence) -> float:
        marked = evidence.marked("rationale")
        inside, outside = int(marked.sum()), int((~marked).sum())
        ranks = rankdata(
            evidence.scores[evidence.real]
        )  # equal scores share their mean rank, so such a pair counts as a half
        return float((ranks[marked].sum() - inside * (inside + 1) / 2) / (inside * outside))
