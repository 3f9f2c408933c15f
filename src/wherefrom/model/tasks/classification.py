"""Sequence classification: which class, or which labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wherefrom.core.encoding import Encoding
from wherefrom.core.target import SavedTarget, Target, resolve_target
from wherefrom.core.units import Span
from wherefrom.errors import BadOption, NotDefined
from wherefrom.model.network import pad_id
from wherefrom.model.tasks.task import SingleRow, TargetSpec
from wherefrom.registry import Reference

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from wherefrom.model.text_model import TextModel


@dataclass(frozen=True)
class Classification(SingleRow):
    name: str = "classification"
    endings: tuple[str, ...] = ("ForSequenceClassification",)
    auto: str = "AutoModelForSequenceClassification"
    sample: str = "Is it so?"
    reads_pairs: bool = True
    has_labels: bool = True
    position_depends_on_family: bool = True
    finds_end_by_padding: bool = True
    # Whether a single output goes through a sigmoid, where a CrossEncoder in memory says so; None: see its files.
    sigmoid: bool | None = None

    @property
    def bound(self) -> str:
        return "" if self.sigmoid is None else f"sigmoid={self.sigmoid}"

    def regression(self, model: TextModel) -> bool:
        """As transformers has it; of a reranker, a CrossEncoder with one output, as its activation says."""
        said = self.sigmoid if self.sigmoid is not None else _sigmoid_in_files(model.network.module.config)
        if said is not None and len(model.labels) == 1 and model.network.module.config.problem_type is None:
            return not said
        return super().regression(model)

    def asked_at(self, model: TextModel, text: str, span: Span) -> str:
        del model, span
        return text

    def check_text(self, _model: TextModel, encoding: Encoding) -> Encoding:
        return encoding

    def logits(self, output: Any, inputs: dict[str, Tensor], positions: Tensor | None) -> Tensor:
        del inputs, positions
        found: Tensor = output.logits
        return found

    def positions(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        reads, ids = model.network.facts.decision_position, inputs["input_ids"]
        if reads is None or reads == "every":
            return None
        if reads == "first":
            return torch.zeros(len(ids), dtype=torch.long, device=ids.device)
        pad = pad_id(model.network)  # decoders take the last token that is not padding
        order = torch.arange(ids.shape[1], device=ids.device)
        return (order * (ids != (-1 if pad is None else pad))).argmax(-1)

    def first_read(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        return self.positions(model, inputs) if model.network.facts.decision_position == "last" else None

    def fixed_target(self, model: TextModel, spec: TargetSpec) -> Target | None:
        if spec is None:
            return None
        if isinstance(spec, tuple):
            return rather_than(*(_class_target(model, part) for part in two_of(spec)))
        return _class_target(model, spec)

    def targets(self, model: TextModel, spec: TargetSpec, logits: Tensor, encoding: Encoding) -> Sequence[Target]:
        return [self.fixed_target(model, spec) or self.predicted(model, logits, encoding)]

    def restored(
        self, model: TextModel, label: str, saved: Sequence[SavedTarget], logits: Tensor, encoding: Encoding
    ) -> Sequence[Target]:
        found = restored_classes(
            label, saved, len(model.labels), independent=model.independent, regression=model.regression
        )
        return found or self.targets(model, label, logits, encoding)

    def predicted(self, model: TextModel, logits: Tensor, _encoding: Encoding) -> Target:
        return _class_target(model, 0 if model.regression else int(logits.argmax()))  # values do not compete

    def decided(
        self, model: TextModel, logits: Tensor, encoding: Encoding, targets: Sequence[Target]
    ) -> Sequence[Target]:
        del targets
        return self.targets(model, None, logits, encoding)

    def predicted_labels(self, model: TextModel, logits: Tensor, encoding: Encoding) -> list[str]:
        if model.regression:  # every output has a value
            return list(model.labels)
        if not model.independent:
            return [self.predicted(model, logits, encoding).label]
        return [label for label, logit in zip(model.labels, logits.tolist(), strict=True) if logit >= 0]

    def others(self, model: TextModel, target: Target) -> Sequence[Target]:
        if target.versus is not None:
            raise NotDefined("a difference of two classes has no other class to compare with")
        if len(model.labels) < 2:
            raise NotDefined("the model has only one class")
        every = range(len(model.labels))
        return [_class_target(model, i) for i in every if i != target.index]

    def answer(self, model: TextModel, logits: Tensor, encoding: Encoding) -> Sequence[Span] | None:
        del model, logits, encoding
        return None

    def probabilities(self, model: TextModel, logits: Tensor, target: Target) -> dict[str, float]:
        del target
        if model.regression:
            return {}
        chances = logits.double().sigmoid() if model.independent else logits.double().softmax(-1)
        return dict(zip(model.labels, chances.tolist(), strict=True))

    def notes(self, model: TextModel, logits: Tensor, encoding: Encoding, targets: Sequence[Target]) -> tuple[str, ...]:
        del model, logits, encoding, targets
        return ()

    def offers(self, model: TextModel) -> frozenset[Reference]:
        return frozenset({"others"} if len(model.labels) > 1 else ())


def sigmoid_named(activation: object) -> bool | None:
    """Whether this is the name of a sigmoid; None where it is neither that nor the identity."""
    named = str(activation).rpartition(".")[2].removesuffix("()")
    return {"Sigmoid": True, "Identity": False}.get(named)


def _sigmoid_in_files(config: PreTrainedConfig) -> bool | None:
    """What a CrossEncoder wrote into its configuration about its output."""
    newer = getattr(config, "sentence_transformers", None)
    said = newer.get("activation_fn") if isinstance(newer, dict) else None
    return sigmoid_named(said or getattr(config, "sbert_ce_default_activation_function", None))


def _class_target(model: TextModel, spec: str | int) -> Target:
    return resolve_target(spec, model.labels, independent=model.independent, regression=model.regression)


def rather_than(one: Target, other: Target) -> Target:
    """Why the one rather than the other."""
    return replace(one, label=f"{one.label} rather than {other.label}", versus=other.index)


def two_of(spec: tuple[Any, ...]) -> tuple[Any, Any]:
    """The two targets of a difference."""
    if len(spec) != 2 or None in spec:
        raise BadOption(f"A target of two, one rather than the other, names both, as in ('good', 'bad'), not {spec!r}.")
    return spec[0], spec[1]


def restored_classes(
    label: str, saved: Sequence[SavedTarget], classes: int, *, independent: bool, regression: bool = False
) -> list[Target]:
    """Targets that are classes or tokens, from plain data; an error where this model cannot have them."""
    for target in saved:
        if target != SavedTarget(target.index, target.versus) or not has_classes(target, classes):
            raise BadOption(f"The explanation is of {label!r}, but this model has no such target.")
    return [Target(target.index, label, independent, target.versus, regression) for target in saved]


def has_classes(target: SavedTarget, classes: int) -> bool:
    """Whether a model of so many classes, or tokens, has those of this target."""
    return 0 <= target.index < classes and 0 <= (target.versus or 0) < classes
