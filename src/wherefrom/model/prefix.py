"""The keys and values of the beginning of a text in a causal model, shared by rows that begin alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor
from transformers import DynamicCache

from wherefrom.model.network import padded_inputs

if TYPE_CHECKING:
    from wherefrom.model.text_model import PassCount, TextModel


@dataclass(frozen=True)
class Prefix:
    """The keys and values of one text, from which the beginning of any length is taken."""

    layers: Sequence[tuple[Tensor, Tensor]]  # (1, head, token, size) each

    @classmethod
    def of(
        cls, model: TextModel, ids: Sequence[int], types: Sequence[int] | None, count: PassCount | None = None
    ) -> Prefix:
        """One forward pass over a text."""
        # A cache made from the model's configuration would drop what is outside of a sliding window, which a shorter
        # beginning still needs.
        cache = DynamicCache()
        model.run(padded_inputs(model.network, [ids], [types]), count, check=False, cache=cache)
        return cls._of_cache(cache)

    @classmethod
    def _of_cache(cls, cache: DynamicCache) -> Prefix:
        layers: Sequence[Any] = cache.layers
        return cls([(layer.keys, layer.values) for layer in layers])

    def beginning(self, length: int, rows: int) -> DynamicCache:
        """A cache of the first tokens, for so many rows. It is new, because a forward pass adds to what it is given."""
        cache = DynamicCache()
        for number, (keys, values) in enumerate(self.layers):
            start = [part[:, :, :length].expand(rows, -1, -1, -1) for part in (keys, values)]
            cache.update(start[0], start[1], number)
        return cache

    def extended(
        self, model: TextModel, length: int, inputs: dict[str, Tensor], count: PassCount | None = None
    ) -> tuple[Tensor, Prefix]:
        """The logits of one row that begins with the first `length` tokens of this text, and the prefix of that row."""
        cache = self.beginning(length, 1)
        rest = {name: value[:, length:] for name, value in inputs.items()}
        return model.run(rest, count, cache=cache), self._of_cache(cache)

    def run(
        self,
        model: TextModel,
        length: int,
        inputs: dict[str, Tensor],
        count: PassCount | None = None,
        embeddings: Tensor | None = None,
    ) -> Tensor:
        """The logits of rows that all begin with the first `length` tokens of this text: only the tokens after these go
        through the model. Inputs and embeddings are those of whole rows. See `TextModel.shares_prefixes`.
        """
        rest = {name: value[:, length:] for name, value in inputs.items()}
        after = None if embeddings is None else embeddings[:, length:]
        return model.run(rest, count, after, check=False, cache=self.beginning(length, len(inputs["input_ids"])))
