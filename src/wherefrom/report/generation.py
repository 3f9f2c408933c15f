"""A generation in the terminal, token by token with its strongest words and their test; and as HTML: a grid of tokens
by generated tokens, and the prompt in colours.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wherefrom.core.check import Check
from wherefrom.core.explanation import Explanation
from wherefrom.core.generation import Generation
from wherefrom.core.labels import token_label, token_labels, visible
from wherefrom.report.colour import DARK, Shade, largest, shade
from wherefrom.report.document import render_fragment, render_page
from wherefrom.report.effect import unit_in_words
from wherefrom.report.terminal import Terminal
from wherefrom.report.wording import between, duration, number, options, percent, visible_rows

SOURCES = 3  # words of the prompt that the terminal shows for each generated token


class GridCell(NamedTuple):
    """One score of the grid."""

    side: str
    strength: str
    number: str
    tip: str


class GridRow(NamedTuple):
    """A source token and its score for every generated one."""

    name: str
    role: str
    special: bool
    generated: bool
    cells: list[GridCell | None]  # None where the token comes too late


def names(generation: Generation) -> list[str]:
    """Every source token as a reader sees it: those of the prompt, then the generated ones."""
    prompt = token_labels(generation.tokens, generation.offsets, generation.segment, generation.text)
    return [*prompt, *map(token_label, generation.generated)]


def _sources(generation: Generation, *, special: bool) -> list[int]:
    """The places of the tokens that have a row: those of the prompt, and the generated ones that others follow."""
    prompt = [place for place, part in enumerate(generation.segment) if special or part >= 0]
    return [*prompt, *range(len(generation.tokens), len(generation.tokens) + len(generation.generated) - 1)]


def _comes_before(generation: Generation, place: int, step: int) -> bool:
    return place < len(generation.tokens) + step


def print_generation(generation: Generation, *, console: Console | None = None) -> None:
    """Print for every generated token its strongest words in the prompt, with their test, and the same of the total."""
    console = console or Console(highlight=False)
    terminal = Terminal(console, DARK, signed=generation.signed)
    console.print(terminal.text(_headline(generation), "bold"))
    console.print(terminal.text(f"{visible(generation.text)} → {visible(generation.continuation).strip()}"))
    console.print()
    table = Table.grid(padding=(0, 2))
    for step, token in enumerate(generation.generated):
        other = generation.versus[step]
        name = token_label(token) if other is None else f"{token_label(token)} not {token_label(other)}"
        _add_sources(table, terminal, name, generation.by_word(step))
    total = generation.by_word()
    if len(generation.generated) > 1:
        _add_sources(table, terminal, "all tokens", total)
    console.print(table)
    unit = unit_in_words(total)
    console.print()
    what = f"Shown: the {SOURCES} words of the prompt that weigh most{f', {unit}' if unit else ''}."
    console.print(terminal.text(f"{what} The matrix of all tokens is on the page: --html, or to_html().", "dim"))
    for note in generation.notes:
        console.print(terminal.text(f"note: {visible(note)}", "dim"))
    console.print(terminal.text(_cost(generation), "dim"))


def _add_sources(table: Table, terminal: Terminal, name: str, explanation: Explanation) -> None:
    """Two lines: the token with its probability and strongest words, and what hiding these did."""
    units, named = explanation.units(), []
    full = largest(unit.score for unit in units)
    roles = [role for role, part in zip(explanation.roles, explanation.segment, strict=True) if part >= 0]
    for place in sorted(range(len(units)), key=lambda place: -abs(units[place].score))[:SOURCES]:
        unit = units[place]
        figure = number(unit.score, full, signed=explanation.signed)
        style = terminal.behind(shade(unit.score, full, signed=explanation.signed))
        said = f"{roles[place]}: {unit.text}" if roles[place] else unit.text
        named.append(Text.assemble(terminal.name(said), " ", terminal.text(figure, style)))
    words = Text(", ").join(named) if full else terminal.text("every score is zero", "dim")
    table.add_row(terminal.name(name), terminal.text(percent(explanation.output)), words)
    if explanation.check is not None:
        table.add_row("", "", _tested(explanation.check, terminal))


def _tested(check: Check, terminal: Terminal) -> Text:
    """The verdict, and what the model did without the words that speak for the token."""
    hiding = check.strongest
    if hiding is None:
        return terminal.text(f"{check.verdict}: no word speaks for it", "dim")
    words = ", ".join(f'"{token_label(text)}"' for text in hiding.texts)
    beside = ""
    if hiding.draws:
        beside = f"; without {len(hiding.units)} at random {percent(hiding.mean)} ({between(hiding.low, hiding.high)})"
    told = f": without {words} {percent(hiding.hidden)}{beside}"
    return Text.assemble(terminal.text(check.verdict, "bold"), terminal.text(told, "dim"))


def _headline(generation: Generation) -> str:
    params = options(generation.params)
    method = f"{generation.method} ({params})" if params else generation.method
    return f"{method} explains {len(generation.generated)} generated tokens"


def _cost(generation: Generation) -> str:
    parts = [f"passes {generation.forwards} forward"]
    parts += [f"{generation.backwards} backward"] if generation.backwards else []
    parts += [f"time {duration(generation.seconds)}"] if generation.seconds else []
    return ", ".join(parts)


def _full(generation: Generation, step: int | None = None) -> float:
    """The largest score of a token that is no special one: what is shown at full strength. step: of one generated
    token, which may have much smaller scores than others.
    """
    plain = [place for place, part in enumerate(generation.segment) if part >= 0]
    behind = range(len(generation.tokens), len(generation.tokens) + len(generation.generated))
    rows = generation.scores if step is None else generation.scores[step : step + 1]
    return largest(row[place] for row in rows for place in (*plain, *behind))


def page(generation: Generation) -> str:
    """A self-contained HTML page: choose a generated token, and the prompt is coloured by what it came from."""
    return render_page(
        "generation.html",
        title=f"Where did “{visible(generation.continuation.strip())[:60]}” come from?",
        styles=("text.css", "page.css", "generation.css"),
        scripts=("generation.js",),
        **_values(generation),
    )


def fragment(generation: Generation) -> str:
    """The grid for a notebook's output; needs no script."""
    return render_fragment("generation_fragment.html", **_values(generation))


