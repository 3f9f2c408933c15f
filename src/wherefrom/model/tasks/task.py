"""What a task has to say: what can be explained, what metrics may be measured against, how outputs become logits.

A task is one file. Nothing else in the tree asks which task a model has; whoever needs to know something that differs
between tasks asks the task for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from torch import Tensor

from wherefrom.core.encoding import Encoding
from wherefrom.core.target import SavedTarget, Target
from wherefrom.core.units import Span
from wherefrom.model.network import NetworkCall
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
    def sample_pair(self) -> str | None:
        """The second text of the sample, where the task needs one."""

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

    @property
    def several_rows(self) -> str | None:
        """Why one text goes through the model as several rows, so that no single pass over it can be looked into; None
        where it is one row.
        """

    @property
    def bound(self) -> str:
        """What this task was told beside its name and decides answers, such as candidate labels; nothing, mostly."""

    @property
    def loading(self) -> dict[str, Any]:
        """What `wherefrom.load` was told beside the model, to be told it again; nothing, mostly."""

    def labels(self, model: TextModel) -> list[str]:
        """The names of the model's classes."""

    def independent(self, model: TextModel) -> bool:
        """Whether labels do not exclude each other (multi-label), or there is only one."""

    def regression(self, model: TextModel) -> bool:
        """Whether the outputs are values and no probabilities."""

    def read(self, model: TextModel, text: str, pair: str | None) -> Encoding:
        """The text as the tokenizer cuts it."""

    def rows(
        self, model: TextModel, inputs: dict[str, Tensor], embeddings: Tensor | None
    ) -> tuple[dict[str, Tensor], Tensor | None]:
        """What goes through the network for these rows of tokens, and the word vectors that stand in them."""

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

    def own_logits(self, model: TextModel, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """What belongs to one row, of its logits in a batch of longer rows."""

    def positions(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        """The position that each row's decision is read at; None where all are. (row,); (row, mask) where rows have
        several.
        """

    def first_read(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        """The first position of each row that is read, so that a causal model need not compute those in front of it
        for this row; None where all are read, or the model is not causal. (row,)
        """

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


class SingleRow:
    """What tasks share that send a text through the model as it is, in one row of tokens."""

    has_labels: bool
    several_rows: ClassVar[str | None] = None
    sample_pair: ClassVar[str | None] = None
    answers_by_position: bool = False
    two_stacks: bool = False

    @property
    def bound(self) -> str:
        return ""

    @property
    def loading(self) -> dict[str, Any]:
        return {}

    def labels(self, model: TextModel) -> list[str]:
        config = model.network.module.config
        named: dict[Any, str] = {**(config.id2label or {})}
        return [str(named.get(i, f"LABEL_{i}")) for i in range(config.num_labels or 0)]

    def independent(self, model: TextModel) -> bool:
        if model.regression:
            return False
        return model.network.module.config.problem_type == "multi_label_classification" or len(model.labels) == 1

    def regression(self, model: TextModel) -> bool:
        """Where the configuration says so, or does not say what a single output is, which transformers then trains as
        regression, too.
        """
        if not self.has_labels:
            return False
        kind = model.network.module.config.problem_type
        return kind == "regression" or (kind is None and len(model.labels) == 1)

    def first_read(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        del model, inputs
        return None

    def own_logits(self, model: TextModel, logits: Tensor, ids: Sequence[int]) -> Tensor:
        del model
        return logits if logits.ndim == 1 else logits[..., : len(ids)]

    def read(self, model: TextModel, text: str, pair: str | None) -> Encoding:
        return model.reading.tokenize(text, pair, model.reading.limit)

    def rows(
        self, model: TextModel, inputs: dict[str, Tensor], embeddings: Tensor | None
    ) -> tuple[dict[str, Tensor], Tensor | None]:
        del model
        return inputs, embeddings

    def call(self, model: TextModel, inputs: dict[str, Tensor], embeddings: Tensor | None) -> NetworkCall:
        rows, vectors = self.rows(model, inputs, embeddings)
        return NetworkCall(rows, ((rows["input_ids"].flatten(end_dim=-2), vectors),))  # choices are rows of their own
