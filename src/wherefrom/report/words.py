"""The words that carry each class of a data set, on the page of a report and in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from wherefrom.benchmark.words import ClassWords, WordSummary, is_grammar
from wherefrom.core.labels import visible
from wherefrom.report.columns import TerminalColumn, print_columns
from wherefrom.report.page_table import EMPTY, PageTable, ScoreCell, number
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
    grammar: PageTable | None  # words such as "the" and "and", apart
    changing: PageTable | None


def words_view(words: ClassWords) -> WordsView:
    grammar = [word for word in words.heaviest if is_grammar(word.word)]
    return WordsView(
        visible(words.target),
        visible(words.method),
        words.texts,
        words.signed,
        _table([word for word in words.heaviest if not is_grammar(word.word)], signed=words.signed),
        _table(grammar, signed=words.signed) if grammar else None,
        _table(words.changing, signed=words.signed) if words.changing else None,
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
    total, mean = (max((abs(getattr(word, name)) for word in listed), default=0.0) for name in ("total", "mean"))
    rows = []
    for word in listed:
        cells = [_signed_cell(word.total, total), _signed_cell(word.mean, mean), _interval(word, mean)]
        cells += [ScoreCell(f"{count:,}", count) for count in (word.texts, word.occurrences)]
        if signed:
            cells += [ScoreCell(percent(share), share) for share in (word.positive, word.negative)]
        places = [visible(place) for place in word.examples]
        cells.append(ScoreCell(places[0] if places else "", detail="\n".join(places), classes="place-of-word"))
        rows.append((visible(word.word), cells))
    return PageTable(columns, rows)


def _signed_cell(value: float, largest: float) -> ScoreCell:
    strength = abs(value) / largest if largest else 0.0
    return ScoreCell(number(value, largest), value, classes="minus" if value < 0 else "", strength=strength)


def _interval(word: WordSummary, scale: float) -> ScoreCell:
    if word.low is None or word.high is None:
        return EMPTY
    return ScoreCell(f"{number(word.low, scale)} to {number(word.high, scale)}", word.low)


def print_words(console: Console, classes: Sequence[ClassWords]) -> None:
    """A table for every class, and the words whose sign changes below it."""
    for words in classes:
        texts = "text" if words.texts == 1 else "texts"
        console.print(
            Text(f"{visible(words.target)}: words by {visible(words.method)}, {words.texts} {texts}", "italic")
        )
        listed = sorted(words.heaviest, key=lambda word: is_grammar(word.word))  # words of grammar last
        _print_table(console, listed, signed=words.signed)
        for word in listed[:EXAMPLES]:
            if word.examples:
                console.print(Text.assemble((f"{visible(word.word)}: ", "bold"), visible(word.examples[0])))
        if words.changing:
            console.print()
            console.print(Text(f"{visible(words.target)}: words that speak for it here and against it there", "italic"))
            _print_table(console, words.changing, signed=True)
        console.print()


def _print_table(console: Console, listed: Sequence[WordSummary], *, signed: bool) -> None:
    """The page's table in the terminal, without its last column, the places of the words."""
    table = _table(listed, signed=signed)
    names = TerminalColumn(("word",), tuple(Text(" ".join(name.split())) for name, _ in table.rows))
    columns = [
        TerminalColumn((title,), tuple(Text(cells[place].text) for _, cells in table.rows))
        for place, (title, _) in enumerate(table.columns[:-1])
    ]
    print_columns(console, (names, columns))
