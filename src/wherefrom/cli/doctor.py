"""The command `wherefrom doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wherefrom.cli.arguments import DeviceOption, JsonOption, ModelOption, app, examples, load, print_json

if TYPE_CHECKING:
    from wherefrom.api import Model


@app.command(
    rich_help_panel="Look into a model",
    epilog=examples(
        "wherefrom doctor",
        "wherefrom doctor ./my-model --relevance",
    ),
)
def doctor(
    name: Annotated[
        str | None,
        typer.Argument(help="'embedded', a folder, or a hub id; as --model.", metavar="MODEL", show_default="embedded"),
    ] = None,
    model: ModelOption = "embedded",
    relevance: Annotated[
        bool, typer.Option("--relevance", help="Follow relevance through the model, layer by layer.")
    ] = False,
    as_json: JsonOption = False,
    device: DeviceOption = None,
) -> None:
    """Report what was found in a model, check it, and try every method on it."""
    from wherefrom.doctor import examine
    from wherefrom.progress import bar

    loaded = load(model if name is None else name, device=device)
    if relevance:
        follow_relevance(loaded, as_json=as_json)
        return
    with bar("trying methods") as moved:
        examination = examine(loaded, progress=moved)
    if as_json:
        print_json(examination)
    else:
        console = Console(highlight=False)
        facts = Table.grid(padding=(0, 2))
        for name, value in examination["facts"].items():
            facts.add_row(
                Text(name, style="bold"), Text(", ".join(map(str, value)) if isinstance(value, list) else str(value))
            )
        console.print(facts, "")
        _print_methods(console, examination["methods"])
    if examination["broken"]:
        raise typer.Exit(1)


def _print_methods(console: Console, methods: Mapping[str, str | None]) -> None:
    """How many methods work, and why the others do not, those with the same reason together."""
    reasons: dict[str, list[str]] = {}
    for name, reason in methods.items():
        if reason is not None:
            reasons.setdefault(reason, []).append(name)
    failed = sum(map(len, reasons.values()))
    if not failed:
        console.print(Text(f"All {len(methods)} methods work.", "blue"))
        return
    console.print(Text(f"{len(methods) - failed} of {len(methods)} methods work; {failed} do not:", "bold yellow"))
    for reason, names in reasons.items():
        console.print(Text.assemble((", ".join(names), "bold"), f": {reason}"))


def follow_relevance(model: Model, *, as_json: bool) -> None:
    """Print the sum of relevance at every block, and the operations that do not conserve it."""
    from wherefrom.doctor import relevance_by_layer

    relevance = relevance_by_layer(model)
    if as_json:
        print_json(relevance)
    else:
        console = Console(highlight=False)
        table = Table("where", "relevance", box=None, padding=(0, 2))
        table.add_row("last block's output", f"{relevance['output']:.9f}")
        for layer, total in reversed(list(enumerate(relevance["layers"], 1))):
            table.add_row(f"input of block {layer}", f"{total:.9f}")
        table.add_row("words", f"{relevance['words']:.9f}")
        console.print(table)
        console.print("Blocks are counted from 1.", style="dim")
        console.print(f"To positions and token types, not to words: {relevance['layers'][0] - relevance['words']:.6f}")
        console.print(f"The rules changed the logits by {relevance['logits changed by']:.1e}")
        for leak in relevance["leaks"]:
            where, change = f"block {leak['layer'] + 1}", f"{leak['entering']:.6f} in, {leak['leaving']:.6f} out"
            console.print(Text(f"{where}, {leak['operation']}: {change}", "red"))
    if relevance["broken"]:
        raise typer.Exit(1)
