"""Attention times gradient: what the attention of the deciding position to each token added to the score, over all
layers.

The deciding position's row of sum_l mean_h (dy/dA^l * A^l). With relu=True only positive gradients count, as in
Grad-SAM. Of a model with an encoder and a decoder, the layers of the decoder: cross-attention to the source, and beside
it attention to the output so far.
"""

from __future__ import annotations

import torch

from wherefrom.case.case import Attribution, Case
from wherefrom.registry import method


@method(
    family="attention",
    signed=True,
    per_class=True,
    reads="attention_x_gradients",
    paper="Barkan et al. 2021 (Grad-SAM), arXiv:2204.11073",
    one_pass=True,
    scale="derivative",
)
def attention_x_gradient(case: Case, *, relu: bool = False) -> Attribution:
    rows = case.by_layer([case.read(weighted) for weighted in case.attention_x_gradients(positive=relu)])
    return Attribution(torch.stack(rows), signed=not relu)  # (layer, token)
