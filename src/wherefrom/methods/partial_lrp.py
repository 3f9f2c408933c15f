"""Partial LRP: how much relevance the deciding position's attention to each token has in the top block.

E_h (R_A)+, the deciding position's row: relevance by the z+ rules, as in `lrp`, carried no further than the top block's
attention.
"""

from __future__ import annotations

from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.methods.lrp import PassPrecision, relevance_reads
from wherefrom.registry import method


@method(
    family="relevance",
    signed=False,
    per_class=True,
    reads=relevance_reads,
    paper="Voita et al. 2019, arXiv:1905.09418",
    one_pass=True,
)
def partial_lrp(case: Case, *, precision: PassPrecision = "model") -> Tensor:
    (relevance,) = case.relevance("zplus", "top", double=precision == "double")  # (head, query, key)
    return case.read(relevance.clamp(min=0).mean(0))
