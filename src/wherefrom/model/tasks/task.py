"""What a task is: what can be explained about a model's output, and how that output becomes logits.

A task is one file that ends with `register_task`. It has to give `name` and `auto`; everything else has the default of
a model that reads a text as one row of tokens and gives it logits. Nothing else in the tree asks
which task a model has: what differs between tasks is a member of the task. See docs/add-a-task.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wherefrom.core.encoding import Encoding
from wherefrom.core.target import SavedTarget, Target, resolve_target
from wherefrom.core.units import Span
from wherefrom.errors import BadOption, NotDefined
from wherefrom.model.network import NetworkCall, pad_id
from wherefrom.registry import Reference

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel

# What a caller wants explained: a label, token or answer by name or number; a pair of them (the first rather than the
# second); None for what the model predicts.
TargetSpec = str | int | tuple[str | int, str | int] | None


class Task:
    """What a model decides about a text. Derive a class, give it `name` and `auto`, and register an object of it.

    Logits are (row, class) for tasks that decide one thing about a text; (row, 2, token) for extractive question
    answering, and (row, tag, token) for token classification.

    Example:
        >>> class NextSentence(wherefrom.Task):
        ...     name, auto, has_labels = "next_sentence", "AutoModelForNextSentencePrediction", True
    """

    name: str  # required
    auto: str  # required: the transformers class that loads a model with this task's head
    sample: str = "Is it so?"  # a text the task can read, for trials of a model; {mask} is the mask token
    sample_pair: str | None = None  # the second text of the sample, where the task needs one
    reads_pairs: bool = True  # whether it can read two texts
    on_request: bool = False  # whether it is the task of a model only where `load(..., task=...)` names it
    has_labels: bool = False  # whether targets are the model's labels, so that those of a data set are comparable
    position_depends_on_family: bool = False  # whether the family's row says which position the decision is read at
    finds_end_by_padding: bool = False  # whether decoders find the last token by the padding id, and so need one
    # Whether every position has its own answer. Then no word is deleted: the model's usual fill replaces it.
    answers_by_position: bool = False
    # Whether methods delete what they hide, unless told otherwise. Decoders know control tokens as borders of texts.
    deletes: bool = False
    generates: bool = False  # whether its targets are tokens of a text that the model writes
    two_stacks: bool = False  # whether an encoder reads the text and a decoder writes the answer: three attentions
    # Why a text goes through the model as several rows, so that there is no single pass to look into; None: one row.
    several_rows: str | None = None
    unread_weights: tuple[str, ...] = ()  # how the names of weights begin that the task does not read

    # How a model is loaded, and what is said about it

    @property
    def endings(self) -> tuple[str, ...]:
        """How the names of transformers' classes for this task end."""
        return (self.auto.removeprefix("AutoModel"),)

    @property
    def bound(self) -> str:
        """What decides answers beside the task's name, such as candidate labels."""
        return ""

    @property
    def loading(self) -> dict[str, Any]:
        """Options of `wherefrom.load`, beside the model, that give this task again."""
        return {}

    def labels(self, model: TextModel) -> list[str]:
        """The names of the model's classes."""
        config = model.network.module.config
        named: dict[Any, str] = {**(config.id2label or {})}
        return [str(named.get(i, f"LABEL_{i}")) for i in range(config.num_labels or 0)]

    def independent(self, model: TextModel) -> bool:
        """Whether labels do not exclude each other (multi-label), or there is only one."""
        if model.regression:
            return False
        return model.network.module.config.problem_type == "multi_label_classification" or len(model.labels) == 1

    def regression(self, model: TextModel) -> bool:
        """Whether the outputs are values and no probabilities: where the configuration says so, or does not say what a
        single output is, which transformers then trains as regression, too.
        """
        if not self.has_labels:
            return False
        kind = model.network.module.config.problem_type
        return kind == "regression" or (kind is None and len(model.labels) == 1)

    # From texts to logits

    def read(self, model: TextModel, text: str, pair: str | None) -> Encoding:
        """The tokens of the text."""
        return model.reading.tokenize(text, pair, model.reading.limit)

    def read_all(self, model: TextModel, texts: Sequence[tuple[str, str | None]]) -> list[Encoding]:
        """The tokens of several texts, read together unless the task reads a text in a way of its own."""
        if type(self).read is not Task.read:
            return [self.read(model, text, pair) for text, pair in texts]
        return model.reading.tokenize_all(texts, model.reading.limit)

    def check_text(self, model: TextModel, encoding: Encoding) -> Encoding:
        """The encoding, perhaps with tokens marked special; an error where the task cannot read this text."""
        del model
        return encoding

    def asked_at(self, model: TextModel, text: str, span: Span) -> str:
        """The text that queries what is at these characters: masked, or cut off before them; unchanged, for tasks that
        decide about the whole text.
        """
        del model, span
        return text

    def rows(
        self, model: TextModel, inputs: dict[str, Tensor], embeddings: Tensor | None
    ) -> tuple[dict[str, Tensor], Tensor | None]:
        """What goes through the network for these rows of tokens, and its word vectors."""
        del model
        return inputs, embeddings

    def call(self, model: TextModel, inputs: dict[str, Tensor], embeddings: Tensor | None) -> NetworkCall:
        """The arguments of the network, and the word vectors that replace its own."""
        rows, vectors = self.rows(model, inputs, embeddings)
        return NetworkCall(rows, ((rows["input_ids"].flatten(end_dim=-2), vectors),))  # choices are rows of their own

    def logits(self, output: Any, inputs: dict[str, Tensor], positions: Tensor | None) -> Tensor:
        """The logits of a model's output, at the positions that `positions` gave."""
        del inputs, positions
        logits: Tensor = output.logits
        return logits

    def own_logits(self, model: TextModel, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """The part of a row's logits in a batch of longer rows that belongs to it."""
        del model
        return logits if logits.ndim == 1 else logits[..., : len(ids)]

    def positions(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        """The position that each row's decision is read at; None where all are. (row,); (row, mask) where rows have
        several.
        """
        reads, ids = model.network.facts.decision_position, inputs["input_ids"]
        if not self.position_depends_on_family or reads is None or reads == "every":
            return None
        if reads == "first":
            return torch.zeros(len(ids), dtype=torch.long, device=ids.device)
        padding = pad_id(model.network)  # decoders take the last token that is not padding
        order = torch.arange(ids.shape[1], device=ids.device)
        return (order * (ids != (-1 if padding is None else padding))).argmax(-1)

    def first_read(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        """The first position of each row that is read, so that a causal model need not compute those before it for this
        row; None where all are read, or the model is not causal. (row,)
        """
        causal = self.position_depends_on_family and model.network.facts.decision_position == "last"
        return self.positions(model, inputs) if causal else None

    # What is explained

    def fixed_target(self, model: TextModel, spec: TargetSpec) -> Target | None:
        """The target, where it does not depend on the text; None where it does. Raises on what cannot be explained."""
        if spec is None:
            return None
        if isinstance(spec, tuple):
            return rather_than(*(label_target(model, part) for part in two_of(spec)))
        return label_target(model, spec)

    def targets(self, model: TextModel, spec: TargetSpec, logits: Tensor, encoding: Encoding) -> Sequence[Target]:
        """The components of what is explained, whose explanations add up: one, but for an answer's start and end."""
        return [self.fixed_target(model, spec) or self.predicted(model, logits, encoding)]

    def restored(
        self, model: TextModel, label: str, saved: Sequence[SavedTarget], logits: Tensor, encoding: Encoding
    ) -> Sequence[Target]:
        """The targets of an explanation that was saved, by its label and by what `Target.saved` gave."""
        classes = len(model.labels) if self.has_labels else logits.shape[-1]
        independent = self.has_labels and model.independent
        targets = restored_classes(
            label, saved, classes, independent=independent, regression=model.regression, generated=self.generates
        )
        return targets or self.targets(model, label, logits, encoding)

    def predicted(self, model: TextModel, logits: Tensor, encoding: Encoding) -> Target:
        """What the model predicts: the first component, where there are several."""
        del encoding
        return label_target(model, 0 if model.regression else int(logits.argmax()))  # values do not compete

    def decided(
        self, model: TextModel, logits: Tensor, encoding: Encoding, targets: Sequence[Target]
    ) -> Sequence[Target]:
        """What the model decides where these targets are read; what it predicts, for tasks that decide one thing."""
        del targets
        return self.targets(model, None, logits, encoding)

    def predicted_labels(self, model: TextModel, logits: Tensor, encoding: Encoding) -> list[str]:
        """All labels that are predicted: of a multi-label model every one that is likelier than not, perhaps none."""
        if self.has_labels and model.regression:  # every output has a value
            return list(model.labels)
        if self.has_labels and model.independent:
            return [label for label, logit in zip(model.labels, logits.tolist(), strict=True) if logit >= 0]
        return [self.predicted(model, logits, encoding).label]

    def others(self, model: TextModel, target: Target) -> Sequence[Target]:
        """Every other class, for comparing the explanations of classes. NotDefined says why there is none."""
        if not self.has_labels:
            raise NotDefined(f"{self.name} has no other classes to compare with")
        if target.versus is not None:
            raise NotDefined("a difference of two classes has no other class to compare with")
        if len(model.labels) < 2:
            raise NotDefined("the model has only one class")
        return [label_target(model, index) for index in range(len(model.labels)) if index != target.index]

    def answer(self, model: TextModel, logits: Tensor, encoding: Encoding) -> Sequence[Span] | None:
        """Where in the second text the predicted answer is: nowhere, where the model predicts that there is none; None
        for tasks that look for no answer.
        """
        del model, logits, encoding
        return None

    # What views and metrics show

    def probabilities(self, model: TextModel, logits: Tensor, target: Target) -> dict[str, float]:
        """Of every class, or of the likeliest, where the target is read, for the views. (class,)"""
        del target
        if not self.has_labels or model.regression:
            return {}
        chances = logits.double().sigmoid() if model.independent else logits.double().softmax(-1)
        return dict(zip(model.labels, chances.tolist(), strict=True))

    def notes(self, model: TextModel, logits: Tensor, encoding: Encoding, targets: Sequence[Target]) -> tuple[str, ...]:
        """What a reader of an explanation of these targets has to know beside it."""
        del model, logits, encoding, targets
        return ()

    def offers(self, model: TextModel) -> frozenset[Reference]:
        """What metrics can be measured against on every text of this task, beside the model itself."""
        return frozenset({"others"} if self.has_labels and len(model.labels) > 1 else ())


def label_target(model: TextModel, spec: str | int) -> Target:
    """A label of the model, by its name or number."""
    return resolve_target(spec, model.labels, independent=model.independent, regression=model.regression)


def rather_than(first: Target, second: Target) -> Target:
    """Why the first rather than the second."""
    return replace(first, label=f"{first.label} rather than {second.label}", versus=second.index)


def two_of(spec: tuple[Any, ...]) -> tuple[Any, Any]:
    """The two targets of a difference."""
    if len(spec) != 2 or None in spec:
        raise BadOption(f"A target of two, one rather than the other, names both, as in ('good', 'bad'), not {spec!r}.")
    return spec[0], spec[1]


def restored_classes(
    label: str,
    saved: Sequence[SavedTarget],
    classes: int,
    *,
    independent: bool,
    regression: bool = False,
    generated: bool = False,
) -> list[Target]:
    """Targets that are classes or tokens, from plain data; an error where this model cannot have them."""
    for target in saved:
        if target != SavedTarget(target.index, target.versus) or not has_classes(target, classes):
            raise BadOption(f"The explanation is of {label!r}, but this model has no such target.")
    return [Target(target.index, label, independent, target.versus, regression, generated) for target in saved]


def has_classes(target: SavedTarget, classes: int) -> bool:
    """Whether a model of so many classes, or tokens, has those of this target."""
    return 0 <= target.index < classes and 0 <= (target.versus or 0) < classes
