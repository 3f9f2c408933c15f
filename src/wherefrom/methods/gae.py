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
from wherefrom.case.stacks import stack_products
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
    if case.model.task.two_stacks:
        return _of_two_stacks(case)
    row = case.row_read
    for weighted in reversed(case.attention_x_gradients(positive=True)):  # attention is never negative
        row = row + row.to(weighted.dtype) @ weighted
    return row


def _of_two_stacks(case: Case) -> Tensor:
    found = stack_products(case)
    source = torch.eye(len(found.encoder[0]), dtype=found.encoder[0].dtype, device=found.encoder[0].device)
    for weighted in found.encoder:
        source = source + weighted @ source
    output = torch.eye(len(found.decoder[0]), dtype=source.dtype, device=source.device)
    across = torch.zeros_like(found.cross[0])  # (output, source)
    for own, cross in zip(found.decoder, found.cross, strict=True):
        output, across = output + own @ output, across + own @ across
        across = across + _normalised(output).T @ cross @ _normalised(source)
    return case.read(torch.nn.functional.pad(torch.cat([across, output], -1), (0, 0, len(source), 0)))


def _normalised(relevance: Tensor) -> Tensor:
    """What was added to the identity, each row divided by its sum, and the identity; a row without anything stays."""
    identity = torch.eye(len(relevance), dtype=relevance.dtype, device=relevance.device)
    added = relevance - identity
    total = added.sum(-1, keepdim=True)
    return identity + added / total.masked_fill(total == 0, 1)
