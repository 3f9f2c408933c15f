"""A comparison in the terminal: a table of methods and metrics with ranks, footnotes, time and passes."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from wherefrom.core.comparison import SHAPE, Comparison
from wherefrom.report.colour import DARK
from wherefrom.report.columns import TerminalColumn, heading, print_columns
from wherefrom.report.comparison_sheet import GradeCell, MetricColumn, Sheet, mean, sheet
from wherefrom.report.main_metrics import main_metrics
from wherefrom.report.marks import MARKED_BY_PEOPLE, NOTHING_MARKED, with_marks
from wherefrom.report.pieces import TextRun
from wherefrom.report.terminal import DIVIDER, Terminal
from wherefrom.report.wording import ARROWS, predicted, predicts

AROUND = 80  # characters that are printed around what people marked in a long text


def print_comparison(comparison: Comparison, *, full: bool = False, console: Console | None = None) -> None:
    """Print the conclusion, then for each method its verdict, three metrics and the time.

    full: every metric, with ranks and passes; in several blocks where the terminal is too narrow for one, and with one
        row for each metric instead of each method where that needs fewer blocks.
    """
    console = console or Console()
    terminal = Terminal(console, DARK, signed=True)
    table = sheet(comparison)
    if not table.lines:
        console.print(terminal.text("There is nothing to compare: no method could explain this text."))
    else:
        if table.conclusion:
            console.print(terminal.text(table.conclusion, "bold"))
        console.print(_headline(comparison, terminal))
        _print_rationale(comparison, terminal)
        if full:
            print_columns(console, _by_method(table, terminal), _by_metric(table, terminal))
        else:
            print_columns(console, _in_short(table, terminal))
    _print_rest(table, terminal, full=full)


def _headline(comparison: Comparison, terminal: Terminal) -> Text:
    first = comparison.explanations[0]
    line = Text.assemble(
        terminal.text(f"{len(comparison.names)} explanation{'s' * (len(comparison.names) != 1)} of "),
        terminal.text(first.target, "bold"),
        terminal.text(f" ({predicts(first)}), by {first.level}"),
    )
    instead = predicted(first)
    return line.append_text(terminal.text(f"; the model predicts {instead}", "yellow")) if instead else line


def _print_rationale(comparison: Comparison, terminal: Terminal) -> None:
    """The text with brackets around what people marked, in print too; long stretches between marks are shortened."""
    if comparison.rationale is None:
        return
    terminal.console.print()
    if not any(comparison.rationale):
        terminal.console.print(terminal.text(f"{NOTHING_MARKED.capitalize()} in this text."))
        return
    left, right = ("[[", "]]") if terminal.console.options.ascii_only else ("⟦", "⟧")
    terminal.console.print(terminal.text(f"{MARKED_BY_PEOPLE.capitalize()}, in {left} {right}:", "dim"))
    first = comparison.explanations[0]
    texts = [first.text] if first.pair is None else [first.text, first.pair]
    for place, (text, spans) in enumerate(zip(texts, comparison.rationale, strict=False)):
        if place:
            terminal.console.print(terminal.text(terminal.characters.rule * DIVIDER, "dim"))
        line = Text()
        for part in with_marks([TextRun(text)], spans):
            words = "".join(run.text for run in part.runs)
            if part.marked:
                line.append_text(terminal.text(f"{left}{words}{right}", "bold"))
            else:
                line.append_text(terminal.text(_shortened(words, terminal)))
        terminal.console.print(line, overflow="fold")


def _shortened(words: str, terminal: Terminal) -> str:
    """Both ends of a long stretch of text."""
    dots = " ... " if terminal.console.options.ascii_only else " … "
    return words if len(words) <= 2 * AROUND + len(dots) else f"{words[:AROUND]}{dots}{words[-AROUND:]}"


def _in_short(table: Sheet, terminal: Terminal) -> tuple[TerminalColumn, list[TerminalColumn]]:
    """The first column and the others: the verdict, three metrics without ranks, and the time."""
    names = TerminalColumn(("method",), tuple(terminal.name(line.name) for line in table.lines))
    verdicts = TerminalColumn(("verdict",), tuple(terminal.text(line.verdict or "–") for line in table.lines))
    stacks = [
        TerminalColumn(
            heading(terminal.text(f"{column.name} {_arrow(column.better, terminal)}").plain),
            tuple(_value(line.cells[place], terminal, ranks=False) for line in table.lines),
        )
        for place, column in _main_columns(table)
    ]
    time = TerminalColumn(("time",), tuple(terminal.text(line.time) for line in table.lines))
    return names, [*([verdicts] if any(line.verdict for line in table.lines) else []), *stacks, time]


def _main_columns(table: Sheet) -> list[tuple[int, MetricColumn]]:
    """The metrics that are shown in short, with their places among all."""
    questions = {
        column.name: {SHAPE: None, "other": column.name}.get(column.group, column.group) for column in table.columns
    }
    chosen = main_metrics(questions)
    return [(place, column) for place, column in enumerate(table.columns) if column.name in chosen]


def _by_method(table: Sheet, terminal: Terminal) -> tuple[TerminalColumn, list[TerminalColumn]]:
    """The first column and the others, with one row for each method."""
    names = TerminalColumn(("method",), tuple(terminal.name(line.name) for line in table.lines))
    stacks = [
        TerminalColumn(
            heading(terminal.text(f"{column.name} {_arrow(column.better, terminal)}").plain),
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
                heading(terminal.text(line.name).plain),
                (*(_value(cell, terminal) for cell in line.cells), *(terminal.text(total) for total in sums)),
            )
        )
    return TerminalColumn(("metric",), tuple(terminal.text(name) for name in (*names, *last))), stacks


def _arrow(better: str, terminal: Terminal) -> str:
    if terminal.console.options.ascii_only:
        return "(+)" if better == "higher" else "(-)"
    return ARROWS[better]


def _value(cell: GradeCell, terminal: Terminal, *, ranks: bool = True) -> Text:
    """The value and its rank, with a star for the best; the number of the footnote where there is no value."""
    if cell.note is not None:
        return terminal.text(f"[{cell.note}]  ", "dim")
    if cell.rank is None:
        return terminal.text(cell.text)
    if cell.best:
        star = "*" if terminal.console.options.ascii_only else "★"
        return terminal.text(f"{cell.text} {star}{' ' * ranks}", "bold blue")
    if not ranks:
        return terminal.text(f"{cell.text}  ")
    return Text.assemble(terminal.text(cell.text), terminal.text(f" {cell.rank:<2}", "dim"))


def _left_out(table: Sheet) -> str:
    """What the short view does not show, and how to see it."""
    more = len(table.columns) - len(_main_columns(table))
    metrics = f"{more} more metric{'s' * (more != 1)}, " if more else ""
    order = "best mean rank first; " if table.ranked else ""
    return f"{order}{metrics}{'ranks and ' * table.ranked}passes with --all or show(full=True)"


def _print_rest(table: Sheet, terminal: Terminal, *, full: bool) -> None:
    """Footnotes, what went wrong, what the signs mean, and what it cost."""
    columns = list(table.columns) if full else [column for _, column in _main_columns(table)]
    cited = {
        cell.note for line in table.lines for place, cell in enumerate(line.cells) if table.columns[place] in columns
    }
    shown = [(number, note) for number, note in enumerate(table.footnotes, 1) if number in cited]
    for place, (number, note) in enumerate(shown):
        terminal.console.print(
            *([""] if place == 0 else []), terminal.text(f"[{number}] not defined: {note}", "dim"), sep="\n"
        )
    for number, remark in enumerate(table.remarks):
        terminal.console.print(*([""] if number == 0 else []), terminal.text(remark, "yellow"), sep="\n")
    terminal.console.print()
    if table.lines and table.columns:
        ends = [
            f"{_arrow(better, terminal)} {better} is better" for better in sorted({column.better for column in columns})
        ]
        star = "*" if terminal.console.options.ascii_only else "★"
        if not full:
            best = [f"{star} the best"] if table.ranked else []
            terminal.console.print(terminal.text(terminal.characters.dot.join([*ends, *best, _left_out(table)]), "dim"))
            return
        ranks = [f"{star} the best", "small numbers are ranks"] if table.ranked else []
        grouped = [column.group for column in table.columns if column.group != "other"]
        if SHAPE in grouped:
            ranks.append("the mean rank counts each group of metrics once, and the shape of scores not at all")
        elif table.ranked and len(grouped) > len(set(grouped)):
            ranks.append("the mean rank counts each group of metrics once")
        passes = "passes: rows of forward + backward passes; shared: computed for a method before it"
        terminal.console.print(terminal.text(terminal.characters.dot.join([*ends, *ranks, passes]), "dim"))
    terminal.console.print(terminal.text(table.counts, "dim"))
