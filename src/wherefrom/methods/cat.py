"""CAT: what each token's hidden state adds to the score, layer by layer, to first order.

CAT^l_i = sum_d h^l_id * dy/dh^l_id, summed over layers. h^l is what block l is given (hidden="input", as in the
published numbers) or what it gives (hidden="output", as the paper writes). Of a model with an encoder and a decoder,
the source is scored in the encoder's blocks, the output in the decoder's.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.case.stacks import stack_states
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
    if case.model.task.two_stacks:
        return _of_two_stacks(case, outputs=hidden == "output")
    places = slice(0, -1) if hidden == "input" else slice(1, None)
    states, slopes = torch.stack(case.hidden_states[places]), torch.stack(case.hidden_gradients[places])
    return (states * slopes).sum(-1)  # (layer, token)


def _of_two_stacks(case: Case, *, outputs: bool) -> Tensor:
    encoder, decoder = ([state.sum(-1) for state in stack] for stack in stack_states(case, outputs=outputs))
    source, nothing = len(encoder[0]), encoder[0].new_zeros
    found = nothing(max(len(encoder), len(decoder)), len(case.encoding))
    found[: len(encoder), :source] = torch.stack(encoder)
    found[: len(decoder), source:] = torch.stack(decoder)
    return found
