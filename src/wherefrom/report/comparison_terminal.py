"""A comparison in the terminal: a table of methods and metrics with ranks, footnotes, time and passes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from wherefrom.core.comparison import SHAPE, Comparison
from wherefrom.report.colour import DARK
from wherefrom.report.comparison_sheet import GradeCell, Sheet, mean, sheet
from wherefrom.report.terminal import Terminal
from wherefrom.report.wording import percent, predicted

GAP = 2  # between columns
WIDEST = 12  # a heading that is wider is broken into lines where it has underscores


class TerminalColumn(NamedTuple):
    """One column of a table: a heading of several lines, and its cells."""

    heading: tuple[str, ...]
    cells: tuple[Text, ...]

    @property
    def width(self) -> int:
        return max(*map(cell_len, self.heading), *(cell.cell_len for cell in self.cells), 1)


def print_comparison(comparison: Comparison, *, console: Console | None = None) -> None:
    """Print the table, in several blocks where the terminal is too narrow for one; with one row for each metric instead
    of each method where that needs fewer blocks.
    """
    console = console or Console()
    terminal = Terminal(console, DARK, signed=True)
    table = sheet(comparison)
    if not table.lines:
        console.print(terminal.text("There is nothing to compare: no method could explain this text."))
    else:
        console.print(_headline(comparison, terminal))
        if table.conclusion:
            console.print(terminal.text(table.conclusion, "bold"))
        for block in min(
            (
                _blocks(label, stacks, console.width)
                for label, stacks in (_by_method(table, terminal), _by_metric(table, terminal))
            ),
            key=len,
        ):
            console.print()
            for line in _lines(block, terminal):
                console.print(line, soft_wrap=True)  # a terminal too narrow for two columns breaks lines by itself
    _print_rest(table, terminal)


def _headline(comparison: Comparison, terminal: Terminal) -> Text:
    first = comparison.explanations[0]
    line = Text.assemble(
        terminal.text(f"{len(comparison.names)} explanation{'s' * (len(comparison.names) != 1)} of "),
        terminal.text(first.target, "bold"),
        terminal.text(f" ({percent(first.probability)}), by {first.level}"),
    )
    instead = predicted(first)
    return line.append_text(terminal.text(f"; the model predicts {instead}", "yellow")) if instead else line


def _by_method(table: Sheet, terminal: Terminal) -> tuple[TerminalColumn, list[TerminalColumn]]:
    """The first column and the others, with one row for each method."""
    names = TerminalColumn(("method",), tuple(terminal.name(line.name) for line in table.lines))
    stacks = [
        TerminalColumn(
            _heading(f"{column.name} {_arrow(column.better, terminal)}"),
            tuple(_value(line.cells[i], terminal) for line in table.lines),
        )
        for i, column in enumerate(table.columns)
    ]
    means = (
        [TerminalColumn(("mean", "rank"), tuple(terminal.text(mean(line.mean_rank)) for line in table.lines))]
        if table.ranked
        else []
    )
    time = TerminalColumn(("time",), tuple(terminal.text(line.time) for line in table.lines))
    return names, [
        *means,
        *stacks,
        time,
        TerminalColumn(("passes",), tuple(terminal.text(line.passes) for line in table.lines)),
    ]


def _by_metric(table: Sheet, terminal: Terminal) -> tuple[TerminalColumn, list[TerminalColumn]]:
    """The first column and the others, with one row for each metric: narrower where there are few methods."""
    last = [*(["mean rank"] if table.ranked else []), "time", "passes"]
    names = [f"{column.name} {_arrow(column.better, terminal)}" for column in table.columns]
    stacks = []
    for line in table.lines:
        sums = [*([mean(line.mean_rank)] if table.ranked else []), line.time, line.passes]
        stacks.append(
            TerminalColumn(
                _heading(line.name),
                (*(_value(cell, terminal) for cell in line.cells), *(terminal.text(one) for one in sums)),
            )
        )
    return TerminalColumn(("metric",), tuple(terminal.text(name) for name in (*names, *last))), stacks


def _blocks(label: TerminalColumn, stacks: Sequence[TerminalColumn], width: int) -> list[list[TerminalColumn]]:
    """The columns in groups that fit the width, each with the same labels in front and at least one other column."""
    blocks: list[list[TerminalColumn]] = []
    left = 0
    for stack in stacks:
        needs = GAP + stack.width
        if not blocks or needs > left:
            blocks.append([label])
            left = width - label.width
        blocks[-1].append(stack)
        left -= needs
    return blocks or [[label]]


def _lines(block: Sequence[TerminalColumn], terminal: Terminal) -> Iterator[Text]:
    """The rows of a block, its headings aligned at the bottom. Labels are aligned left, numbers right."""
    tallest = max(len(stack.heading) for stack in block)
    above = [
        tuple(terminal.text(line, "dim") for line in (*[""] * (tallest - len(stack.heading)), *stack.heading))
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


def _arrow(better: str, terminal: Terminal) -> str:
    if terminal.console.options.ascii_only:
        return "(+)" if better == "higher" else "(-)"
    return "↑" if better == "higher" else "↓"


def _value(cell: GradeCell, terminal: Terminal) -> Text:
    """The value and its rank, with a star for the best; the number of the footnote where there is no value."""
    if cell.note is not None:
        return terminal.text(f"[{cell.note}]  ", "dim")
    if cell.rank is None:
        return terminal.text(cell.text)
    if cell.best:
        return terminal.text(f"{cell.text} {'*' if terminal.console.options.ascii_only else '★'} ", "bold green")
    return Text.assemble(terminal.text(cell.text), terminal.text(f" {cell.rank:<2}", "dim"))


def _print_rest(table: Sheet, terminal: Terminal) -> None:
    for number, note in enumerate(table.footnotes, 1):
        terminal.console.print(
            *([""] if number == 1 else []), terminal.text(f"[{number}] not defined: {note}", "dim"), sep="\n"
        )
    for number, remark in enumerate(table.remarks):
        terminal.console.print(*([""] if number == 0 else []), terminal.text(remark, "yellow"), sep="\n")
    terminal.console.print()
    if table.lines and table.columns:
        ends = [
            f"{_arrow(better, terminal)} {better} is better"
            for better in sorted({column.better for column in table.columns})
        ]
        star = "*" if terminal.console.options.ascii_only else "★"
        ranks = [f"{star} the best", "small numbers are ranks"] if table.ranked else []
        grouped = [column.group for column in table.columns if column.group != "other"]
        if SHAPE in grouped:
            ranks.append("the mean rank counts each group of metrics once, and the shape of scores not at all")
        elif table.ranked and len(grouped) > len(set(grouped)):
            ranks.append("the mean rank counts each group of metrics once")
        passes = "passes: rows of forward + backward passes; shared: computed for a method before it"
        terminal.console.print(terminal.text(terminal.characters.dot.join([*ends, *ranks, passes]), "dim"))
    terminal.console.print(terminal.text(table.counts, "dim"))
