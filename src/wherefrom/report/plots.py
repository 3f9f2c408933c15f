"""Pictures drawn by matplotlib: the layers of a flow, and the scores of combinations of attention operations."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from wherefrom.core.files import FilePath
from wherefrom.core.flow import Flow
from wherefrom.core.labels import token_label, token_labels
from wherefrom.errors import BadFile, MissingExtra
from wherefrom.report.colour import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure


__all__ = [
    "combination_scores",
    "flow_layers",
    "flow_matrix",
    "for_and_against",
    "new_figure",
    "save_figure",
    "token_label",
    "token_labels",
]


LABELLED = 60  # tokens; with more, their names would lie on top of each other
COLOURS = "Blues"


def flow_layers(flow: Flow, path: FilePath) -> None:
    """R^l for every layer, and below it the last row of the deciding position: as Figures 10-12 of the ALTI paper."""
    depth = len(flow.layers)
    columns = min(4, math.ceil(depth / 2))
    rows = math.ceil(depth / columns)
    figure = new_figure(3.4 * columns + 0.6, 3.4 * rows + 1.2)
    grid = figure.add_gridspec(rows + 1, columns, height_ratios=[*[1.0] * rows, 0.16])
    for number, matrix in enumerate(flow.accumulated):
        axes = figure.add_subplot(grid[number // columns, number % columns])
        axes.imshow(matrix, cmap=COLOURS, vmin=0, aspect="auto")
        axes.set_title(f"layer {number + 1}", fontsize=9)
        _name(axes, flow, across=number // columns == rows - 1, down=number % columns == 0)
    _decision(figure.add_subplot(grid[-1, :]), flow)
    save_figure(figure, path)


def flow_matrix(flow: Flow, path: FilePath) -> None:
    """R of the last layer, and below it the deciding position's row: as Figure 5 of the ALTI paper."""
    figure = new_figure(7, 7.6)
    above, below = figure.subplots(2, 1, gridspec_kw={"height_ratios": [12, 1]})
    shown = above.imshow(flow.accumulated[-1], cmap=COLOURS, vmin=0, aspect="auto")
    figure.colorbar(shown, ax=above, fraction=0.04)
    _name(above, flow, across=False, down=True)
    above.set_ylabel("after the last layer")
    _decision(below, flow)
    save_figure(figure, path)


def _decision(axes: Axes, flow: Flow) -> None:
    axes.imshow(flow.scores[None], cmap=COLOURS, vmin=0, aspect="auto")
    _name(axes, flow, across=True, down=False)
    axes.set_xlabel(f"share of each token in the deciding position ({flow.method})", parse_math=False)


def _name(axes: Axes, flow: Flow, *, across: bool, down: bool) -> None:
    places = np.arange(len(flow.tokens)) if len(flow.tokens) <= LABELLED else np.array([], dtype=int)
    labels = token_labels(flow.tokens, flow.offsets, flow.segment, flow.text, flow.pair)
    names = [labels[place] for place in places]
    axes.set_xticks(places if across else [], names if across else [], rotation=90, fontsize=7, parse_math=False)
    axes.set_yticks(places if down else [], names if down else [], fontsize=7, parse_math=False)


def combination_scores(tables: Mapping[str, Mapping[str, Any]], path: FilePath, *, label: str = "RFT") -> None:
    """How faithful every combination of attention operations is: head by layer, one map for each matrix operation.

    tables: what `optimus` keeps with all_scores=True: `explanation.selection[0]["scores"]`.
    """
    rows = len(tables)
    shapes = [(len(table["heads"]), len(table["layers"])) for table in tables.values()]
    figure = new_figure(
        4 * (0.28 * max(layers for _, layers in shapes) + 1.1) + 1,
        rows * (0.28 * max(heads for heads, _ in shapes) + 1.1),
    )
    limit = max(
        abs(score or 0.0)
        for table in tables.values()
        for matrix in table["scores"].values()
        for row in matrix
        for score in row
    )
    places = figure.subplots(rows, 4, squeeze=False)
    for row, (raw, table) in zip(places, tables.items(), strict=True):
        for axes, (matrix, numbers) in zip(row, table["scores"].items(), strict=True):
            shown = axes.imshow(
                np.array(numbers, dtype=float), cmap=for_and_against(), vmin=-limit, vmax=limit, aspect="auto"
            )
            axes.set_title(f"{raw} {matrix}", fontsize=9)
            axes.set_xticks(range(len(table["layers"])), table["layers"], rotation=90, fontsize=7)
            axes.set_yticks(range(len(table["heads"])), table["heads"], fontsize=7)
            axes.set_xlabel("layer", fontsize=8)
        row[0].set_ylabel("head", fontsize=8)
    figure.colorbar(shown, ax=places, fraction=0.02, label=label)
    save_figure(figure, path)


def for_and_against() -> Colormap:
    """The colours of signed scores: orange against, blue for."""
    try:
        from matplotlib.colors import LinearSegmentedColormap
    except ModuleNotFoundError as error:
        raise MissingExtra("Drawing a picture", "report") from error

    ends = [tuple(part / 255 for part in LIGHT[side]) for side in ("against", "ground", "for")]
    return LinearSegmentedColormap.from_list("against and for", ends)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches; an error that names the extra where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtra("Drawing a picture", "report") from error
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: FilePath, *, dpi: int = 150) -> None:
    """Write a figure to a file, in the format of its extension."""
    try:
        with warnings.catch_warnings():  # a character that the font lacks is drawn as a box, which is as good as can be
            warnings.filterwarnings("ignore", message="Glyph")
            figure.savefig(path, dpi=dpi)
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} could not be written: {error}.") from error
