"""AttCAT: what each token's hidden state adds to the score in each layer, weighted by the attention the token receives
there.

sum_l a^l_i * CAT^l_i with a^l_i the mean over heads and queries of A^l[query, i]. See `cat` for the option `hidden`.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.methods.cat import cat
from wherefrom.registry import method


@method(family="gradient", signed=True, per_class=True, reads="hidden_gradients", paper="Qiang et al. 2022 (AttCAT)")
def attcat(case: Case, *, hidden: Literal["input", "output"] = "input") -> Tensor:
    received = torch.stack([layer.probs.mean((0, 1)) for layer in case.capture.attention])  # (layer, token)
    return received * cat(case, hidden=hidden)
