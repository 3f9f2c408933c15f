"""A comparison as HTML: a page whose table can be sorted, each method's coloured text beside its numbers; and a
notebook's output.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from wherefrom.core.comparison import Comparison, Rationale
from wherefrom.core.labels import visible
from wherefrom.report.comparison_sheet import GradeCell, MethodLine, mean, sheet
from wherefrom.report.document import render_fragment, render_page
from wherefrom.report.html import ExplanationView, view

VERTICAL = 6  # with so many metrics or more, their names are written vertically


class MethodRow(NamedTuple):
    """A method for the templates: its name in parts that may be broken apart, its cells, its coloured text."""

    name: list[str]
    tip: str  # what to know about its numbers
    cells: list[tuple[GradeCell, str]]  # each with its strength
    mean_rank: str
    seconds: float
    time: str
    passes: str
    rows: int
    view: ExplanationView


def page(comparison: Comparison) -> str:
    """A self-contained HTML page with a sortable table."""
    first = comparison.explanations[0] if comparison.explanations else None
    return render_page(
        "comparison.html",
        title=visible(f"Which explanation of “{first.target}” is to be believed?") if first else "Nothing to compare",
        styles=("text.css", "page.css", "comparison.css"),
        scripts=("tip.js", "comparison.js"),
        **_values(comparison, special=True),
    )


def fragment(comparison: Comparison) -> str:
    """The table for a notebook's output, with its style sheet and without scripts."""
    return render_fragment("comparison_fragment.html", **_values(comparison, special=False))


def _values(comparison: Comparison, *, special: bool) -> dict[str, Any]:
    table = sheet(comparison)
    rows = [_row(line, len(table.lines), comparison.rationale, special=special) for line in table.lines]
    return {
        "head": rows[0].view if rows else None,
        "rows": rows,
        "columns": [(breakable(column.name), column) for column in table.columns],
        "upwards": len(table.columns) >= VERTICAL,
        "sheet": table,
    }


def _row(line: MethodLine, methods: int, rationale: Rationale | None, *, special: bool) -> MethodRow:
    explanation, prepared = line.explanation, view(line.explanation, special=special, rationale=rationale)
    return MethodRow(
        breakable(line.name),
        "\n".join(f"{name}: {value}" for name, value in prepared.facts),
        [(cell, _strength(cell, methods)) for cell in line.cells],
        mean(line.mean_rank),
        explanation.seconds,
        line.time,
        line.passes,
        explanation.forwards + explanation.backwards,
        prepared,
    )


def breakable(name: str) -> list[str]:
    """A name in parts, between which a line may end."""
    return re.findall(r"[^_:,=]*[_:,=]+|[^_:,=]+$", name) or [name]


def _strength(cell: GradeCell, methods: int) -> str:
    """How strongly a cell is coloured: the better its rank, the more; not at all where all are equal."""
    if cell.rank is None or (cell.rank == 1 and not cell.best):
        return "0"
    return f"{1 - (cell.rank - 1) / (methods - 1):.2f}"
