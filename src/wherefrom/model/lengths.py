"""Models that compute differently by the length of what they are given, padding included, and that note the switch on
themselves: attention in blocks above some length, rotary angles that depend on the longest row of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn
from transformers import PreTrainedModel


@dataclass(frozen=True)
class Lengths:
    """Which rows a model computes alike in one batch: those up to a limit, and above it those of the same length."""

    limit: int | None = None  # in tokens; None: all rows may be padded to one length
    alike_above: bool = False  # whether rows above the limit may be padded to one length, too

    def alike(self, length: int, other: int) -> bool:
        """Whether a row gives the same answer in a batch of the one length and of the other."""
        if length == other or self.limit is None:
            return True
        above = (length > self.limit, other > self.limit)
        return not any(above) or (self.alike_above and all(above))


class ModuleState:
    """The plain attributes, buffers and parts of some modules, as they were when this was made."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self._saved = [(module, [dict(table) for table in _tables(module)]) for module in modules]

    def changed(self) -> tuple[nn.Module, ...]:
        """The modules of which something is another object than it was."""
        return tuple(
            module
            for module, saved in self._saved
            if any(_differs(table, before) for table, before in zip(_tables(module), saved, strict=True))
        )

    def restore(self) -> None:
        for module in self.changed():
            saved = next(tables for other, tables in self._saved if other is module)
            for table, before in zip(_tables(module), saved, strict=True):
                for name in table.keys() - before.keys():
                    del table[name]
                table.update(before)


def _tables(module: nn.Module) -> tuple[dict[str, Any], ...]:
    return vars(module), module._buffers, module._modules


def _differs(table: dict[str, Any], before: dict[str, Any]) -> bool:
    return table.keys() != before.keys() or any(table[name] is not value for name, value in before.items())


def has_moving_rope(module: nn.Module) -> bool:
    """Whether a module recomputes its rotary angles by the length of what it reads."""
    types = getattr(module, "rope_type", None)
    return any(_moves(kind) for kind in (types.values() if isinstance(types, dict) else [types]))


def lengths_of(module: PreTrainedModel) -> Lengths:
    """Where a model computes differently, by its configuration."""
    config = module.config.get_text_config()
    if getattr(config, "attention_window", None):  # Longformer: gradients of rows that are only padding are not finite
        return Lengths(0)
    if getattr(getattr(config, "attn_config", None), "alibi", False):
        # MPT counts positions from the end of the longest row: the softmax cancels that, the scores before it show it.
        return Lengths(0)
    if getattr(config, "attention_type", None) == "block_sparse":  # BigBird: full attention up to so many tokens
        return Lengths((5 + 2 * config.num_random_blocks) * config.block_size)
    moving = [parameters for parameters in _rope_parameters(config) if _moves(parameters.get("rope_type"))]
    limits = [
        parameters.get("original_max_position_embeddings") or config.max_position_embeddings for parameters in moving
    ]
    # Longrope has two sets of angles; with dynamic scaling every length above the limit has its own.
    two = all(parameters["rope_type"] == "longrope" for parameters in moving)
    return Lengths(min(limits, default=None), alike_above=two and len(set(limits)) == 1)


def _moves(rope_type: Any) -> bool:
    return isinstance(rope_type, str) and (rope_type == "longrope" or "dynamic" in rope_type)


def _rope_parameters(config: Any) -> list[dict[str, Any]]:
    """Of the model, or of each kind of its layers."""
    parameters = getattr(config, "rope_parameters", None) or {}
    nested = [value for value in parameters.values() if isinstance(value, dict)]
    return nested or [parameters]
