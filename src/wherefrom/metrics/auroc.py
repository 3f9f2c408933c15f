"""AUROC: the chance that a unit that people marked scores higher than one that they did not."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.stats import rankdata

from wherefrom.errors import NotDefined
from wherefrom.grading.evidence import Graded, Numbers
from wherefrom.registry import metric


@metric(better="higher", paper="DeYoung et al. 2020, ERASER, arXiv:1911.03429", needs="rationale")
@dataclass(frozen=True, kw_only=True)
class Auroc:
    def score(self, graded: Graded, whole: float, answers: Numbers) -> float:
        del whole, answers
        marked = graded.marked("rationale")
        inside, outside = int(marked.sum()), int((~marked).sum())
        if not outside:
            raise NotDefined("the rationale is the whole text")
        ranks = rankdata(graded.scores[graded.real])  # equal scores share their mean rank: such a pair counts a half
        return float((ranks[marked].sum() - inside * (inside + 1) / 2) / (inside * outside))
