"""What a network is called with, and which ids it looks up on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class NetworkCall:
    """The arguments of one forward pass, and its lookups: the ids, and the word vectors that stand in for them, in the
    order in which the network looks them up. Without vectors, the network looks up its own.
    """

    arguments: dict[str, Any]
    lookups: tuple[tuple[Tensor, Tensor | None], ...]


def plain_call(inputs: dict[str, Tensor], embeddings: Tensor | None) -> NetworkCall:
    """The inputs as they are, for networks that read one text in one go."""
    return NetworkCall(dict(inputs), ((inputs["input_ids"], embeddings),))
