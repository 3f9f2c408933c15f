"""How `wherefrom methods` and `wherefrom metrics` print what they list, and one entry of it alone."""

from __future__ import annotations

from inspect import cleandoc

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wherefrom.catalogue import CatalogueRow, Kind


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


def rows_to_print(kind: Kind, name: str | None) -> list[CatalogueRow]:
    """All methods or metrics, or the one of this name.

    Raises:
        UnknownName: where there is none, with the names that are close.
    """
    from wherefrom.registry import check_name, listed

    if name is None:
        return listed(kind)
    check_name(kind, name)
    bare = name.partition(":")[0]
    return [row for row in listed(kind) if row.name == bare]


def print_page(row: CatalogueRow, facts: dict[str, str], example: str) -> None:
    """All that is known of one method or metric: what its numbers mean, its traits, options, paper and an example."""
    console = Console(highlight=False)
    console.print(Text(row.name, "bold cyan"))
    for paragraph in cleandoc(row.description).split("\n\n"):
        console.print(Padding(Text(_without_breaks(paragraph)), (1, 0, 0, 0)))
    console.print()
    paper = row.get("paper")
    facts |= {"options": ", ".join(f"{name}={value}" for name, value in row.options.items()) or "none"}
    facts |= {"paper": paper} if paper not in (None, "none") else {}
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        table.add_row(Text(name, "bold"), Text(value))
    console.print(table)
    console.print(Text(f"\n$ {example}", "blue"), soft_wrap=True)


def _without_breaks(paragraph: str) -> str:
    """The lines of a paragraph as one, so that the terminal breaks them; a line that follows a colon stays apart."""
    lines: list[str] = []
    for line in paragraph.splitlines():
        begins = ":" in line.split(" ")[0]  # as the description of an option does
        if lines and not begins:
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line.strip())
    return "\n".join(lines)
