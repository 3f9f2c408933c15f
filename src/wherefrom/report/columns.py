"""Tables in the terminal that never cut a number: columns that do not fit follow in another block, with the same labels
in front.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

GAP = 2  # between columns
WIDEST = 12  # a heading that is wider is broken into lines where it has underscores
LONGEST = 14  # a part of a heading that is longer is hyphenated


class TerminalColumn(NamedTuple):
    """One column of a table: a heading of several lines, and its cells."""

    heading: tuple[str, ...]
    cells: tuple[Text, ...]

    @property
    def width(self) -> int:
        return max(*map(cell_len, self.heading), *(cell.cell_len for cell in self.cells), 1)


Columns = tuple[TerminalColumn, Sequence[TerminalColumn]]  # the labels, and the other columns


def print_columns(console: Console, *layouts: Columns) -> None:
    """Print a table, in several blocks where the terminal is too narrow for one.

    layouts: one or several of the same table, of which the one with the fewest blocks is printed.
    """
    for block in min((blocks(*layout, console.width) for layout in layouts), key=len):
        console.print()
        for line in lines(block):
            console.print(line, soft_wrap=True)  # a terminal too narrow for two columns breaks lines by itself


def blocks(label: TerminalColumn, columns: Sequence[TerminalColumn], width: int) -> list[list[TerminalColumn]]:
    """The columns in groups that fit the width, each with the same labels in front and at least one other column."""
    groups: list[list[TerminalColumn]] = []
    left = 0
    for column in columns:
        needs = GAP + column.width
        if not groups or needs > left:
            groups.append([label])
            left = width - label.width
        groups[-1].append(column)
        left -= needs
    return groups or [[label]]


def lines(block: Sequence[TerminalColumn]) -> Iterator[Text]:
    """The rows of a block, its headings aligned at the bottom. Labels are aligned left, numbers right."""
    tallest = max(len(column.heading) for column in block)
    above = [
        tuple(Text(line, "dim") for line in (*[""] * (tallest - len(column.heading)), *column.heading))
        for column in block
    ]
    for row in zip(*((*heading, *column.cells) for heading, column in zip(above, block, strict=True)), strict=True):
        yield Text(" " * GAP).join(
            _padded(cell, column.width, left=column is block[0]) for cell, column in zip(row, block, strict=True)
        )


def heading(name: str) -> tuple[str, ...]:
    """A long name in lines, broken after underscores, colons and spaces."""
    lines_of_heading = [""]
    for part in (piece for whole in re.findall(r"[^_:, ]+[_:, ]*", name) for piece in _hyphenated(whole)):
        if lines_of_heading[-1] and len((lines_of_heading[-1] + part).rstrip()) > WIDEST:
            lines_of_heading.append("")
        lines_of_heading[-1] += part
    return tuple(line.rstrip() for line in lines_of_heading)


def _hyphenated(part: str) -> list[str]:
    """A word in two halves, where it is so long that its column would be much wider than its numbers."""
    word = part.rstrip("_:, ")
    half = (len(word) + 1) // 2
    return [part] if len(word) <= LONGEST else [f"{word[:half]}-", part[half:]]


def _padded(cell: Text, width: int, *, left: bool) -> Text:
    room = Text(" " * (width - cell.cell_len))
    return cell + room if left else room + cell
