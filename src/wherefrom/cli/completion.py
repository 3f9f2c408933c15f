"""Shell completion: names of methods, metrics, levels and a model's labels. Nothing here loads torch, because the shell
waits.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from wherefrom.catalogue import AUTO, Kind, catalogue
from wherefrom.core.units import LEVELS

BUILTIN = Path(__file__).parents[1] / "model" / "builtin" / "sentiment"


def complete_method(incomplete: str) -> list[str]:
    """One method, or `auto`."""
    return _beginning(incomplete, [AUTO, *catalogue("method")])


def complete_methods(incomplete: str) -> list[str]:
    """Methods separated by commas, or the name of a set."""
    return _between_commas("method", incomplete, ("default", "fast", "all"))


def complete_metrics(incomplete: str) -> list[str]:
    """Metrics separated by commas, or the name of a set."""
    return _between_commas("metric", incomplete, ("main", "default", "all"))


def complete_level(incomplete: str) -> list[str]:
    """A level."""
    return _beginning(incomplete, LEVELS)


def complete_label(ctx: typer.Context, incomplete: str) -> list[str]:
    """A label of the embedded model or of a model in a folder; none for models that would have to be downloaded."""
    model = str(ctx.params.get("model") or "embedded")
    path = (BUILTIN if model == "embedded" else Path(model)) / "config.json"
    try:
        settings: Any = json.loads(path.read_text(encoding="utf-8"))
        names = [str(name) for name in (settings.get("id2label") or {}).values()]
    except (OSError, ValueError, AttributeError):
        return []
    return _beginning(incomplete, names)


def _between_commas(kind: Kind, incomplete: str, sets: tuple[str, ...]) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    names = list(catalogue(kind)) if comma else [*sets, *catalogue(kind)]
    return [f"{before}{comma}{name}" for name in _beginning(last, names)]


def _beginning(incomplete: str, names: tuple[str, ...] | list[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
