"""Raw attention: how much the deciding position looks at each token, in one layer, averaged over heads.

Of a model with an encoder and a decoder, one layer of the decoder: its cross-attention to the source, and beside it its
attention to the output so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.case.stacks import joint_attention
from wherefrom.errors import BadOption
from wherefrom.registry import Reads, method


def reads_of(options: Mapping[str, Any]) -> set[Reads]:
    return {"mean_attention" if options["head"] is None else "head_attention"}


@method(
    family="attention",
    signed=False,
    per_class=False,
    reads=reads_of,
    paper="Bahdanau et al. 2015, arXiv:1409.0473",
    one_pass=True,
)
def raw_attention(case: Case, *, layer: int = -1, head: int | None = None) -> Tensor:
    layers = joint_attention(case) if case.model.task.two_stacks else _layers(case, mean=head is None)
    if not -len(layers) <= layer < len(layers):
        raise BadOption(f"There is no layer {layer}: the model has {len(layers)}, numbered from 0.")
    probs = layers[layer]  # (head, query, key)
    if head is None:
        return case.read(probs.mean(0))
    if not -len(probs) <= head < len(probs):
        raise BadOption(f"There is no head {head}: the model has {len(probs)} in a layer, numbered from 0.")
    return case.read(probs[head])


def _layers(case: Case, *, mean: bool) -> list[Tensor]:
    """Every layer's attention, or the mean over heads as if it were a single head's. (head, query, key) each"""
    return [layer[None] for layer in case.mean_attention] if mean else case.attention(scores=False)
