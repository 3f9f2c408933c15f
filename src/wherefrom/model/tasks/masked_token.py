"""Masked language models: which token stands at the mask."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import Tensor

from wherefrom.core.encoding import Encoding
from wherefrom.core.units import Span
from wherefrom.errors import EmptyText, MissingToken, WherefromError
from wherefrom.model.tasks.task import USUAL_METHODS
from wherefrom.model.tasks.tokens import TokenTask

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel


@dataclass(frozen=True)
class MaskedToken(TokenTask):
    name: str = "masked_lm"
    endings: tuple[str, ...] = ("ForMaskedLM",)
    auto: str = "AutoModelForMaskedLM"
    sample: str = "Is {mask} so?"
    reads_pairs: bool = True
    default_methods: tuple[str, ...] = USUAL_METHODS

    def asked_at(self, model: TextModel, text: str, span: Span) -> str:
        return f"{text[: span[0]]}{model.tokenizer.mask_token}{text[span[1] :]}"

    def check_text(self, model: TextModel, encoding: Encoding) -> Encoding:
        """The mask is the question: like a special token, it is never hidden, ranked or removed."""
        mask = model.tokenizer.mask_token
        if mask is None:
            raise MissingToken("The tokenizer has no mask token, so a masked language model cannot be asked.")
        masks = [i for i, token in enumerate(encoding.input_ids) if token == model.tokenizer.mask_token_id]
        if len(masks) != 1:
            raise WherefromError(
                f"A masked language model is asked with exactly one {mask} in the text; this one has {len(masks)}."
            )
        segment = tuple(-1 if i == masks[0] else part for i, part in enumerate(encoding.segment))
        if all(part < 0 for part in segment):
            raise EmptyText(
                f"There is nothing beside {mask} in the text, so nothing that could explain what stands there."
            )
        return replace(encoding, segment=segment)

    def positions(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        masked = inputs["input_ids"].eq(model.tokenizer.mask_token_id)
        return masked.int().argmax(-1)
