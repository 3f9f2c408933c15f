"""What replaces a hidden token."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from wherefrom.errors import MissingToken

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel

FILLS = ("mask", "unk", "pad", "eos")  # kinds of token that can replace a hidden one, best first
SAMPLE = "sample"  # words that a masked language model expects there: see `filling`


class Hiding(Protocol):
    @property
    def fills(self) -> dict[str, int]:
        """The ids that can replace a hidden token, by kind; the best first."""

    @property
    def marks(self) -> frozenset[int]:
        """Ids whose places decide the answer beside the words, so that two rows of the same words may differ."""

    def usual_fill(self) -> str:
        """The best replacement of a hidden token that this model has."""

    def start_token(self) -> int:
        """The only token of a text of which nothing is left."""


@dataclass(frozen=True, eq=False)
class TokenHiding:
    """Hiding with the special tokens of a tokenizer."""

    tokenizer: PreTrainedTokenizerBase
    padding: int | None  # the id of padding, by the model's configuration

    @cached_property
    def fills(self) -> dict[str, int]:
        return self._special(FILLS)

    @cached_property
    def marks(self) -> frozenset[int]:
        """Padding says where positions start; a mask is where a prediction is read."""
        return frozenset(token for token in (self.padding, self.tokenizer.mask_token_id) if token is not None)

    def usual_fill(self) -> str:
        if not self.fills:
            raise MissingToken("The tokenizer has no mask, unk, pad or eos token, so no word can be hidden.")
        return next(iter(self.fills))

    def start_token(self) -> int:
        for token in self._special(("bos", "cls", "eos", "pad", "unk")).values():
            return token
        raise MissingToken(
            "Nothing is left of the text, and the tokenizer has no token that could stand for an empty one."
        )

    def _special(self, kinds: tuple[str, ...]) -> dict[str, int]:
        ids = {kind: getattr(self.tokenizer, f"{kind}_token_id", None) for kind in kinds}
        return {kind: int(token) for kind, token in ids.items() if token is not None}


def fill_token(model: TextModel, fill: str) -> int:
    """The id that replaces a hidden token."""
    fills = model.hiding.fills
    if fill not in fills:
        raise MissingToken(
            f"The tokenizer has no {fill} token to hide words with. Choose another fill: {', '.join(fills) or 'none'}."
        )
    return fills[fill]


def fill_in_place(model: TextModel, fill: str) -> str:
    """The fill that is used where this one is requested: nothing is deleted where every position has its own answer."""
    return model.hiding.usual_fill() if fill == "delete" and model.task.answers_by_position else fill


def fill_vector(model: TextModel, fill: str) -> Tensor:
    """The word embedding of the token that replaces a hidden one. (1, size)"""
    with torch.no_grad():
        return model.network.embed(torch.tensor([fill_token(model, fill)], device=model.network.device))
