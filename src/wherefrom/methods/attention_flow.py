"""Attention flow: how much could flow from each token to the deciding position, attention weights being the pipes'
widths.

The layers are a graph: node (l, i) is token i after l blocks, and a pipe of width 0.5 A + 0.5 I (mean over heads) leads
from (l + 1, i) to (l, j). A token's score is the maximum flow between the top node of the deciding position and its own
node at the bottom. One maximum-flow problem per token, each over every pipe: the time grows with the third power of the
length, so that a long text is refused unless it is told to be `patient`. Of a model with an encoder and a decoder every
attention is a layer of the graph, as in `attention_rollout`.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow
from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.errors import BadOption
from wherefrom.registry import method

# Pipes times problems that are solved without being asked twice: up to 400 tokens through six layers.
MOST = 400_000_000
SECONDS = 9e-8  # of each of them, measured on random attention of 64 to 256 tokens (2026-11-16)
UNIT = 2**30  # the solver takes whole numbers: all that leaves one node, as a 32-bit number, good to nine digits


@method(
    family="attention",
    signed=False,
    per_class=False,
    reads="mean_attention",
    paper="Abnar & Zuidema 2020, arXiv:2005.00928",
    one_pass=True,
    slow=True,
)
def attention_flow(case: Case, *, patient: bool = False) -> Tensor:
    widths = torch.stack(list(map(_mixed, case.mean_attention))).double().cpu().numpy()  # (layer, query, key)
    depth, tokens, _ = widths.shape
    if depth * tokens**3 > MOST and not patient:
        raise BadOption(
            f"attention_flow solves {tokens} maximum-flow problems over {depth * tokens**2:,} pipes each, which takes"
            f" about {depth * tokens**3 * SECONDS:.0f} seconds or more. Shorten the text, take attention_rollout, or"
            " wait with patient=True."
        )
    layer, query, key = np.meshgrid(np.arange(depth), np.arange(tokens), np.arange(tokens), indexing="ij")
    upper, lower = (layer + 1) * tokens + query, layer * tokens + key
    source = (depth + 1) * tokens  # feeds the position, or positions, that the decision is read from
    read = case.row_read.double().cpu().numpy()
    start = np.concatenate([upper.ravel(), np.full(tokens, source)])
    end = np.concatenate([lower.ravel(), depth * tokens + np.arange(tokens)])
    width = np.rint(np.concatenate([widths.ravel(), read]) * UNIT).astype(np.int32)
    graph = coo_array((width, (start, end)), shape=(source + 1, source + 1)).tocsr()
    flows = [maximum_flow(graph, source, token).flow_value / UNIT for token in range(tokens)]
    return torch.tensor(flows, dtype=torch.float64)


def _mixed(mean: Tensor) -> Tensor:
    """Attention, the mean over heads, and the residual, half and half; a token that does not attend keeps what it has.
    (query, key)
    """
    return 0.5 * mean + torch.where(mean.any(-1), 0.5, 1.0).to(mean).diag()