def _values(generation: Generation) -> dict[str, Any]:
    full = [_full(generation, step) for step in range(len(generation.generated))]
    rows = [_row(generation, place, full) for place in _sources(generation, special=True)]
    facts = [
        ("method", generation.method),
        ("options", options(generation.params)),
        ("model", generation.model),
        ("cost", _cost(generation)),
        *(("note", note) for note in generation.notes),
    ]
    return {
        "headline": _headline(generation),
        "heads": [
            (token_label(token), percent(chance), "" if other is None else token_label(other))
            for token, chance, other in zip(
                generation.generated, generation.probabilities, generation.versus, strict=True
            )
        ],
        "rows": [row for row in rows if not row.special],
        "template_rows": [row for row in rows if row.special],
        "prompt": _stretches(generation),
        "signed": generation.signed,
        "scores": json.dumps(
            [
                [round(score / most, 4) if most else 0 for score in row]
                for row, most in zip(generation.scores, full, strict=True)
            ]
        ),
        "facts": visible_rows(facts),
    }


def _row(generation: Generation, place: int, full: Sequence[float]) -> GridRow:
    """A token's score for every generated one. full: of every generated token, the score with the full colour."""
    name, is_new = names(generation)[place], place >= len(generation.tokens)
    cells: list[GridCell | None] = []
    for step, token in enumerate(generation.generated):
        if not _comes_before(generation, place, step):
            cells.append(None)
            continue
        score = generation.scores[step][place]
        colour: Shade = shade(score, full[step], signed=generation.signed)
        figure = number(score, full[step], signed=generation.signed)
        tip = f"{name} → {token_label(token)}  {figure}"
        cells.append(GridCell(colour.side, f"{colour.strength:.3f}", figure, tip))
    role = "" if is_new else visible(generation.role_of(place))
    return GridRow(name, role, not is_new and generation.segment[place] < 0, is_new, cells)


def _stretches(generation: Generation) -> list[tuple[str, int, str]]:
    """The prompt in stretches: (text, the token's place or -1 between tokens, the role that begins to speak here)."""
    stretches: list[tuple[str, int, str]] = []
    reached, speaking = 0, ""
    for place, (start, end) in enumerate(generation.offsets):
        start = max(start, reached)
        if end <= start:
            continue
        role = generation.role_of(place)
        begins = role if role != speaking else ""
        stretches += [(generation.text[reached:start], -1, ""), (generation.text[start:end], place, begins)]
        reached, speaking = end, role or speaking
    stretches.append((generation.text[reached:], -1, ""))
    return [(visible(text), place, visible(role)) for text, place, role in stretches if text]
