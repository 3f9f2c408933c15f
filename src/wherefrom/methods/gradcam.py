"""GradCAM: the last layer's attention, each head weighted by how much the score rises with it.

The deciding position's row of relu(mean_h (A^L * mean over queries and keys of dy/dA^L)). Of a model with an encoder
and a decoder, L is the decoder's last layer; the heads of its cross-attention and of its self-attention have weights of
their own, over the output up to the deciding position.
"""

from __future__ import annotations

from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.case.stacks import joint_attention, joint_gradients, read_so_far
from wherefrom.registry import method


@method(
    family="attention",
    signed=False,
    per_class=True,
    reads="last_attention_gradient",
    paper="Selvaraju et al. 2017, arXiv:1610.02391",
)
def gradcam(case: Case) -> Tensor:
    if case.model.task.two_stacks:
        return case.read((joint_attention(case)[-1] * _joint_weights(case)).mean(0).relu())
    weight = case.last_attention_gradient.mean((1, 2), keepdim=True)  # (head, 1, 1)
    return case.read((case.capture.attention[-1].probs * weight).mean(0).relu())


def _joint_weights(case: Case) -> Tensor:
    """Of every head of the decoder's last layer: one weight at the source, one at the output. (head, 1, token)"""
    slopes, so_far = joint_gradients(case)[-1], read_so_far(case)
    weights = slopes.new_zeros(len(slopes), 1, slopes.shape[-1])
    for keys in (slice(0, so_far.start), so_far):
        weights[:, :, keys] = slopes[:, so_far, keys].mean((1, 2))[:, None, None]
    return weights
