"""Methods for sources side by side, in the terminal: one answer, or a whole file of questions."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from wherefrom.core.labels import visible
from wherefrom.core.source_grades import SourceGrade, SourcesComparison
from wherefrom.report.wording import duration


def print_comparison(comparison: SourcesComparison, *, console: Console | None = None) -> None:
    """Print the answer, and a line for each method."""
    console = console or Console(highlight=False)
    if comparison.question:
        console.print(f"Question: {visible(comparison.question)}", markup=False)
    console.print(f"Answer: {visible(comparison.answer.strip())}", markup=False, style="bold")
    grounded = "comes" if comparison.grounding.grounded else "does not come"
    console.print(
        f"It {grounded} from the passages: without them its log-probability falls by {comparison.grounding.drop:.1f}."
    )
    gold = bool(comparison.gold)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("method", "verdict", "top 1 drop", "top 3", "lds", *(("gold at 1",) if gold else ()), "passes"):
        table.add_column(column, justify="left" if column in ("method", "verdict") else "right")
    for grade in comparison.grades:
        table.add_row(*_cells(grade, gold=gold))
    console.print(table)
    console.print(
        "drop: how far the answer's log-probability falls without the highest source, or the three highest. lds: how"
        " well the scores predict removals that the method did not use, from -1 to 1.",
        style="dim",
    )
    console.print(duration(comparison.seconds), style="dim")


def _cells(grade: SourceGrade, *, gold: bool) -> Sequence[str]:
    passes = f"{grade.forwards}" + (f" + {grade.backwards} back" if grade.backwards else "")
    found = {1.0: "yes", 0.0: "no", None: "–"}[grade.gold_at_1]
    return (
        grade.method,
        grade.verdict or "–",
        f"{grade.top_1_drop:+.2f}",
        f"{grade.top_3_drop:+.2f}",
        "–" if grade.lds is None else f"{grade.lds:+.2f}",
        *((found,) if gold else ()),
        passes,
    )
