"""The studies use public names of Wherefrom only: those in the `__all__` of a public module."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import wherefrom_studies

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
    "wherefrom.typing",
)


def imports() -> list[tuple[str, str, str]]:
    """(file, module, name) of every import of Wherefrom."""
    rows = []
    for path in sorted(Path(wherefrom_studies.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "wherefrom":
                rows += [(path.name, str(node.module), alias.name) for alias in node.names]
            if isinstance(node, ast.Import):
                rows += [(path.name, a.name, "") for a in node.names if a.name.partition(".")[0] == "wherefrom"]
    return rows


def is_public(module: str, name: str) -> bool:
    if f"{module}.{name}" in PUBLIC:
        return True
    return module in PUBLIC and name in import_module(module).__all__


def test_only_public_names_are_imported() -> None:
    assert [row for row in imports() if not is_public(*row[1:])] == []
