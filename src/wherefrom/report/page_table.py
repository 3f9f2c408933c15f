"""Tables of a page that can be sorted, as plain data for the template."""

from __future__ import annotations

from typing import NamedTuple


class ScoreCell(NamedTuple):
    """A number in a table that can be sorted by it."""

    text: str
    sort: float | None = None
    detail: str = ""
    classes: str = ""
    strength: float = 0.0  # of its colour


EMPTY = ScoreCell("–", classes="none")  # where there is no number


class PageTable(NamedTuple):
    """A table of the page, one row for each method or word."""

    columns: list[tuple[str, str]]  # the title, and a longer explanation of it
    rows: list[tuple[str, list[ScoreCell]]]  # the method or word, and its cells


def number(value: float, scale: float = 1.0) -> str:
    """Three decimals, or scientific notation where numbers of this scale need it; with a typographic minus sign."""
    shown = f"{value:.3f}" if 0.01 <= scale < 1000 or value == 0 else f"{value:.2e}"
    return (shown.lstrip("-") if float(shown) == 0 else shown).replace("-", "−")
