"""Transformer attribution: how much of each token reaches the deciding position, attention counted by its relevance and
its gradient.

A_bar^l = I + E_h (dy/dA^l * R_A^l)+, with R_A by the z+ rules as in `lrp`; rows divided by their sum unless `normalise`
is off; the product over the layers, the deciding position's row.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.methods.lrp import PassPrecision, relevance_reads
from wherefrom.model.relevance.propagation import Propagation
from wherefrom.registry import method


@method(
    family="relevance",
    signed=False,
    per_class=True,
    reads=relevance_reads,
    paper="Chefer et al. 2021, arXiv:2012.09838",
    one_pass=True,
)
def transatt(case: Case, *, normalise: bool = True, precision: PassPrecision = "double") -> Tensor:
    return rolled_out(case, case.weighted_attention(Propagation("zplus", double=precision == "double")), normalise)


def rolled_out(case: Case, layers: Sequence[Tensor], normalise: bool) -> Tensor:
    """The deciding position's row of the product of all A_bar, carried from the top layer down. Each given without I:
    (query, key).
    """
    row = case.row_read
    for part in reversed(layers):
        mixed = part + torch.eye(len(part), dtype=part.dtype, device=part.device)
        if normalise:
            mixed = mixed / mixed.sum(-1, keepdim=True)
        row = row.to(mixed.dtype) @ mixed
    return row
