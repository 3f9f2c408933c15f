"""What a task has to say: what can be explained, what metrics may be measured against, how outputs become logits.

A task is one file. Nothing else in the tree asks which task a model has; whoever needs to know something that differs
between tasks asks the task for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from wherefrom.core.encoding import Encoding
from wherefrom.core.target import SavedTarget, Target
from wherefrom.core.units import Span
from wherefrom.model.tasks.call import NetworkCall
from wherefrom.registry import Reference

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel

# What a caller asks to have explained: a label, token or answer by name or number; a pair of them (one rather than the
# other); None for what the model predicts.
TargetSpec = str | int | tuple[str | int, str | int] | None


class Task(Protocol):
    """Logits are (row, class) for tasks that decide one thing about a text; (row, 2, token) for extractive question
    answering, and (row, tag, token) for token classification.
    """

    @property
    def name(self) -> str: ...

    @property
    def endings(self) -> tuple[str, ...]:
        """How the names of transformers' classes for this task end."""

    @property
    def auto(self) -> str:
        """The transformers class that loads a model with this task's head."""

    @property
    def sample(self) -> str:
        """A text the task can read, for trying a model out; {mask} stands for the mask token."""

    @property
    def has_labels(self) -> bool:
        """Whether targets are the model's own labels, so that those of a data set can be compared with them."""

    @property
    def position_depends_on_family(self) -> bool:
        """Whether only the family's row says which position the decision is read at."""

    @property
    def finds_end_by_padding(self) -> bool:
        """Whether decoders find the last token by the padding id, so that they need one to answer batches."""

    @property
    def answers_by_position(self) -> bool:
        """Whether every position has an answer of its own, so that a word that is hidden must leave its position
        behind: then nothing is deleted, and the model's usual fill stands in place of it.
        """

    @property
    def two_stacks(self) -> bool:
        """Whether an encoder reads the text and a decoder writes the answer, so that there are three attentions."""

    @property
    def reads_pairs(self) -> bool:
        """Whether two texts mean something to it."""

    def asked_at(self, model: TextModel, text: str, span: Span) -> str:
        """The text as this task is asked about what stands at these characters: masked, or cut off in front of them; as
        it is, for tasks that are asked about the whole.
        """

    def check_text(self, model: TextModel, encoding: Encoding) -> Encoding:
        """The encoding, perhaps with tokens marked special; an error where the task cannot read this text."""

    def call(self, model: TextModel, inputs: dict[str, Tensor], embeddings: Tensor | None) -> NetworkCall:
        """What the network is called with, and where the word vectors go that stand in for its own."""

    def logits(self, output: Any, inputs: dict[str, Tensor], positions: Tensor | None) -> Tensor:
        """The logits of a model's output, at the positions that `positions` gave."""

    def positions(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        """The position that each row's decision is read at; None where all are. (row,)"""

    def fixed_target(self, model: TextModel, spec: TargetSpec) -> Target | None:
        """The target, where it does not depend on the text; None where it does. Raises on what cannot be explained."""

    def targets(self, model: TextModel, spec: TargetSpec, logits: Tensor, encoding: Encoding) -> Sequence[Target]:
        """The components of what is explained, whose explanations add up: one, but for an answer's start and end."""

    def restored(
        self, model: TextModel, label: str, saved: Sequence[SavedTarget], logits: Tensor, encoding: Encoding
    ) -> Sequence[Target]:
        """The targets of an explanation that was saved, by its label and by what `Target.saved` gave."""

    def predicted(self, model: TextModel, logits: Tensor, encoding: Encoding) -> Target:
        """What the model predicts: the first component, where there are several."""

    def decided(
        self, model: TextModel, logits: Tensor, encoding: Encoding, targets: Sequence[Target]
    ) -> Sequence[Target]:
        """What the model decides where these targets are read; what it predicts, for tasks that decide one thing."""

    def predicted_labels(self, model: TextModel, logits: Tensor, encoding: Encoding) -> list[str]:
        """All labels that are predicted: of a multi-label model every one that is likelier than not, perhaps none."""

    def others(self, model: TextModel, target: Target) -> Sequence[Target]:
        """Every other class, for comparing the explanations of classes. NotDefined says why there is none."""

    def answer(self, model: TextModel, logits: Tensor, encoding: Encoding) -> Sequence[Span] | None:
        """Where in the second text the predicted answer stands: nowhere, where the model says that there is none; None
        for tasks that look for no answer.
        """

    def probabilities(self, model: TextModel, logits: Tensor, target: Target) -> dict[str, float]:
        """Of every class, or of the likeliest, where the target is read, for the views. (class,)"""

    def notes(self, model: TextModel, logits: Tensor, encoding: Encoding, targets: Sequence[Target]) -> tuple[str, ...]:
        """What a reader of an explanation of these targets has to know beside it; mostly nothing."""

    def offers(self, model: TextModel) -> frozenset[Reference]:
        """What metrics can be measured against on every text of this task, beside the model itself."""
