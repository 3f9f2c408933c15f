"""What a causal model keeps of the beginning of a text: the keys and values of every layer, so that rows that begin
alike need not compute it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from transformers import DynamicCache


@dataclass(frozen=True)
class Prefix:
    """The keys and values of one text, from which the beginning of any length is taken."""

    layers: Sequence[tuple[Tensor, Tensor]]  # (1, head, token, size) each

    @classmethod
    def of(cls, cache: DynamicCache) -> Prefix:
        """What a forward pass of one row left in an empty cache."""
        layers: Sequence[Any] = cache.layers
        return cls([(layer.keys, layer.values) for layer in layers])

    def beginning(self, length: int, rows: int) -> DynamicCache:
        """A cache of the first tokens, for so many rows. It is new, because a forward pass adds to what it is given."""
        cache = empty_cache()
        for number, (keys, values) in enumerate(self.layers):
            start = [part[:, :, :length].expand(rows, -1, -1, -1) for part in (keys, values)]
            cache.update(start[0], start[1], number)
        return cache


def empty_cache() -> DynamicCache:
    """One that keeps all tokens of every layer. Made from a model's configuration, it would drop what is outside of a
    sliding window, which a shorter beginning still needs.
    """
    return DynamicCache()
