"""Causal language models: which token comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from wherefrom.core.encoding import Encoding
from wherefrom.core.units import Span
from wherefrom.errors import WherefromError
from wherefrom.model.tasks.tokens import TokenTask
from wherefrom.registry import register_task

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel


@dataclass(frozen=True)
class NextToken(TokenTask):
    name = "causal_lm"
    auto = "AutoModelForCausalLM"
    endings = ("ForCausalLM", "LMHeadModel")
    reads_pairs = False
    deletes = True
    generates = True

    def asked_at(self, model: TextModel, text: str, span: Span) -> str:
        del model
        return text[: span[0]].rstrip()

    def check_text(self, _model: TextModel, encoding: Encoding) -> Encoding:
        if encoding.pair is not None:
            raise WherefromError(
                "A causal language model continues a single text, so it cannot read a pair. Write both"
                " texts into one, as the model was trained to read them, and leave --pair out."
            )
        return encoding

    def positions(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        del model
        return inputs["attention_mask"].sum(-1) - 1

    def first_read(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        return self.positions(model, inputs)


register_task(NextToken())
