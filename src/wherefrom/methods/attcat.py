"""AttCAT: what each token's hidden state adds to the score in each layer, weighted by the attention the token receives
there.

sum_l a^l_i * CAT^l_i with a^l_i the mean over heads and queries of A^l[query, i]. See `cat` for the option `hidden`.
The option `layers` says how layers come together: `sum` is the paper's Eq. 12; `last` takes the last layer alone;
`rollout` is what the paper sets beside it in Fig. 4. That is a product of matrices, of which the paper gives no
formula. Here a layer's matrix is M^l[query, i] = mean_h A^l[query, i] * CAT^l_i, the impact before the mean over
queries is taken, each row divided by the sum of its absolute values; the scores are the mean over queries of
prod_l (0.5 I + 0.5 M^l), as attention rollout has it. Of a model with an encoder and a decoder, tokens of the source
receive the encoder's attention, those of the output the decoder's self-attention up to the deciding position.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.errors import BadOption
from wherefrom.methods.cat import cat
from wherefrom.registry import Reads, method

ROUNDING = 1e-6  # of the largest sum of a row in a layer


def reads_of(_: Mapping[str, Any]) -> set[Reads]:
    return {"hidden_gradients", "mean_attention"}


@method(
    family="gradient",
    signed=True,
    per_class=True,
    reads=reads_of,
    paper="Qiang et al. 2022 (AttCAT)",
    scale="derivative",
    sets={"compare": 2, "candidates": 2},
)
def attcat(
    case: Case,
    *,
    hidden: Literal["input", "output"] = "input",
    layers: Literal["sum", "rollout", "last"] = "sum",
) -> Tensor:
    impact, means = cat(case, hidden=hidden), case.mean_attention  # (layer, token)
    if layers == "rollout":
        if any(sublayer.crosses for sublayer in case.sublayers):
            raise BadOption("attcat:layers=rollout follows one stack of layers, and there are two: take layers=sum.")
        return _rollout(torch.stack(means) * impact[:, None])
    received = torch.zeros_like(impact)  # by every token, in each layer of its own stack
    for sublayer, mean in zip(case.sublayers, means, strict=True):
        if not sublayer.crosses:
            received[sublayer.layer, sublayer.keys] = mean[sublayer.queries, sublayer.keys].mean(0).to(received)
    return received[-1] * impact[-1] if layers == "last" else received * impact


def _rollout(matrices: Tensor) -> Tensor:
    """(layer, query, token) -> (token,)"""
    totals = matrices.abs().sum(-1, keepdim=True)
    # Below a norm, the impact of tokens that are not read is zero but for rounding, which has no shares.
    rounding = totals <= ROUNDING * totals.amax(1, keepdim=True)
    shares = torch.where(rounding, 0, matrices / totals.masked_fill(rounding, 1))
    residual = torch.eye(matrices.shape[-1]).to(matrices)
    rows = torch.full((matrices.shape[-1],), 1 / matrices.shape[-1]).to(matrices)
    for share in shares.flip(0):  # one row, from the top layer down
        rows = rows @ (0.5 * residual + 0.5 * share)
    return rows
