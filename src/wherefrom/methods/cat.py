"""CAT: what each token's hidden state adds to the score, layer by layer, to first order.

CAT^l_i = sum_d h^l_id * dy/dh^l_id, summed over layers. h^l is what block l is given (hidden="input", as in the
published numbers) or what it gives (hidden="output", as the paper writes).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.registry import method


@method(family="gradient", signed=True, per_class=True, reads="hidden_gradients", paper="Qiang et al. 2022 (AttCAT)")
def cat(case: Case, *, hidden: Literal["input", "output"] = "input") -> Tensor:
    places = slice(0, -1) if hidden == "input" else slice(1, None)
    states, slopes = torch.stack(case.capture.hidden[places]), torch.stack(case.hidden_gradients[places])
    return (states * slopes).sum(-1)  # (layer, token)
