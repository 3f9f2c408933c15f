"""Every public name has a docstring and is in the API reference."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

REFERENCE = (Path(__file__).parents[1] / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
PUBLIC = (
    "wherefrom",
    "wherefrom.catalogue",
    "wherefrom.errors",
    "wherefrom.files",
    "wherefrom.heads",
    "wherefrom.networks",
    "wherefrom.optimus",
    "wherefrom.progress",
    "wherefrom.report.head_map",
    "wherefrom.report.plots",
    "wherefrom.samples",
    "wherefrom.statistics",
    "wherefrom.testing",
    "wherefrom.typing",
)
NAMES = [(module, name) for module in PUBLIC for name in import_module(module).__all__ if name != "__version__"]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_it_is_documented(module: str, name: str) -> None:
    value: Any = getattr(import_module(module), name)
    if not (inspect.isclass(value) or inspect.isfunction(value)):  # a constant or the alias of a type
        assert f"`{module}.{name}`" in REFERENCE
        return
    text = inspect.getdoc(value) or ""
    assert text
    assert not text.startswith(f"{name}("), "only the signature that a dataclass is given"
    assert f"::: {value.__module__}.{value.__qualname__}\n" in REFERENCE


def test_the_public_surface_loads_no_torch() -> None:
    code = (
        "import sys, wherefrom; wherefrom.Comparison, wherefrom.Grade, dir(wherefrom); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
