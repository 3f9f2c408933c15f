"""Interactions in the terminal and as HTML: the words below each other, an arc between the two of each strong pair."""

from __future__ import annotations

from typing import Any, NamedTuple

from rich.console import Console

from wherefrom.core.interactions import Interactions, UnitPair
from wherefrom.core.labels import visible
from wherefrom.core.target import written_value
from wherefrom.report.colour import DARK
from wherefrom.report.columns import TerminalColumn, print_columns
from wherefrom.report.document import render_fragment, render_page
from wherefrom.report.terminal import Terminal
from wherefrom.report.wording import duration, number, percent, visible_rows

SHOWN = 12  # pairs in a view
ROW, LEFT, TOP = 26, 148, 20  # of a drawing, in pixels: a word's height, where arcs begin, the first word
REACH = 150  # how far the longest arc goes out
LONGEST = 17  # characters of a word


class Arc(NamedTuple):
    """A pair as it is drawn."""

    path: str
    width: str
    strength: str
    kind: str  # "for" or "against"
    title: str


class DrawnWord(NamedTuple):
    """A word with its height in the drawing."""

    label: str
    y: int


def headline(found: Interactions) -> str:
    """What is explained, and what the numbers are."""
    output = written_value(found.value) if found.value is not None else percent(found.probability or 0.0)
    how = "every combination" if found.exact else f"{found.samples:,} combinations, with standard errors,"
    return f"What two {found.level}s do together for {visible(found.target)} ({output}), by {how} of them"


def strongest(found: Interactions) -> list[UnitPair]:
    """The pairs that are shown, by falling size; those that do nothing are left out."""
    return [pair for pair in found.top(SHOWN) if pair.score]


def written(pair: UnitPair, found: Interactions) -> str:
    scale = max((abs(other.score) for other in found.pairs), default=0.0)
    error = "" if found.exact else f" ±{number(pair.error, scale, signed=False)}"
    return number(pair.score, scale, signed=True) + error


def print_interactions(found: Interactions, *, console: Console | None = None) -> None:
    """Print the strongest pairs, each with its score."""
    console = console or Console(highlight=False)
    terminal = Terminal(console, DARK, signed=True)
    console.print(terminal.text(headline(found), "bold"))
    shown = strongest(found)
    if not shown:
        console.print(terminal.text("No two of them interact: each adds the same whatever else is in the text."))
        return
    names = [found.units[pair.first].text for pair in shown], [found.units[pair.second].text for pair in shown]
    columns = [
        TerminalColumn(("and",), tuple(terminal.name(name) for name in names[1])),
        TerminalColumn(("interaction",), tuple(terminal.text(written(pair, found)) for pair in shown)),
    ]
    print_columns(console, (TerminalColumn((found.level,), tuple(map(terminal.name, names[0]))), columns))
    console.print(terminal.text("positive: together they add more than each alone; negative: less", "dim"))
    console.print(terminal.text(cost(found), "dim"))


def cost(found: Interactions) -> str:
    hidden = "deleted" if found.fill == "delete" else f"replaced by the {found.fill} token"
    rest = len(found.pairs) - len(strongest(found))
    more = f", {rest} weaker pairs not shown" if rest else ""
    return f"{found.samples:,} combinations queried, {found.level}s {hidden}, {duration(found.seconds)}{more}"


def page(found: Interactions) -> str:
    """A self-contained HTML page."""
    title = f"What two {found.level}s do together"
    return render_page(
        "interactions.html", title=title, styles=("text.css", "page.css", "interactions.css"), **_values(found)
    )


def fragment(found: Interactions) -> str:
    """The same for a notebook's output."""
    return render_fragment("interactions_fragment.html", **_values(found))


def _values(found: Interactions) -> dict[str, Any]:
    shown = strongest(found)
    rows = [
        (visible(found.units[pair.first].text), visible(found.units[pair.second].text), written(pair, found))
        for pair in shown
    ]
    return {
        "headline": headline(found),
        "words": [DrawnWord(_short(visible(unit.text)), TOP + ROW * place) for place, unit in enumerate(found.units)],
        "arcs": _arcs(shown, found),
        "rows": rows,
        "left": LEFT,
        "height": TOP + ROW * len(found.units),
        "width": LEFT + REACH + 20,
        "facts": visible_rows([("model", found.model), ("cost", cost(found))]),
    }


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _arcs(shown: list[UnitPair], found: Interactions) -> list[Arc]:
    """The weaker pairs first, so that the strong ones are on top."""
    scale = max((abs(pair.score) for pair in shown), default=1.0)
    widest = max((pair.second - pair.first for pair in shown), default=1)
    arcs = []
    for pair in reversed(shown):
        start, end = (TOP + ROW * place - 5 for place in (pair.first, pair.second))
        reach = LEFT + 8 + REACH * (0.15 + 0.85 * (pair.second - pair.first) / widest)
        share = abs(pair.score) / scale
        first, second = (visible(found.units[place].text) for place in (pair.first, pair.second))
        arcs.append(
            Arc(
                f"M{LEFT + 8} {start} C{reach:.0f} {start} {reach:.0f} {end} {LEFT + 8} {end}",
                f"{1 + 5 * share:.1f}",
                f"{0.35 + 0.65 * share:.2f}",
                "for" if pair.score > 0 else "against",
                f"{first} + {second}: {written(pair, found)}",
            )
        )
    return arcs
