"""`wherefrom run --task sources`: methods for sources on a file of questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from wherefrom.cli.arguments import load
from wherefrom.errors import BadOption
from wherefrom.progress import bar
from wherefrom.sources.compare import COMPARED

SHOWN = ("gold_at_1", "top_1_drop", "lds", "supported")


def run_source_rows(
    data: str, out: Path, *, model: str, methods: str, limit: int | None, resume: bool, device: str | None
) -> None:
    """Grade methods on every row, and print their means."""
    if model == "embedded":
        raise BadOption("Name a causal language model: --model FOLDER. The embedded one only classifies.")
    named = methods not in ("default", "fast")
    names = [name.strip() for name in methods.split(",") if name.strip()] if named else list(COMPARED)
    with bar("questions") as progress:
        summary = load(model, device=device).run_sources(
            data, out, methods=names, limit=limit, resume=resume, progress=progress
        )
    _print(summary, out)


def _print(summary: dict[str, Any], out: Path) -> None:
    console = Console(highlight=False)
    console.print(f"{summary['rows']} questions" + (f", {summary['failed']} failed" if summary["failed"] else ""))
    if not summary["methods"]:
        return
    console.print(f"From the passages: {_cell(summary['grounded'])} of the answers.")
    if summary["grounding_auc"] is not None:
        console.print(f"Area under the ROC curve, answerable against unanswerable: {summary['grounding_auc']:.2f}.")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("method", *SHOWN):
        table.add_column(column.replace("_", " "), justify="left" if column == "method" else "right")
    for name, metrics in summary["methods"].items():
        table.add_row(name, *(_cell(metrics[metric]) for metric in SHOWN))
    console.print(table)
    console.print(f"All numbers: {out / 'summary.json'}; every question: {out / 'rows.jsonl'}", soft_wrap=True)


def _cell(estimate: dict[str, Any] | None) -> str:
    if estimate is None:
        return "–"
    if estimate["low"] is None:
        return f"{estimate['mean']:.2f}"
    return f"{estimate['mean']:.2f} [{estimate['low']:.2f}, {estimate['high']:.2f}]"
