"""The names of methods and metrics, and what is said of each, read from their source files without importing them:
importing a method imports torch, which a list of names and a misspelt one need not wait for.

The registry says the same of what was imported (tests/test_catalogue.py compares the two, row by row). It finds the
module of a name here, and imports that one alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

__all__ = ["CatalogueRow", "catalogue"]

Kind = Literal["method", "metric"]
AUTO = "auto"  # in place of a method's name: the one that is taken where none is named


@dataclass(frozen=True)
class CatalogueRow:
    """What is written in the decorator of a method or metric, with its options and its summary."""

    name: str
    module: str
    options: Mapping[str, Any]  # with their defaults
    summary: str
    declared: Mapping[str, Any]  # the decorator's arguments; None for one that is computed, as `reads` may be
    description: str = ""  # all that its source says of it, whose first paragraph is the summary

    def get(self, argument: str, otherwise: Any = None) -> Any:
        """An argument of the decorator."""
        return self.declared.get(argument, otherwise)


@cache
def catalogue(kind: Kind) -> Mapping[str, CatalogueRow]:
    """What Wherefrom's methods or metrics declare of themselves, by name: family, group, direction, options. Loads no
    torch.

    Example:
        >>> catalogue("metric")["aopc"].get("better")
        'higher'
    """
    package = f"wherefrom.{kind}s"
    rows = (
        row
        for path in sorted((Path(__file__).parent / f"{kind}s").glob("*.py"))
        for row in _rows(kind, path.read_text(encoding="utf-8"), f"{package}.{path.stem}")
    )
    return {row.name: row for row in rows}


def floor_method() -> str:
    """The method that any other should surpass, because its scores know nothing of the model."""
    return next(row.name for row in catalogue("method").values() if row.get("family") == "floor")


def metric_name(class_name: str) -> str:
    """LogOdds is called log_odds, Jaccard25 jaccard_25."""
    return re.sub(r"(?<=[a-z])(?=[A-Z0-9])", "_", class_name).lower()


def first_paragraph(text: str) -> str:
    """In one line."""
    return " ".join(text.split("\n\n")[0].split())


def _rows(kind: Kind, source: str, module: str) -> list[CatalogueRow]:
    if f"@{kind}(" not in source:  # helpers that several methods share
        return []
    tree = ast.parse(source)
    constants = _constants(tree)
    rows = []
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.func.id == kind:
                name = node.name if isinstance(node, ast.FunctionDef) else metric_name(node.name)
                description = ast.get_docstring(node) or ast.get_docstring(tree) or ""
                declared = {
                    word.arg: _literal(word.value, constants, otherwise=None) for word in decorator.keywords if word.arg
                }
                options, summary = _options(node, constants), first_paragraph(description)
                rows.append(CatalogueRow(name, module, options, summary, declared, description))
    return rows


def _options(node: ast.FunctionDef | ast.ClassDef, constants: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword-only parameters of a function, or the fields of a data class."""
    if isinstance(node, ast.FunctionDef):
        pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        return {parameter.arg: _literal(default, constants) for parameter, default in pairs if default is not None}
    return {
        field.target.id: _literal(field.value, constants)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and field.value is not None
        and not ast.unparse(field.annotation).startswith("ClassVar")
    }


def _constants(tree: ast.Module) -> dict[str, Any]:
    """The constants of a module with plain values."""
    constants = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            try:
                constants[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return constants


def _literal(node: ast.expr, constants: Mapping[str, Any], *, otherwise: Any = ...) -> Any:
    """The value as it is written, or that of a constant of the same module; else the text of the expression."""
    if isinstance(node, ast.Name) and node.id in constants:
        return constants[node.id]
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node) if otherwise is ... else otherwise
