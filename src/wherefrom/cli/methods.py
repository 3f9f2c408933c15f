"""The command `wherefrom methods`."""

from __future__ import annotations

from itertools import groupby

from wherefrom.cli.arguments import JsonOption, app, examples, print_json
from wherefrom.cli.listing import print_entry, print_heading


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
        print_json(records)
        return
    for family, members in groupby(rows, key=lambda row: row.get("family")):
        print_heading(family)
        for row in members:
            sign = "for and against" if row.get("signed") else "importance only"
            per_class = "depends on the class" if row.get("per_class") else "the same for every class"
            settings = " ".join(f"-o {name}={value}" for name, value in row.options.items())
            print_entry(row, f"{sign}, {per_class}", settings)
