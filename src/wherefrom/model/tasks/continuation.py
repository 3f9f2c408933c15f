"""Several tokens that follow a prompt: each is predicted from the prompt and the tokens before it, all in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from wherefrom.core.generation import summed_note
from wherefrom.core.target import GeneratedToken, SavedTarget, Target, joint_probability
from wherefrom.errors import BadOption
from wherefrom.model.tasks.next_token import NextToken
from wherefrom.model.tasks.several_rows import gathered
from wherefrom.model.tasks.task import TargetSpec

if TYPE_CHECKING:
    from wherefrom.core.encoding import Encoding
    from wherefrom.model.text_model import TextModel


@dataclass(frozen=True)
class Continuation(NextToken):
    """Bound to the tokens of one continuation, which stand at the end of every row and are never hidden.

    Of each step's logits, one for every token of the vocabulary, four numbers are kept: the token's own, that of the
    token it is compared with, the logarithm of what all of them sum to, for the probability, and the largest of all
    other tokens, for what the model decides.
    """

    tokens: tuple[int, ...] = ()
    versus: tuple[int | None, ...] = ()
    label: str = ""

    def positions(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        """(row, step)"""
        first = inputs["attention_mask"].sum(-1) - 1 - len(self.tokens)  # the last token of the prompt, of each row
        return first[:, None] + torch.arange(len(self.tokens), device=first.device)

    def first_read(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        """The last token of the prompt."""
        del model
        return inputs["attention_mask"].sum(-1) - 1 - len(self.tokens)

    def logits(self, output: Any, inputs: dict[str, Tensor], positions: Tensor | None) -> Tensor:
        """(row, step * 4)"""
        del inputs
        assert positions is not None
        rows = torch.arange(len(positions), device=positions.device)[:, None]
        return kept_logits(output.logits, rows, positions, self.tokens, self.versus)

    def step_targets(self, labels: tuple[str, ...], first: int) -> list[GeneratedToken]:
        """The target of every step. first: the position that the first one is read at."""
        return targets_of_steps(self.tokens, self.versus, labels, first)

    @property
    def bound(self) -> str:
        return repr((self.tokens, self.versus))

    def unbound(self) -> NextToken:
        """The task that predicts any next token."""
        return NextToken()

    def fixed_target(self, model: TextModel, spec: TargetSpec) -> Target | None:
        no_other_output(model, spec)
        return None

    def targets(self, model: TextModel, spec: TargetSpec, logits: Tensor, encoding: Encoding) -> Sequence[Target]:
        del logits
        no_other_output(model, spec)
        return whole_output(self, self.label, encoding)

    def restored(
        self, model: TextModel, label: str, saved: Sequence[SavedTarget], logits: Tensor, encoding: Encoding
    ) -> Sequence[Target]:
        del model, logits
        return restored_output(self, label, saved, encoding)

    def predicted(self, model: TextModel, logits: Tensor, encoding: Encoding) -> Target:
        return self.targets(model, None, logits, encoding)[0]

    def decided(
        self, model: TextModel, logits: Tensor, encoding: Encoding, targets: Sequence[Target]
    ) -> Sequence[Target]:
        del model, encoding
        return decided_output(logits, targets)

    def probabilities(self, model: TextModel, logits: Tensor, target: Target) -> dict[str, float]:
        del model, logits, target
        return {}  # of other outputs, which are too many

    def notes(self, model: TextModel, logits: Tensor, encoding: Encoding, targets: Sequence[Target]) -> tuple[str, ...]:
        del model, logits, encoding
        return output_notes(targets)


@dataclass(frozen=True)
class ContinuationByPrefix(Continuation):
    """The same for a model that is not causal, or that computes differently by length: each token is predicted in a row
    of its own, which ends before it.
    """

    several_rows = "each token of the continuation is predicted from a row that ends before it"

    def positions(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        del model, inputs
        return None

    def first_read(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        del model, inputs
        return None

    def rows(
        self, model: TextModel, inputs: dict[str, Tensor], embeddings: Tensor | None
    ) -> tuple[dict[str, Tensor], Tensor | None]:
        chosen = [(row, range(end)) for row, ends in enumerate(self._ends(inputs).tolist()) for end in ends]
        types = (lambda code: code) if "token_type_ids" in inputs else None
        return gathered(model, inputs, embeddings, chosen, types)

    def _ends(self, inputs: dict[str, Tensor]) -> Tensor:
        """How many tokens there are before each of the continuation. (row, step)"""
        lengths, steps = inputs["attention_mask"].sum(-1), len(self.tokens)
        return lengths[:, None] - steps + torch.arange(steps, device=lengths.device)

    def logits(self, output: Any, inputs: dict[str, Tensor], positions: Tensor | None) -> Tensor:
        """(row, step * 4)"""
        del positions
        ends = self._ends(inputs)
        rows = torch.arange(ends.numel(), device=ends.device).view_as(ends)
        return kept_logits(output.logits, rows, ends - 1, self.tokens, self.versus)


ANOTHER = "another output"  # what is decided where the model would have gone on with some other token


class WritesOutput(Protocol):
    """A task that is bound to the tokens of an output."""

    @property
    def tokens(self) -> tuple[int, ...]: ...

    def step_targets(self, labels: tuple[str, ...], first: int) -> list[GeneratedToken]: ...


def no_other_output(model: TextModel, spec: TargetSpec) -> None:
    """Raise where something else is asked of a model that is bound to an output."""
    if spec is not None:
        raise BadOption(f"{model.name} is asked about one output already, so that {spec!r} is no target.")


def whole_output(task: WritesOutput, label: str, encoding: Encoding) -> list[GeneratedToken]:
    """All tokens of the output, as the components of one target."""
    steps = len(task.tokens)
    return task.step_targets((label,) * steps, len(encoding) - 1 - steps)


def restored_output(
    task: WritesOutput, label: str, saved: Sequence[SavedTarget], encoding: Encoding
) -> list[GeneratedToken]:
    """The same, of an explanation that was saved."""
    output = whole_output(task, label, encoding)
    if [target.saved() for target in output] != list(saved):
        raise BadOption(f"The explanation is of {label!r}, but this model is asked about another output.")
    return output


def decided_output(logits: Tensor, targets: Sequence[Target]) -> Sequence[Target]:
    """The output itself, if the model would write each of its tokens after those before it: then it is what greedy
    generation gives. Else another, of which nothing is known but that its probability is what this one leaves.
    """
    steps = [target for target in targets if isinstance(target, GeneratedToken)]
    if all(bool(target.likeliest(logits[None])) for target in steps):
        return targets
    return [AnotherOutput(targets[0].index, ANOTHER, instead_of=tuple(steps))]


@dataclass(frozen=True)
class AnotherOutput(Target):
    """Any output but one."""

    instead_of: tuple[GeneratedToken, ...] = ()

    def probability(self, logits: Tensor) -> Tensor:
        return 1 - joint_probability(self.instead_of, logits)


def output_notes(targets: Sequence[Target]) -> tuple[str, ...]:
    if len(targets) < 2:
        return ()
    return (summed_note(len(targets)),)


def kept_logits(
    logits: Tensor,
    rows: Tensor,
    places: Tensor,
    tokens: Sequence[int],
    versus: Sequence[int | None],
    never: Sequence[int] = (),
) -> Tensor:
    """Of each step's logits the four that are kept. rows: (row, 1) or (row, step); places: (row, step). (row, token,
    word) -> (row, step * 4)
    """
    ids = torch.tensor(tokens, device=logits.device)
    other = torch.tensor([a if b is None else b for a, b in zip(tokens, versus, strict=True)], device=logits.device)
    read = logits[rows, places]  # (row, step, word)
    fixed = read.detach()
    # The logarithm of the sum, with its gradient: that of a mean weighted by the probabilities, which are constants
    # here, so that rules of relevance meet nothing but a weighted sum.
    mean = (fixed.softmax(-1) * read).sum(-1)
    total = fixed.logsumexp(-1) + (mean - mean.detach())
    best = fixed.scatter(-1, ids.expand(len(fixed), -1)[..., None], -torch.inf)
    if never:
        best[..., list(never)] = -torch.inf
    best = best.amax(-1)
    steps = torch.arange(len(tokens), device=logits.device)
    parts = [read[:, steps, ids], read[:, steps, other], total, best]  # (row, step) each
    return torch.stack(parts, -1).flatten(1)


def targets_of_steps(
    tokens: Sequence[int], versus: Sequence[int | None], labels: Sequence[str], first: int
) -> list[GeneratedToken]:
    """The target of every step. first: the position that the first one is read at."""
    return [
        GeneratedToken(token, label, versus=other, step=step, place=first + step)
        for step, (token, label, other) in enumerate(zip(tokens, labels, versus, strict=True))
    ]
