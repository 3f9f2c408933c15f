"""The sources of an answer in the terminal and as HTML: statements, the passages in colours, and the test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rich.console import Console

from wherefrom.core.labels import visible
from wherefrom.core.sources import Source, Sources, Statement
from wherefrom.report.colour import DARK, largest, shade
from wherefrom.report.document import render_fragment, render_page
from wherefrom.report.terminal import Terminal
from wherefrom.report.wording import duration, number, options

SHOWN = 3  # sources of a statement in the terminal
NOTHING = "(nothing)"  # what a model answers that ends at once


class Stretch(NamedTuple):
    """A part of a passage on the page: a source, or what is between two of them."""

    text: str
    source: int  # the number of the source; -1 between sources


class ShownStatement(NamedTuple):
    """A statement on the page."""

    text: str
    grounding: str
    grounded: bool
    verdict: str  # "" where there is no test
    test: str
    without: str  # what the model answers without the top sources
    rows: list[tuple[str, str, str, str, int]]  # name, text, score, drop, number of the source
    shades: str  # the side and strength of every source's colour, for the script


def print_sources(sources: Sources, *, console: Console | None = None) -> None:
    """Print the answer, and of each statement its strongest sources and their test."""
    console = console or Console(highlight=False)
    terminal = Terminal(console, DARK, signed=True)
    if sources.question:
        console.print(terminal.text(f"Question: {visible(sources.question)}"))
    console.print(terminal.text(f"Answer: {visible(sources.answer.strip())}", "bold"))
    for place, statement in enumerate(sources.statements, 1):
        console.print()
        console.print(terminal.text(f"{place}. {visible(statement.text)}", "bold"))
        console.print(terminal.text(f"   {_grounding(statement)}"))
        full = largest(source.score or 0.0 for source in statement.sources)
        for source in statement.top(SHOWN):
            score = number(source.score or 0.0, full, signed=True)
            tint = terminal.behind(shade(source.score or 0.0, full, signed=True))
            line = terminal.text("   ") + terminal.text(f"{score:>8}", tint)
            console.print(line + terminal.text(f"  {visible(sources.name_of(source))}: {visible(source.text)}"))
        if statement.test is None:
            console.print(terminal.text("   No source has a positive score, so there is nothing to test.", "dim"))
            continue
        console.print(terminal.text(f"   {statement.test.verdict}: {_test(sources, statement)}", "bold"))
        if statement.test.answer is not None:
            answer = visible(statement.test.answer.strip()) or NOTHING
            console.print(terminal.text(f"   Without it the model answers: {answer}"))
    console.print()
    for note in sources.notes:
        console.print(terminal.text(f"note: {visible(note)}", "dim"))
    console.print(terminal.text(f"{_method(sources)}, {_cost(sources)}", "dim"))


def _grounding(statement: Statement) -> str:
    grounding = statement.grounding
    figures = f"log-probability {_signed(-grounding.drop)} without any passage, margin {grounding.margin:.1f}"
    if grounding.grounded:
        return f"From the passages ({figures})."
    return f"Not from the passages: the model says this without them, too ({figures})."


def _test(sources: Sources, statement: Statement) -> str:
    test = statement.test
    assert test is not None
    names = _listed(sources.name_of(statement.sources[place]) for place in test.sources)
    told = f"without {names} the log-probability falls by {test.drop:.1f}"
    if not test.others:
        return f"{told}; there is no other source to compare with."
    several = f"{len(test.others)} other choices" if len(test.others) > 1 else "the other choice"
    return f"{told}; without {several} of as many sources, by at most {max(test.others):.1f}."


def _listed(names: Iterable[str]) -> str:
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last


def _signed(value: float) -> str:
    return f"{value:+.1f}"


def _method(sources: Sources) -> str:
    told = options(sources.params)
    return f"{sources.method} ({told})" if told else sources.method


def _cost(sources: Sources) -> str:
    parts = [f"{sources.forwards} forward passes"]
    parts += [f"{sources.backwards} backward"] if sources.backwards else []
    parts += [duration(sources.seconds)] if sources.seconds else []
    return ", ".join(parts)


def page(sources: Sources) -> str:
    """A self-contained page: choose a statement, and its sources take their colours."""
    return render_page(
        "sources.html",
        title=f"Where does “{visible(sources.answer.strip())[:60]}” come from?",
        styles=("text.css", "page.css", "sources.css"),
        scripts=("sources.js",),
        **_values(sources),
    )


def fragment(sources: Sources) -> str:
    """The statements for a notebook's output; needs no script."""
    return render_fragment("sources_fragment.html", **_values(sources))


def _values(sources: Sources) -> dict[str, Any]:
    facts = [
        ("method", _method(sources)),
        ("model", sources.model),
        ("cost", _cost(sources)),
        *(("note", note) for note in sources.notes),
    ]
    return {
        "question": visible(sources.question),
        "statements": [shown_statement(sources, statement) for statement in sources.statements],
        "passages": [
            (visible(document.name), stretches_of(document.text, number, sources.statements[0].sources))
            for number, document in enumerate(sources.documents)
        ],
        "facts": [(name, visible(value)) for name, value in facts if value],
    }


def shown_statement(sources: Sources, statement: Statement) -> ShownStatement:
    """A statement in words, with its strongest sources."""
    full = largest(source.score or 0.0 for source in statement.sources)
    numbered = sorted(enumerate(statement.sources), key=lambda pair: -(pair[1].score or 0.0))
    test = statement.test
    shades = [shade(source.score or 0.0, full, signed=True) for source in statement.sources]
    return ShownStatement(
        text=visible(statement.text),
        grounding=_grounding(statement),
        grounded=statement.grounding.grounded,
        verdict="" if test is None else test.verdict,
        test="" if test is None else _test(sources, statement),
        without="" if test is None or test.answer is None else visible(test.answer.strip()) or NOTHING,
        rows=[_row(sources, place, source, full) for place, source in numbered[:SHOWN]],
        shades=" ".join(f"{tone.side}:{tone.strength:.3f}" for tone in shades),
    )


def _row(sources: Sources, place: int, source: Source, full: float) -> tuple[str, str, str, str, int]:
    drop = "" if source.drop is None else f"{source.drop:+.1f}"
    score = number(source.score or 0.0, full, signed=True)
    return visible(sources.name_of(source)), visible(source.text), score, drop, place


def stretches_of(text: str, document: int, sources: Sequence[Source]) -> list[Stretch]:
    """A passage in parts: its sources, and what is between them. document: its number; sources: those of all."""
    found, reached = list[Stretch](), 0
    for place, source in enumerate(sources):
        if source.document == document:
            found += [Stretch(text[reached : source.start], -1), Stretch(text[source.start : source.end], place)]
            reached = source.end
    found.append(Stretch(text[reached:], -1))
    return [Stretch(visible(part.text), part.source) for part in found if part.text]
