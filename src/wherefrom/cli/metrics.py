"""The command `wherefrom metrics`."""

from __future__ import annotations

import json
import sys
from itertools import groupby

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from wherefrom.cli.arguments import JsonOption, app

HEADINGS = {
    None: "measured on the model alone",
    "others": "measured against the other classes",
    "rationale": "measured against what people marked (--rationale)",
    "answer": "measured against a question's answer",
    "second": "measured against another model (--against)",
}


@app.command()
def metrics(as_json: JsonOption = False) -> None:
    """List the metrics."""
    from wherefrom.registry import all_metrics, options_of

    rows = all_metrics()
    options = {row.name: {name: p.default for name, p in options_of(row.function).items()} for row in rows}
    if as_json:
        plain = ("name", "better", "fill", "needs", "summary", "paper")
        listed = [{key: getattr(row, key) for key in plain} | {"options": options[row.name]} for row in rows]
        sys.stdout.write(json.dumps(listed, ensure_ascii=False) + "\n")
        return
    console = Console(highlight=False)
    for needs, members in groupby(rows, key=lambda row: row.needs):
        console.print(Text(f"\n{HEADINGS[needs]}", "bold underline"))
        for row in members:
            settings = ":".join(f"{name}={value}" for name, value in options[row.name].items())
            console.print(Text.assemble((row.name, "bold cyan"), (f"  {row.better} is better", "dim")))
            body = Text(row.summary)
            body.append(f"\n{row.paper}", "dim")
            body.append(f"\n{row.name}:{settings}" if settings else "", "green")
            console.print(Padding(body, (0, 0, 0, 4)))
