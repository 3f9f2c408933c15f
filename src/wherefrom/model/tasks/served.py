"""Language models on a server, which tells how likely the tokens of a given text are, and nothing of any other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wherefrom.core.encoding import Encoding
from wherefrom.errors import BadOption, NotSeen
from wherefrom.model.tasks.continuation import Continuation
from wherefrom.model.tasks.next_token import NextToken

if TYPE_CHECKING:
    from wherefrom.model.tasks.task import TargetSpec
    from wherefrom.model.text_model import TextModel

ONLY_GIVEN = (
    "A model on a server gives the log-probabilities of given text only, so there is no next token to explain. Use"
    " model.sources, or model.generate_and_explain with a method that only queries the model."
)


@dataclass(frozen=True)
class ServedText(NextToken):
    """A language model that writes and scores text elsewhere."""

    write: Callable[[str, int], str]

    def fixed_target(self, model: TextModel, spec: TargetSpec) -> None:
        del model, spec
        raise NotSeen(ONLY_GIVEN)

    def logits(self, output: Any, inputs: dict[str, Tensor], positions: Tensor | None) -> Tensor:
        raise NotSeen(ONLY_GIVEN)

    def generate(self, model: TextModel, prompt: Encoding, most: int, *, may_end: bool) -> tuple[int, ...]:
        """What the model continues a prompt with, in the pieces that it is read in."""
        written = model.reading.split(self.write(model.reading.decode(prompt.input_ids), most)).ids
        if not written and not may_end:
            raise BadOption("The model ends at once, without a continuation: give one, or change the prompt.")
        return written


@dataclass(frozen=True)
class ServedContinuation(Continuation):
    """The pieces of a continuation, each with its log-probability in place of logits."""

    def unbound(self) -> NextToken:
        raise NotSeen(ONLY_GIVEN)

    def logits(self, output: Any, inputs: dict[str, Tensor], positions: Tensor | None) -> Tensor:
        """(row, step * 4)"""
        del inputs
        assert positions is not None
        if any(token is not None for token in self.versus):
            raise NotSeen("A model on a server cannot compare an output with another one.")
        rows = torch.arange(len(positions))[:, None]
        own, best = output.logits[rows, positions + 1].unbind(-1)  # (row, step) each
        return torch.stack([own, own, torch.zeros_like(own), best], -1).flatten(1)
