"""The words that carry each class of a data set, on the page of a report and in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from wherefrom.benchmark.words import ClassWords, WordSummary
from wherefrom.report.columns import TerminalColumn, print_columns
from wherefrom.report.page_table import PageTable, ScoreCell, number
from wherefrom.report.pieces import visible
from wherefrom.report.wording import percent

EXAMPLES = 5  # words whose places are shown in the terminal


@dataclass(frozen=True)
class WordsView:
    """The words of one class, ready for the template."""

    target: str
    method: str
    texts: int
    signed: bool
    heaviest: PageTable
    changing: PageTable | None


def words_view(found: ClassWords) -> WordsView:
    return WordsView(
        visible(found.target),
        visible(found.method),
        found.texts,
        found.signed,
        _table(found.heaviest, signed=found.signed),
        _table(found.changing, signed=found.signed) if found.changing else None,
    )


def _table(listed: Sequence[WordSummary], *, signed: bool) -> PageTable:
    columns = [
        ("total", "scores of all its occurrences added up"),
        ("mean", "mean over texts of its mean score within each"),
        ("95% interval", "of the mean, by Student's t over texts"),
        ("texts", "texts it occurs in"),
        ("times", "how often it occurs"),
    ]
    if signed:
        columns += [("for", "share of its occurrences that speak for the class"), ("against", "share against it")]
    columns += [("where it weighs most", "")]
    total, mean = (max((abs(getattr(one, name)) for one in listed), default=0.0) for name in ("total", "mean"))
    rows = []
    for one in listed:
        cells = [_signed_cell(one.total, total), _signed_cell(one.mean, mean), _interval(one, mean)]
        cells += [ScoreCell(f"{count:,}", count) for count in (one.texts, one.occurrences)]
        if signed:
            cells += [ScoreCell(percent(share), share) for share in (one.positive, one.negative)]
        places = [visible(place) for place in one.examples]
        cells.append(ScoreCell(places[0] if places else "", detail="\n".join(places), classes="place-of-word"))
        rows.append((visible(one.word), cells))
    return PageTable(columns, rows)


def _signed_cell(value: float, largest: float) -> ScoreCell:
    strength = abs(value) / largest if largest else 0.0
    return ScoreCell(number(value, largest), value, classes="minus" if value < 0 else "", strength=strength)


def _interval(one: WordSummary, scale: float) -> ScoreCell:
    if one.low is None or one.high is None:
        return ScoreCell("–", classes="none")
    return ScoreCell(f"{number(one.low, scale)} to {number(one.high, scale)}", one.low)


def print_words(console: Console, found: Sequence[ClassWords]) -> None:
    """A table for every class, and the words whose sign changes below it."""
    for one in found:
        texts = "text" if one.texts == 1 else "texts"
        console.print(Text(f"{visible(one.target)}: words by {visible(one.method)}, {one.texts} {texts}", "italic"))
        _print_table(console, one.heaviest, signed=one.signed)
        for word in one.heaviest[:EXAMPLES]:
            if word.examples:
                console.print(Text.assemble((f"{visible(word.word)}: ", "bold"), visible(word.examples[0])))
        if one.changing:
            console.print()
            console.print(Text(f"{visible(one.target)}: words that speak for it here and against it there", "italic"))
            _print_table(console, one.changing, signed=True)
        console.print()


def _print_table(console: Console, listed: Sequence[WordSummary], *, signed: bool) -> None:
    total, mean = (max((abs(getattr(one, name)) for one in listed), default=0.0) for name in ("total", "mean"))

    def column(title: str, cells: Sequence[str]) -> TerminalColumn:
        return TerminalColumn((title,), tuple(Text(cell) for cell in cells))

    columns = [
        column("total", [number(one.total, total) for one in listed]),
        column("mean", [number(one.mean, mean) for one in listed]),
        column("95% interval", [_interval(one, mean).text for one in listed]),
        column("texts", [f"{one.texts:,}" for one in listed]),
        column("times", [f"{one.occurrences:,}" for one in listed]),
    ]
    if signed:
        columns.append(column("for", [percent(one.positive) for one in listed]))
        columns.append(column("against", [percent(one.negative) for one in listed]))
    print_columns(console, column("word", [" ".join(visible(one.word).split()) for one in listed]), columns)
