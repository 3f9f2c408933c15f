"""How `wherefrom methods` and `wherefrom metrics` print what they list."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from wherefrom.catalogue import CatalogueRow


def print_heading(text: str) -> None:
    Console(highlight=False).print(Text(f"\n{text}", "bold underline"))


def print_entry(row: CatalogueRow, traits: str, settings: str) -> None:
    """A method or a metric: its name and traits, then its summary, paper and options."""
    console = Console(highlight=False)
    console.print(Text.assemble((row.name, "bold cyan"), (f"  {traits}", "dim")))
    body = Text(row.summary)
    body.append(f"\n{row.get('paper')}" if row.get("paper") != "none" else "", "dim")
    body.append(f"\n{settings}" if settings else "", "blue")
    console.print(Padding(body, (0, 0, 0, 4)))
