"""The command `wherefrom metrics`."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated

import typer

from wherefrom.cli.arguments import JsonOption, app, examples, print_json
from wherefrom.cli.completion import complete_metrics
from wherefrom.cli.listing import print_entry, print_heading, print_page, rows_to_print

HEADINGS = {
    None: "measured on the model alone",
    "others": "measured against the other classes",
    "rationale": "measured against what people marked (--rationale)",
    "answer": "measured against a question's answer",
    "second": "measured against another model (--against)",
    "edited": "measured against slightly edited texts",
    "randomised": "measured against the model with shuffled weights",
}


@app.command(
    rich_help_panel="Look something up",
    epilog=examples(
        "wherefrom metrics",
        "wherefrom metrics comprehensiveness",
        "wherefrom metrics --json",
    ),
)
def metrics(
    name: Annotated[
        str | None, typer.Argument(help="One metric, described in full.", autocompletion=complete_metrics)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the metrics, or describe one."""
    rows = rows_to_print("metric", name)
    if as_json:
        records = [
            {"name": row.name, "better": row.get("better"), "fill": row.options.get("fill"), "needs": row.get("needs")}
            | {"group": row.get("group", "other"), "summary": row.summary, "paper": row.get("paper")}
            | {"options": dict(row.options)}
            for row in rows
        ]
        print_json(records if name is None else records[0])
        return
    if name is not None:
        (row,) = rows
        facts = {"better": f"{row.get('better')} is better", "group": row.get("group", "other")}
        facts["measured"] = HEADINGS[row.get("needs")].removeprefix("measured ")
        print_page(row, facts, f'wherefrom compare "A fine film." --metrics {row.name}')
        return
    for needs, members in groupby(rows, key=lambda row: row.get("needs")):
        print_heading(HEADINGS[needs])
        for row in members:
            settings = ":".join(f"{name}={value}" for name, value in row.options.items())
            traits = f"{row.get('better')} is better, {row.get('group', 'other')}"
            print_entry(row, traits, f"{row.name}:{settings}" if settings else "")
