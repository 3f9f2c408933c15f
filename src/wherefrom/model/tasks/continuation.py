"""Several tokens that follow a prompt: each is predicted from the prompt and the tokens before it, all in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wherefrom.core.target import GeneratedToken
from wherefrom.errors import NotDefined
from wherefrom.model.tasks.next_token import NextToken

if TYPE_CHECKING:
    from wherefrom.core.encoding import Encoding
    from wherefrom.core.target import Target
    from wherefrom.model.text_model import TextModel


@dataclass(frozen=True)
class Continuation(NextToken):
    """Bound to the tokens of one continuation, which stand at the end of every row and are never hidden.

    Of each step's logits, one for every token of the vocabulary, three numbers are kept: the token's own, that of the
    token it is compared with, and the logarithm of what all of them sum to, for the probability.
    """

    tokens: tuple[int, ...] = ()
    versus: tuple[int | None, ...] = ()

    def positions(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        del model, inputs
        return None

    def first_read(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        """The last token of the prompt."""
        del model
        return inputs["attention_mask"].sum(-1) - 1 - len(self.tokens)

    def logits(self, output: Any, inputs: dict[str, Tensor], positions: Tensor | None) -> Tensor:
        """(row, step * 3)"""
        del positions
        device, steps = output.logits.device, len(self.tokens)
        first = inputs["attention_mask"].sum(-1) - 1 - steps  # the last token of the prompt, of each row
        rows = torch.arange(len(first), device=device)[:, None]
        places = first[:, None] + torch.arange(steps, device=device)
        return kept_logits(output.logits, rows, places, self.tokens, self.versus)

    def step_targets(self, labels: tuple[str, ...], first: int) -> list[GeneratedToken]:
        """The target of every step. first: the position that the first one is read at."""
        return targets_of_steps(self.tokens, self.versus, labels, first)

    def predicted(self, model: TextModel, logits: Tensor, _encoding: Encoding) -> Target:
        raise NotDefined("a continuation was given, so that nothing is predicted")


def kept_logits(
    logits: Tensor, rows: Tensor, places: Tensor, tokens: Sequence[int], versus: Sequence[int | None]
) -> Tensor:
    """Of each step's logits the three that are kept. rows (row, 1), places (row, step): (row, token, word) -> (row,
    step * 3)
    """
    own = torch.tensor(tokens, device=logits.device)
    other = torch.tensor([a if b is None else b for a, b in zip(tokens, versus, strict=True)], device=logits.device)
    total = logits.detach()[rows, places].logsumexp(-1)
    parts = [logits[rows, places, own], logits[rows, places, other], total]  # (row, step) each
    return torch.stack(parts, -1).flatten(1)


def targets_of_steps(
    tokens: Sequence[int], versus: Sequence[int | None], labels: Sequence[str], first: int
) -> list[GeneratedToken]:
    """The target of every step. first: the position that the first one is read at."""
    return [
        GeneratedToken(token, label, versus=other, step=step, place=first + step)
        for step, (token, label, other) in enumerate(zip(tokens, labels, versus, strict=True))
    ]
