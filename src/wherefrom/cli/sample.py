"""The command `wherefrom sample`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wherefrom.cli.arguments import app, examples
from wherefrom.samples import NAMES, sample_path


@app.command(
    rich_help_panel="Look something up",
    epilog=examples(
        "wherefrom sample",
        "wherefrom sample reviews",
    ),
)
def sample(
    name: Annotated[str | None, typer.Argument(help="The sample to print.", show_default="list them")] = None,
) -> None:
    """List the sample data, or print a file of it."""
    if name is not None:
        sys.stdout.write(sample_path(name).read_text(encoding="utf-8"))
        return
    table = Table.grid(padding=(0, 2))
    for known, what in NAMES.items():
        table.add_row(Text(known, "bold cyan"), Text(what))
    console = Console(highlight=False)
    console.print(table)
    console.print(
        Text("wherefrom sample NAME prints one; sample:NAME stands for it where a data file is named.", "dim")
    )
