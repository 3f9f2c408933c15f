"""The command `wherefrom metrics`."""

from __future__ import annotations

import sys
from itertools import groupby

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from wherefrom.cli.arguments import JsonOption, app, examples
from wherefrom.core.files import json_text

HEADINGS = {
    None: "measured on the model alone",
    "others": "measured against the other classes",
    "rationale": "measured against what people marked (--rationale)",
    "answer": "measured against a question's answer",
    "second": "measured against another model (--against)",
    "edited": "measured against slightly edited texts",
}


@app.command(
    rich_help_panel="Look something up",
    epilog=examples(
        "wherefrom metrics",
        "wherefrom metrics --json",
    ),
)
def metrics(as_json: JsonOption = False) -> None:
    """List the metrics."""
    from wherefrom.registry import listed

    rows = listed("metric")
    if as_json:
        records = [
            {"name": row.name, "better": row.get("better"), "fill": row.options.get("fill"), "needs": row.get("needs")}
            | {"group": row.get("group", "other"), "summary": row.summary, "paper": row.get("paper")}
            | {"options": dict(row.options)}
            for row in rows
        ]
        sys.stdout.write(json_text(records) + "\n")
        return
    console = Console(highlight=False)
    for needs, members in groupby(rows, key=lambda row: row.get("needs")):
        console.print(Text(f"\n{HEADINGS[needs]}", "bold underline"))
        for row in members:
            settings = ":".join(f"{name}={value}" for name, value in row.options.items())
            traits = f"  {row.get('better')} is better, {row.get('group', 'other')}"
            console.print(Text.assemble((row.name, "bold cyan"), (traits, "dim")))
            body = Text(row.summary)
            body.append(f"\n{row.get('paper')}", "dim")
            body.append(f"\n{row.name}:{settings}" if settings else "", "blue")
            console.print(Padding(body, (0, 0, 0, 4)))
