"""An explanation as a bar chart, by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wherefrom.core.explanation import Explanation
from wherefrom.errors import MissingExtra
from wherefrom.report.colour import LIGHT, shade
from wherefrom.report.pieces import pieces

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AGAINST_HATCH = "////"  # besides the colour, to be seen in print


def bars(explanation: Explanation, ax: Axes | None = None, *, special: bool = False, count: int | None = None) -> Axes:
    """One bar a unit from the top down, in the order of the text.

    count: only those that weigh most.
    """
    shown = pieces(explanation, special=special)
    if count is not None:
        heaviest = sorted(range(len(shown)), key=lambda place: -abs(shown[place].score))[:count]
        shown = [shown[place] for place in sorted(heaviest)]
    axes = ax or _new_axes(len(shown))
    scores = [piece.score for piece in shown]
    sides = [shade(score, 1.0, signed=explanation.signed).side for score in scores]
    drawn = axes.barh(range(len(shown)), scores, color=[tuple(part / 255 for part in LIGHT[side]) for side in sides])
    for bar, side in zip(drawn, sides, strict=True):
        if side == "against":
            bar.set_hatch(AGAINST_HATCH)
    axes.set_yticks(range(len(shown)), [piece.label for piece in shown], parse_math=False)
    axes.invert_yaxis()
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel(f"{explanation.method}: score for {explanation.target}", parse_math=False)
    return axes


def _new_axes(rows: int) -> Axes:
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise MissingExtra("Drawing a picture", "report") from error
    return pyplot.subplots(figsize=(6, 0.8 + 0.24 * rows), layout="constrained")[1]
