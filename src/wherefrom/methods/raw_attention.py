"""Raw attention: how much the deciding position looks at each token, in one layer, averaged over heads.

Of a model with an encoder and a decoder, one layer of the decoder: its cross-attention to the source, and beside it its
attention to the output so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from wherefrom.case.case import Case
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
    mean = head is None
    layers = case.by_layer([part[None] for part in case.mean_attention] if mean else case.head_attention)
    if not -len(layers) <= layer < len(layers):
        raise BadOption(f"There is no layer {layer}: the model has {len(layers)}, numbered from 0.")
    probs = layers[layer]  # (head, query, key)
    if head is None:
        return case.read(probs.mean(0))
    if not -len(probs) <= head < len(probs):
        raise BadOption(f"There is no head {head}: the model has {len(probs)} in a layer, numbered from 0.")
    return case.read(probs[head])
