"""What the shell offers when somebody presses the tab key: names of methods, metrics, levels and a model's labels.
Nothing here loads torch: a shell waits for it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from wherefrom.catalogue import AUTO, Kind, catalogue

LEVELS = ("token", "word", "sentence")
BUILTIN = Path(__file__).parents[1] / "model" / "builtin" / "sentiment"


def complete_method(incomplete: str) -> list[str]:
    """One method, or the word for the one that is taken where none is named."""
    return _beginning(incomplete, [AUTO, *catalogue("method")])


def complete_methods(incomplete: str) -> list[str]:
    """Methods between commas, or a word for several."""
    return _between_commas("method", incomplete, ("default", "fast", "all"))


def complete_metrics(incomplete: str) -> list[str]:
    """Metrics between commas, or a word for several."""
    return _between_commas("metric", incomplete, ("default", "all"))


def complete_level(incomplete: str) -> list[str]:
    """A level."""
    return _beginning(incomplete, LEVELS)


def complete_label(ctx: typer.Context, incomplete: str) -> list[str]:
    """A label of the model that is named before, where it is the embedded one or a folder; nothing for others, which
    would have to be fetched.
    """
    model = str(ctx.params.get("model") or "embedded")
    path = (BUILTIN if model == "embedded" else Path(model)) / "config.json"
    try:
        settings: Any = json.loads(path.read_text(encoding="utf-8"))
        names = [str(name) for name in (settings.get("id2label") or {}).values()]
    except (OSError, ValueError, AttributeError):
        return []
    return _beginning(incomplete, names)


def _between_commas(kind: Kind, incomplete: str, several: tuple[str, ...]) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    names = list(catalogue(kind)) if comma else [*several, *catalogue(kind)]
    return [f"{before}{comma}{name}" for name in _beginning(last, names)]


def _beginning(incomplete: str, names: tuple[str, ...] | list[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
