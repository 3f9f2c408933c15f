"""AUROC: the chance that a unit that people marked scores higher than one that they did not."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.stats import rankdata

from wherefrom.core.arrays import Numbers
from wherefrom.errors import NotDefined
from wherefrom.grading.evidence import Evidence
from wherefrom.registry import metric


@metric(better="higher", paper="DeYoung et al. 2020, ERASER, arXiv:1911.03429", needs="rationale")
@dataclass(frozen=True, kw_only=True)
class Auroc:
    def score(self, evidence: Evidence, whole: float, answers: Numbers) -> float:
        del whole, answers
        marked = evidence.marked("rationale")
        inside, outside = int(marked.sum()), int((~marked).sum())
        if not outside:
            raise NotDefined("the rationale is the whole text")
        ranks = rankdata(
            evidence.scores[evidence.real]
        )  # equal scores share their mean rank: such a pair counts a half
        return float((ranks[marked].sum() - inside * (inside + 1) / 2) / (inside * outside))
