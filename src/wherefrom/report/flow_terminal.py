"""A flow in the terminal: how much of each token the deciding position contains after each layer."""

from __future__ import annotations

from rich.console import Console

from wherefrom.core.flow import Flow
from wherefrom.report.colour import DARK
from wherefrom.report.columns import TerminalColumn, print_columns
from wherefrom.report.flow import deciding, in_words, labels
from wherefrom.report.terminal import Terminal

USUAL = 1.5  # times an equal share: more than that is printed bold


def print_flow(flow: Flow, *, console: Console | None = None) -> None:
    """Print a table with one row a token and one column a layer, in several blocks where there are many layers."""
    console = console or Console(highlight=False)
    terminal = Terminal(console, DARK, signed=False)
    place, names, strong = deciding(flow), labels(flow), USUAL / max(1, len(flow.tokens))
    about = f"What “{names[place]}” contains of each token after each layer, from 1 up ({flow.method})"
    console.print(terminal.text(about, "bold"))
    console.print(terminal.text(in_words(flow)))
    columns = [
        TerminalColumn(
            ("layer", str(number)),
            tuple(terminal.text(f"{share:.3f}", "bold" if share > strong else "dim") for share in layer[place]),
        )
        for number, layer in enumerate(flow.accumulated if len(flow.layers) else (), 1)
    ]
    print_columns(console, (TerminalColumn(("token",), tuple(terminal.name(name) for name in names)), columns))
    for note in flow.notes:
        console.print(terminal.text(note, "dim"))
