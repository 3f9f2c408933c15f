"""GAE: how much of each token reaches the deciding position, each head's attention counted by its gradient.

R <- R + E_h (dy/dA^l * A^l)+ R, from R = I, the deciding position's row. (What the Mask-LRP paper's code calls GAE is
`transatt`.)

Of a model with an encoder and a decoder, as the paper has it for DETR: R_ss of the source by the encoder's layers; then
for each layer of the decoder R_oo <- R_oo + A_oo R_oo and R_os <- R_os + A_oo R_os by its self-attention, and R_os <-
R_os + N(R_oo)^T A_os N(R_ss) by its cross-attention. A are the weighted attentions as above; N divides what was added
to the identity by the sum of its row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.registry import method


@method(
    family="relevance",
    signed=False,
    per_class=True,
    reads="attention_x_gradients",
    paper="Chefer et al. 2021, arXiv:2103.15679",
    one_pass=True,
    sets={"compare": 5, "candidates": 5},
)
def gae(case: Case) -> Tensor:
    layers = case.attention_x_gradients(positive=True)  # attention is never negative
    if any(sublayer.crosses for sublayer in case.sublayers):
        return case.read(_across_stacks(case, layers))
    row = case.row_read
    for weighted in reversed(layers):
        row = row + row.to(weighted.dtype) @ weighted
    return row


def _across_stacks(case: Case, layers: list[Tensor]) -> Tensor:
    """The whole of R, from the bottom up, because cross-attention reads what its stacks hold by then. (token, token)"""
    relevance = torch.eye(len(case.encoding)).to(layers[0])
    for sublayer, weighted in zip(case.sublayers, layers, strict=True):
        added, queries, keys = weighted @ relevance, sublayer.queries, sublayer.keys
        if sublayer.crosses:
            added = torch.zeros_like(relevance)
            inside, read = _normalised(relevance[queries, queries]), _normalised(relevance[keys, keys])
            added[queries, keys] = inside.T @ weighted[queries, keys] @ read
        relevance = relevance + added
    return relevance


def _normalised(relevance: Tensor) -> Tensor:
    """What was added to the identity, each row divided by its sum, and the identity; a row without anything stays."""
    identity = torch.eye(len(relevance), dtype=relevance.dtype, device=relevance.device)
    added = relevance - identity
    total = added.sum(-1, keepdim=True)
    return identity + added / total.masked_fill(total == 0, 1)
