"""A comparison in the terminal: methods and metrics in a table, with places, reasons, time and passes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from wherefrom.core.comparison import Comparison
from wherefrom.report.colour import DARK
from wherefrom.report.comparison_sheet import Cell, Sheet, mean, sheet
from wherefrom.report.terminal import Pen
from wherefrom.report.wording import percent, predicted

GAP = 2  # between columns
WIDEST = 12  # a heading is broken at its underscores until it is no wider, if it can be


class Stack(NamedTuple):
    """One column of a table: a heading of several lines, and its cells."""

    heading: tuple[str, ...]
    cells: tuple[Text, ...]

    @property
    def width(self) -> int:
        return max(*map(cell_len, self.heading), *(cell.cell_len for cell in self.cells), 1)


def print_comparison(comparison: Comparison, *, console: Console | None = None) -> None:
    """Print the table, in as many blocks as the terminal's width needs; with metrics for rows where that takes
    fewer.
    """
    console = console or Console()
    pen = Pen(console, DARK, signed=True)
    made = sheet(comparison)
    if not made.lines:
        console.print(pen.text("There is nothing to compare: no method could explain this text."))
    else:
        console.print(_headline(comparison, pen))
        for block in min(
            (_blocks(label, stacks, console.width) for label, stacks in (_by_method(made, pen), _by_metric(made, pen))),
            key=len,
        ):
            console.print()
            for line in _lines(block, pen):
                console.print(line, soft_wrap=True)  # a terminal too narrow for two columns breaks lines by itself
    _print_rest(made, pen)


def _headline(comparison: Comparison, pen: Pen) -> Text:
    first = comparison.explanations[0]
    line = Text.assemble(
        pen.text(f"{len(comparison.names)} explanation{'s' * (len(comparison.names) != 1)} of "),
        pen.text(first.target, "bold"),
        pen.text(f" ({percent(first.probability)}), by {first.level}"),
    )
    instead = predicted(first)
    return line.append_text(pen.text(f"; the model predicts {instead}", "yellow")) if instead else line


def _by_method(made: Sheet, pen: Pen) -> tuple[Stack, list[Stack]]:
    """Methods for rows."""
    names = Stack(("method",), tuple(pen.name(line.name) for line in made.lines))
    stacks = [
        Stack(
            _heading(f"{column.name} {_arrow(column.better, pen)}"),
            tuple(_value(line.cells[i], pen) for line in made.lines),
        )
        for i, column in enumerate(made.columns)
    ]
    means = (
        [Stack(("mean", "rank"), tuple(pen.text(mean(line.mean_rank)) for line in made.lines))] if made.ranked else []
    )
    time = Stack(("time",), tuple(pen.text(line.time) for line in made.lines))
    return names, [*means, *stacks, time, Stack(("passes",), tuple(pen.text(line.passes) for line in made.lines))]


def _by_metric(made: Sheet, pen: Pen) -> tuple[Stack, list[Stack]]:
    """Metrics for rows: narrower where methods are few."""
    last = [*(["mean rank"] if made.ranked else []), "time", "passes"]
    names = [f"{column.name} {_arrow(column.better, pen)}" for column in made.columns]
    stacks = []
    for line in made.lines:
        sums = [*([mean(line.mean_rank)] if made.ranked else []), line.time, line.passes]
        stacks.append(
            Stack(_heading(line.name), (*(_value(cell, pen) for cell in line.cells), *(pen.text(one) for one in sums)))
        )
    return Stack(("metric",), tuple(pen.text(name) for name in (*names, *last))), stacks


def _blocks(label: Stack, stacks: Sequence[Stack], width: int) -> list[list[Stack]]:
    """The columns in groups that fit the width, each behind the same labels; at least one in each."""
    blocks: list[list[Stack]] = []
    left = 0
    for stack in stacks:
        needs = GAP + stack.width
        if not blocks or needs > left:
            blocks.append([label])
            left = width - label.width
        blocks[-1].append(stack)
        left -= needs
    return blocks or [[label]]


def _lines(block: Sequence[Stack], pen: Pen) -> Iterator[Text]:
    """The block's rows, the heading at the bottom of its own. Labels stand left, numbers right."""
    tallest = max(len(stack.heading) for stack in block)
    above = [
        tuple(pen.text(line, "dim") for line in (*[""] * (tallest - len(stack.heading)), *stack.heading))
        for stack in block
    ]
    for row in zip(*((*heading, *stack.cells) for heading, stack in zip(above, block, strict=True)), strict=True):
        yield Text(" " * GAP).join(
            _padded(cell, stack.width, left=stack is block[0]) for cell, stack in zip(row, block, strict=True)
        )


def _padded(cell: Text, width: int, *, left: bool) -> Text:
    room = Text(" " * (width - cell.cell_len))
    return cell + room if left else room + cell


def _heading(name: str) -> tuple[str, ...]:
    """A long name in lines, broken behind underscores, colons and spaces."""
    lines = [""]
    for part in re.findall(r"[^_:, ]+[_:, ]*", name):
        if lines[-1] and len((lines[-1] + part).rstrip()) > WIDEST:
            lines.append("")
        lines[-1] += part
    return tuple(line.rstrip() for line in lines)


def _arrow(better: str, pen: Pen) -> str:
    if pen.console.options.ascii_only:
        return "(+)" if better == "higher" else "(-)"
    return "↑" if better == "higher" else "↓"


def _value(cell: Cell, pen: Pen) -> Text:
    """The value and its place; a star for the best; the number of a footnote where there is none."""
    if cell.note is not None:
        return pen.text(f"[{cell.note}]  ", "dim")
    if cell.rank is None:
        return pen.text(cell.text)
    if cell.best:
        return pen.text(f"{cell.text} {'*' if pen.console.options.ascii_only else '★'} ", "bold green")
    return Text.assemble(pen.text(cell.text), pen.text(f" {cell.rank:<2}", "dim"))


def _print_rest(made: Sheet, pen: Pen) -> None:
    for number, note in enumerate(made.footnotes, 1):
        pen.console.print(*([""] if number == 1 else []), pen.text(f"[{number}] not defined: {note}", "dim"), sep="\n")
    for number, remark in enumerate(made.remarks):
        pen.console.print(*([""] if number == 0 else []), pen.text(remark, "yellow"), sep="\n")
    pen.console.print()
    if made.lines and made.columns:
        ends = [
            f"{_arrow(better, pen)} {better} is better" for better in sorted({column.better for column in made.columns})
        ]
        star = "*" if pen.console.options.ascii_only else "★"
        ranks = [f"{star} the best", "small numbers are places"] if made.ranked else []
        passes = "passes: rows forth + back, those that methods share with the first of them"
        pen.console.print(pen.text(pen.signs.dot.join([*ends, *ranks, passes]), "dim"))
    pen.console.print(pen.text(made.counts, "dim"))
