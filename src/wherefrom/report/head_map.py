"""The head map (Fig. 5 of Mask-LRP): which heads look at a distance, which at syntax, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wherefrom.core.labels import visible
from wherefrom.report.plots import new_figure, save_figure

__all__ = ["head_map_plot"]

COLOURS = {"other": "#eceff3", "positional": "#3b6fb6", "syntactic": "#d9822b", "both": "#6b3fa0"}


def head_map_plot(kinds: Sequence[Sequence[str]], path: Path, *, title: str) -> None:
    """Draw the kinds of heads, (layer, head), to a picture file; layer 0 is at the bottom, where the model begins."""
    names = list(COLOURS)
    layers, heads = len(kinds), len(kinds[0])
    figure = new_figure(0.4 * heads + 2.6, 0.4 * layers + 1.4)  # raises where matplotlib is missing
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    axes = figure.subplots()
    numbers = [[names.index(kind) for kind in row] for row in kinds]
    axes.pcolormesh(
        numbers, cmap=ListedColormap(list(COLOURS.values())), vmin=0, vmax=len(names), edgecolors="white", linewidth=1.5
    )
    axes.set_aspect("equal")
    axes.set_xticks([i + 0.5 for i in range(heads)], [str(i) for i in range(heads)], fontsize=8)
    axes.set_yticks([i + 0.5 for i in range(layers)], [str(i) for i in range(layers)], fontsize=8)
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(visible(title), fontsize=10, loc="left", parse_math=False)
    handles = [Patch(color=colour, label=name) for name, colour in COLOURS.items()]
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=8)
    save_figure(figure, path, dpi=160)
