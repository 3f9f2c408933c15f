"""Causal language models: which token comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from wherefrom.core.encoding import Encoding
from wherefrom.model.tasks.tokens import TokenTask

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel


@dataclass(frozen=True)
class NextToken(TokenTask):
    name: str = "causal_lm"
    endings: tuple[str, ...] = ("ForCausalLM", "LMHeadModel")
    auto: str = "AutoModelForCausalLM"
    sample: str = "Is it so?"

    def check_text(self, _model: TextModel, encoding: Encoding) -> Encoding:
        return encoding

    def positions(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        del model
        return inputs["attention_mask"].sum(-1) - 1
