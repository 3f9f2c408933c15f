"""The command `wherefrom methods`."""

from __future__ import annotations

import json
import sys
from itertools import groupby

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from wherefrom.cli.arguments import JsonOption, app


@app.command()
def methods(as_json: JsonOption = False) -> None:
    """List the methods."""
    from wherefrom.registry import all_methods, options_of

    rows = all_methods()
    options = {row.name: {name: p.default for name, p in options_of(row.function).items()} for row in rows}
    if as_json:
        plain = ("name", "family", "signed", "per_class", "summary", "paper")
        listed = [
            {key: getattr(row, key) for key in plain}
            | {"reads": ", ".join(sorted(row.needs())), "options": options[row.name]}
            for row in rows
        ]
        sys.stdout.write(json.dumps(listed, ensure_ascii=False) + "\n")
        return
    console = Console(highlight=False)
    for family, members in groupby(rows, key=lambda row: row.family):
        console.print(Text(f"\n{family}", "bold underline"))
        for row in members:
            traits = [_sign(row.signed), "depends on the class" if row.per_class else "the same for every class"]
            settings = " ".join(f"-o {name}={value}" for name, value in options[row.name].items())
            console.print(Text.assemble((row.name, "bold cyan"), (f"  {', '.join(traits)}", "dim")))
            body = Text(row.summary)
            body.append(f"\n{row.paper}" if row.paper != "none" else "", "dim")
            body.append(f"\n{settings}" if settings else "", "green")
            console.print(Padding(body, (0, 0, 0, 4)))


def _sign(signed: bool) -> str:
    return "for and against" if signed else "importance only"
