"""What is explained: one output of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whence.errors import UnknownName

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Target:
    """One class of a single-label model, or one label of a multi-label model (`independent`: labels do not exclude each other)."""

    index: int
    label: str
    independent: bool = False

    def score(self, logits: Tensor) -> Tensor:
        """What gradients and relevance start from: the logit. (row, class) -> (row,)"""
        return logits[:, self.index]

    def probability(self, logits: Tensor) -> Tensor:
        """(row, class) -> (row,)"""
        logits = logits.double()
        return (logits.sigmoid() if self.independent else logits.softmax(-1))[:, self.index]


def resolve_target(asked: str | int, labels: Sequence[str], *, independent: bool) -> Target:
    """A label by its name (exactly, else in any case), or by its number."""
    if isinstance(asked, int) and not isinstance(asked, bool):
        if not -len(labels) <= asked < len(labels):
            raise UnknownName(f"There is no class {asked}: the model has {len(labels)}, numbered from 0: {', '.join(labels)}.")
        return Target(asked % len(labels), labels[asked], independent)
    name = str(asked)
    matches = [i for i, label in enumerate(labels) if label == name] or [
        i for i, label in enumerate(labels) if label.lower() == name.lower()
    ]
    if len(matches) == 1:
        return Target(matches[0], labels[matches[0]], independent)
    if not matches and name.isdecimal():
        return resolve_target(int(name), labels, independent=independent)
    raise UnknownName.among("label", name, labels)
