"""Similarity: the cosine of the embeddings of two texts. Each goes through the encoder by itself and is pooled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from wherefrom.core.encoding import Encoding
from wherefrom.errors import WherefromError
from wherefrom.model.tasks.classification import Classification
from wherefrom.model.tasks.several_rows import codes_of, gathered, has_types
from wherefrom.registry import register_task

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel

PoolingMode = Literal["mean", "cls", "max"]
LABEL = "similarity"
LEAST = 1e-12  # the length below which an embedding has no direction


@dataclass(frozen=True)
class EmbeddingSimilarity(Classification):
    """pooling: how the hidden states of a text become one vector. longest: tokens of each text that are read."""

    name = "similarity"
    auto = "AutoModel"
    endings = ("Model",)
    on_request = True  # or where a folder's modules.json says so
    position_depends_on_family = False
    finds_end_by_padding = False
    sample_pair = "It is, and it was."
    several_rows = "each of the two texts goes through the encoder by itself"
    unread_weights = ("pooler.",)  # which some encoders have, and the pooling of hidden states does not read
    pooling: PoolingMode = "mean"
    longest: int | None = None

    @property
    def bound(self) -> str:
        return f"{self.pooling} {self.longest}"

    def labels(self, model: TextModel) -> list[str]:
        del model
        return [LABEL]

    def regression(self, model: TextModel) -> bool:
        del model
        return True

    def read(self, model: TextModel, text: str, pair: str | None) -> Encoding:
        """The tokens of both texts, one after the other, each with the special tokens around it. The token types say
        which of the texts: the network gets its own.
        """
        if pair is None:
            raise WherefromError("Similarity is that of two texts: explain((one, other)), or --pair.")
        limits = [limit for limit in (model.reading.limit, self.longest) if limit is not None]
        first, second = (model.reading.tokenize(alone, None, min(limits, default=None)) for alone in (text, pair))
        return replace(
            first,
            pair=pair,
            tokens=first.tokens + second.tokens,
            input_ids=first.input_ids + second.input_ids,
            token_type_ids=(0,) * len(first) + (1,) * len(second),
            offsets=first.offsets + second.offsets,
            segment=first.segment + tuple(-1 if part < 0 else 1 for part in second.segment),
            cut=first.cut + second.cut,
        )

    def rows(
        self, model: TextModel, inputs: dict[str, Tensor], embeddings: Tensor | None
    ) -> tuple[dict[str, Tensor], Tensor | None]:
        chosen = [
            (row, [place for place, code in enumerate(codes) if code == part])
            for row, codes in enumerate(codes_of(inputs))
            for part in (0, 1)
        ]
        return gathered(model, inputs, embeddings, chosen, (lambda _: 0) if has_types(model) else None)

    def logits(self, output: Any, inputs: dict[str, Tensor], positions: Tensor | None) -> Tensor:
        """(row, 1)"""
        del positions
        hidden: Tensor = output[0] if isinstance(output, tuple) else output.last_hidden_state  # (row * 2, token, size)
        lengths = [codes.count(part) for codes in codes_of(inputs) for part in (0, 1)]
        there = (
            torch.arange(hidden.shape[1], device=hidden.device) < torch.tensor(lengths, device=hidden.device)[:, None]
        )
        first, second = self._pooled(hidden, there).unflatten(0, (-1, 2)).unbind(1)
        return torch.cosine_similarity(first, second, dim=-1, eps=LEAST)[:, None]

    def _pooled(self, hidden: Tensor, there: Tensor) -> Tensor:
        """(row, token, size) -> (row, size)"""
        if self.pooling == "cls":
            return hidden[:, 0]
        if self.pooling == "max":
            return hidden.masked_fill(~there[..., None], -torch.inf).amax(1)
        total = hidden.masked_fill(~there[..., None], 0.0).sum(1)
        return total / there.sum(-1, keepdim=True).clamp(min=1)


register_task(EmbeddingSimilarity())
