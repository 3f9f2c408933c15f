"""Methods and metrics side by side: a table in the terminal, and a page."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from whence.core.comparison import Comparison
from whence.report import html


def print_comparison(comparison: Comparison, *, console: Console | None = None) -> None:
    table = Table("method", *comparison.metrics, box=None)
    for name, grades in zip(comparison.names, comparison.grades, strict=True):
        table.add_row(name, *("-" if grade.value is None else f"{grade.value:.3f}" for grade in grades))
    (console or Console()).print(table)


def page(comparison: Comparison) -> str:
    return html.page(comparison.explanations)


def fragment(comparison: Comparison) -> str:
    return "".join(html.fragment(explanation) for explanation in comparison.explanations)
