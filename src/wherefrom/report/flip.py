"""A flip in the terminal and as HTML: the text with the hidden units struck out, and what is decided without them."""

from __future__ import annotations

from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

from wherefrom.core.flip import Flip
from wherefrom.core.labels import visible
from wherefrom.report.colour import DARK
from wherefrom.report.document import render_fragment, render_page
from wherefrom.report.terminal import Terminal
from wherefrom.report.wording import duration, options, percent, visible_rows


class FlipStretch(NamedTuple):
    """A stretch of the text, hidden or not."""

    text: str
    hidden: bool


def headline(flip: Flip) -> str:
    """What is decided, and what without which part of the text."""
    before = f"{visible(flip.decision)} ({percent(flip.probability)})"
    if flip.becomes is None or flip.becomes_probability is None:
        return f"{before}: no set of {flip.level}s was found that changes it"
    count = len(flip.hidden)
    after = f"{visible(flip.becomes)} ({percent(flip.becomes_probability)})"
    return f"{before} becomes {after} without {count} of {flip.units} {flip.level}s"


def certainty(flip: Flip) -> str:
    """How sure it is that there is no smaller set."""
    how = "deleted" if flip.fill == "delete" else f"replaced by the {flip.fill} token"
    if not flip.found:
        all_tried = f"Every set of {flip.level}s was tried ({how}): none changes the decision."
        some = f"Sets that follow the scores of {flip.method} were tried ({how}), and every single {flip.level}."
        return all_tried if flip.smallest else some
    if flip.smallest:
        return f"No smaller set does ({flip.level}s {how}): all were tried."
    return (
        f"Found by the scores of {flip.method}, then pruned ({flip.level}s {how}): each of these {flip.level}s is"
        " needed, and no single one suffices, but another set might be smaller."
    )


def parts(flip: Flip) -> list[list[FlipStretch]]:
    """Each text in stretches; joined, they give it back."""
    lines = []
    for segment, text in enumerate([flip.text] if flip.pair is None else [flip.text, flip.pair]):
        line, reached = [], 0
        for start, end in flip.spans(segment):
            line += [FlipStretch(text[reached:start], hidden=False), FlipStretch(text[start:end], hidden=True)]
            reached = end
        lines.append([part for part in [*line, FlipStretch(text[reached:], hidden=False)] if part.text])
    return lines


def cost(flip: Flip) -> str:
    return f"{flip.rows} row{'s' * (flip.rows != 1)} asked" + (f", {duration(flip.seconds)}" if flip.seconds else "")


def print_flip(flip: Flip, *, console: Console | None = None) -> None:
    """Print it; without colour, hidden units are enclosed in [- and -]."""
    console = console or Console(highlight=False)
    terminal = Terminal(console, DARK, signed=True)
    console.print(terminal.text(headline(flip), "bold"))
    console.print()
    for line in parts(flip):
        shown = Text()
        for part in line:
            if part.hidden and not terminal.coloured:
                shown.append_text(terminal.text(f"[-{part.text}-]"))
            else:
                shown.append_text(terminal.text(part.text, "strike reverse" if part.hidden else ""))
        console.print(shown)
    console.print()
    console.print(terminal.text(certainty(flip)))
    if flip.remaining is not None:
        console.print(terminal.text(f"Then {visible(flip.decision)} has {percent(flip.remaining)}.", ""))
    console.print(terminal.text(cost(flip), "dim"))


def page(flip: Flip) -> str:
    """A self-contained HTML page."""
    title = f"What would change “{visible(flip.decision)}”?"
    return render_page("flip.html", title=title, styles=("text.css", "page.css", "flip.css"), **_values(flip))


def fragment(flip: Flip) -> str:
    """The same for a notebook's output."""
    return render_fragment("flip_fragment.html", **_values(flip))


def _values(flip: Flip) -> dict[str, Any]:
    facts = [("model", flip.model), ("scores by", flip.method), ("options", options(flip.params)), ("cost", cost(flip))]
    return {
        "headline": headline(flip),
        "certainty": certainty(flip),
        "lines": [[part._replace(text=visible(part.text)) for part in line] for line in parts(flip)],
        "remaining": "" if flip.remaining is None else f"{visible(flip.decision)}: {percent(flip.remaining)}",
        "facts": visible_rows(facts),
    }
