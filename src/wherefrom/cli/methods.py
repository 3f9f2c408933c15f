"""The command `wherefrom methods`."""

from __future__ import annotations

import sys
from itertools import groupby

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from wherefrom.cli.arguments import JsonOption, app, examples
from wherefrom.core.files import json_text


@app.command(
    rich_help_panel="Look something up",
    epilog=examples(
        "wherefrom methods",
        "wherefrom methods --json",
    ),
)
def methods(as_json: JsonOption = False) -> None:
    """List the methods."""
    from wherefrom.registry import listed

    rows = listed("method")
    if as_json:
        plain = ("family", "signed", "per_class", "paper")
        records = [
            {"name": row.name}
            | {key: row.get(key) for key in plain}
            | {"reads": row.get("reads") or "by options", "summary": row.summary, "options": dict(row.options)}
            for row in rows
        ]
        sys.stdout.write(json_text(records) + "\n")
        return
    console = Console(highlight=False)
    for family, members in groupby(rows, key=lambda row: row.get("family")):
        console.print(Text(f"\n{family}", "bold underline"))
        for row in members:
            per_class = "depends on the class" if row.get("per_class") else "the same for every class"
            settings = " ".join(f"-o {name}={value}" for name, value in row.options.items())
            console.print(Text.assemble((row.name, "bold cyan"), (f"  {_sign(row.get('signed'))}, {per_class}", "dim")))
            body = Text(row.summary)
            body.append(f"\n{row.get('paper')}" if row.get("paper") != "none" else "", "dim")
            body.append(f"\n{settings}" if settings else "", "blue")
            console.print(Padding(body, (0, 0, 0, 4)))


def _sign(signed: bool) -> str:
    return "for and against" if signed else "importance only"
