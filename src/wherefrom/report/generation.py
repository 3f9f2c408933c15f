"""A generation in the terminal and as HTML: a grid of tokens by generated tokens, and the prompt in colours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.console import Console

from wherefrom.core.generation import Generation
from wherefrom.core.labels import token_label, token_labels, visible
from wherefrom.report.colour import DARK, Shade, largest, shade
from wherefrom.report.columns import TerminalColumn, print_columns
from wherefrom.report.document import render_fragment, render_page
from wherefrom.report.terminal import Terminal
from wherefrom.report.wording import duration, number, options, percent, visible_rows


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
    """Print the grid, in several blocks where there are many generated tokens."""
    console = console or Console(highlight=False)
    terminal = Terminal(console, DARK, signed=generation.signed)
    places, full = _sources(generation, special=False), _full(generation)
    console.print(terminal.text(_headline(generation), "bold"))
    console.print(terminal.text(f"{visible(generation.text)} → {visible(generation.continuation)}"))
    shown = names(generation)
    roles = [generation.role_of(place) if place < len(generation.tokens) else "" for place in places]
    marked = [
        f"{role}: {shown[place]}" if role and role != before else shown[place]
        for place, role, before in zip(places, roles, ["", *roles], strict=False)
    ]
    columns = []
    for step, token in enumerate(generation.generated):
        other = generation.versus[step]
        heading = (token_label(token), *([f"not {token_label(other)}"] if other is not None else []))
        cells = []
        for place in places:
            if not _comes_before(generation, place, step):
                cells.append(terminal.text(""))
                continue
            score = generation.scores[step][place]
            colour = shade(score, full, signed=generation.signed)
            cells.append(terminal.text(number(score, full, signed=generation.signed), terminal.behind(colour)))
        cells.append(terminal.text(percent(generation.probabilities[step]), "dim"))
        columns.append(TerminalColumn(heading, tuple(cells)))
    row_names = (*(terminal.name(name) for name in marked), terminal.text("probability", "dim"))
    print_columns(console, (TerminalColumn(("token",), row_names), columns))
    console.print()
    for note in generation.notes:
        console.print(terminal.text(f"note: {visible(note)}", "dim"))
    console.print(terminal.text(_cost(generation), "dim"))


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
