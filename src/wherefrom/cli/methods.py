"""The command `wherefrom methods`."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated

import typer

from wherefrom.catalogue import CatalogueRow
from wherefrom.cli.arguments import JsonOption, app, examples, print_json
from wherefrom.cli.completion import complete_method
from wherefrom.cli.listing import print_entry, print_heading, print_page, rows_to_print


@app.command(
    rich_help_panel="Look something up",
    epilog=examples(
        "wherefrom methods",
        "wherefrom methods attn_lrp",
        "wherefrom methods --json",
    ),
)
def methods(
    name: Annotated[
        str | None, typer.Argument(help="One method, described in full.", autocompletion=complete_method)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the methods, or describe one."""
    rows = rows_to_print("method", name)
    if as_json:
        plain = ("family", "signed", "per_class", "paper")
        records = [
            {"name": row.name}
            | {key: row.get(key) for key in plain}
            | {"reads": row.get("reads") or "by options", "summary": row.summary, "options": dict(row.options)}
            for row in rows
        ]
        print_json(records if name is None else records[0])
        return
    if name is not None:
        print_page(rows[0], _facts(rows[0]), f'wherefrom explain "A fine film." --method {rows[0].name}')
        return
    for family, members in groupby(rows, key=lambda row: row.get("family")):
        print_heading(family)
        for row in members:
            facts = _facts(row)
            settings = " ".join(f"-o {name}={value}" for name, value in row.options.items())
            print_entry(row, f"{facts['scores']}, {facts['class']}", settings)


def _facts(row: CatalogueRow) -> dict[str, str]:
    """The traits of a method in words."""
    return {
        "family": row.get("family"),
        "scores": "for and against" if row.get("signed") else "importance only",
        "class": "depends on the class" if row.get("per_class") else "the same for every class",
        "cost": "slow: takes many passes" if row.get("slow") else "a few passes",
    }
