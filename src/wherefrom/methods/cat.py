"""CAT: what each token's hidden state adds to the score, layer by layer, to first order.

CAT^l_i = sum_d h^l_id * dy/dh^l_id, summed over layers. h^l is what block l is given (hidden="input", as in the
published numbers) or what it gives (hidden="output", as the paper writes). Of a model with an encoder and a decoder,
the source is scored in the encoder's blocks, the output in the decoder's.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.registry import method


@method(
    family="gradient",
    signed=True,
    per_class=True,
    reads="hidden_gradients",
    paper="Qiang et al. 2022 (AttCAT)",
    one_pass=True,
    scale="derivative",
)
def cat(case: Case, *, hidden: Literal["input", "output"] = "input") -> Tensor:
    return (case.hidden_states(hidden) * case.hidden_gradients(hidden)).sum(-1)  # (layer, token)
