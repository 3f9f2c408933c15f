"""Sequence classification: which class, or which labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wherefrom.model.tasks.task import Task
from wherefrom.registry import register_task

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from wherefrom.model.text_model import TextModel


@dataclass(frozen=True)
class Classification(Task):
    name = "classification"
    auto = "AutoModelForSequenceClassification"
    has_labels = True
    position_depends_on_family = True
    finds_end_by_padding = True
    # Whether a single output goes through a sigmoid, where a CrossEncoder in memory says so; None: see its files.
    sigmoid: bool | None = None

    @property
    def bound(self) -> str:
        return "" if self.sigmoid is None else f"sigmoid={self.sigmoid}"

    def regression(self, model: TextModel) -> bool:
        """As transformers has it; of a reranker, a CrossEncoder with one output, as its activation says."""
        sigmoid = self.sigmoid if self.sigmoid is not None else _sigmoid_in_files(model.network.module.config)
        if sigmoid is not None and len(model.labels) == 1 and model.network.module.config.problem_type is None:
            return not sigmoid
        return super().regression(model)


def sigmoid_named(activation: object) -> bool | None:
    """Whether this is the name of a sigmoid; None where it is neither that nor the identity."""
    named = str(activation).rpartition(".")[2].removesuffix("()")
    return {"Sigmoid": True, "Identity": False}.get(named)


def _sigmoid_in_files(config: PreTrainedConfig) -> bool | None:
    """What a CrossEncoder wrote into its configuration about its output."""
    newer = getattr(config, "sentence_transformers", None)
    activation = newer.get("activation_fn") if isinstance(newer, dict) else None
    return sigmoid_named(activation or getattr(config, "sbert_ce_default_activation_function", None))


register_task(Classification())
