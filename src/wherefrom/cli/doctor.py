"""The command `wherefrom doctor`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wherefrom.cli.arguments import JsonOption, app


@app.command()
def doctor(
    model: Annotated[str, typer.Argument(help="'embedded', a folder, or a hub id.")] = "embedded",
    relevance: Annotated[
        bool, typer.Option("--relevance", help="Follow relevance through the model, layer by layer.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what was found in a model, check it, and try every method on it."""
    from wherefrom.api import load
    from wherefrom.doctor import examine

    if relevance:
        follow_relevance(model, as_json=as_json)
        return
    found = examine(load(model))
    if as_json:
        sys.stdout.write(json.dumps(found, ensure_ascii=False) + "\n")
    else:
        console = Console(highlight=False)
        facts = Table.grid(padding=(0, 2))
        for name, value in found["facts"].items():
            facts.add_row(
                Text(name, style="bold"), Text(", ".join(map(str, value)) if isinstance(value, list) else str(value))
            )
        console.print(facts, "")
        table = Table("method", "works", "why not")
        for name, reason in found["methods"].items():
            table.add_row(Text(name), Text("yes", "green") if reason is None else Text("no", "red"), Text(reason or ""))
        console.print(table)
    if found["broken"]:
        raise typer.Exit(1)


def follow_relevance(model: str, *, as_json: bool) -> None:
    """Print the sum of relevance at every block, and the operations that lose or make any."""
    from wherefrom.api import load
    from wherefrom.doctor import relevance_by_layer

    found = relevance_by_layer(load(model))
    if as_json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        console = Console(highlight=False)
        table = Table("where", "relevance", box=None, padding=(0, 2))
        table.add_row("last block's output", f"{found['output']:.9f}")
        for layer, total in reversed(list(enumerate(found["layers"]))):
            table.add_row(f"input of block {layer}", f"{total:.9f}")
        table.add_row("words", f"{found['words']:.9f}")
        console.print(table)
        console.print(f"To positions and token types, not to words: {found['layers'][0] - found['words']:.6f}")
        console.print(f"The rules changed the logits by {found['logits changed by']:.1e}")
        for leak in found["leaks"]:
            console.print(
                Text(
                    f"block {leak['layer']}, {leak['operation']}: {leak['entering']:.6f} in, {leak['leaving']:.6f} out",
                    "red",
                )
            )
    if found["broken"]:
        raise typer.Exit(1)
