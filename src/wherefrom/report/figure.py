"""Figures of a page: drawn by matplotlib, embedded as SVG in the page's own ink and letters."""

from __future__ import annotations

import io
import re
from html import escape
from typing import TYPE_CHECKING

from wherefrom.core.labels import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#010203"  # replaced by the page's text colour, which is light on a dark background
BLUE, ORANGE, GREEN, PURPLE = "#3b82d6", "#e07b39", "#2f9e77", "#a05fc0"


LONGEST = 48  # characters of a name: a longer one would leave no room to draw in


def label(name: str) -> str:
    """A name as a figure shows it."""
    shown = visible(name)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


def new_axes(
    rows: int, columns: int, *, width: float, height: float, share_y: bool = True
) -> tuple[Figure, list[Axes]]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    colours = (
        "text.color",
        "axes.labelcolor",
        "xtick.color",
        "ytick.color",
        "axes.edgecolor",
        "axes.titlecolor",
        "legend.labelcolor",
    )
    settings = dict.fromkeys(colours, INK) | {
        "svg.fonttype": "none",
        "svg.hashsalt": "wherefrom",
        "font.size": 10.0,
        "axes.titlesize": 10.5,
        "axes.titleweight": "bold",
    }
    with mpl.rc_context(settings):  # type: ignore[arg-type]
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, sharey=share_y)
    flat: list[Axes] = list(axes.flat)
    for panel in flat:
        panel.spines[["top", "right"]].set_visible(False)
        panel.patch.set_alpha(0)
        panel.grid(axis="both", color=INK, alpha=0.12, linewidth=0.6)
        panel.set_axisbelow(True)
    return figure, flat


def logarithmic(axes: Axes) -> None:
    """Across by powers of ten, with plain numbers at 1, 2, 5, 10, ..."""
    from matplotlib.ticker import LogLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.4g}")
    axes.xaxis.set_minor_formatter(lambda *_: "")


def svg_of(figure: Figure, name: str = "") -> str:
    """The figure as an SVG element. name: its description for screen readers."""
    import matplotlib as mpl

    written = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "wherefrom"}):
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    drawing = written.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", drawing, count=1)  # the page decides how wide it is
    drawing = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", drawing, count=1)
    # A page names its style sheets by their hashes (report.document): matplotlib's one rule is in page.css.
    drawing = re.sub(r"<style[^>]*>.*?</style>", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    if name:
        drawing = drawing.replace("<svg", f'<svg role="img" aria-label="{escape(name)}"', 1)
    return drawing.replace(INK, "currentColor")
