"""Pictures for a paper, by matplotlib: flows, probability-drop curves, box plots, anisotropy. Plain data in, a file
out.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wherefrom.core.arrays import Numbers
from wherefrom.core.files import FilePath
from wherefrom.core.flow import Flow
from wherefrom.errors import BadFile, MissingExtra
from wherefrom.report.colour import LIGHT
from wherefrom.report.pieces import token_label, token_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure


__all__ = [
    "anisotropy",
    "boxes",
    "combination_scores",
    "distance_shares",
    "drop_curves",
    "faithfulness_against_cost",
    "flow_layers",
    "flow_matrix",
    "impact_map",
    "lines",
    "not_beaten_by_cheaper",
    "shares",
]


class Estimated(Protocol):
    """A number with its interval, where it has one."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


LABELLED = 60  # tokens; with more, their names would lie on top of each other
COLOURS = "Blues"


def flow_layers(flow: Flow, path: FilePath) -> None:
    """R^l for every layer, and below what the deciding position holds in the end: as Figures 10-12 of the ALTI
    paper.
    """
    depth = len(flow.layers)
    columns = min(4, math.ceil(depth / 2))
    rows = math.ceil(depth / columns)
    figure = _figure(3.4 * columns + 0.6, 3.4 * rows + 1.2)
    grid = figure.add_gridspec(rows + 1, columns, height_ratios=[*[1.0] * rows, 0.16])
    for number, matrix in enumerate(flow.accumulated):
        axes = figure.add_subplot(grid[number // columns, number % columns])
        axes.imshow(matrix, cmap=COLOURS, vmin=0, aspect="auto")
        axes.set_title(f"layer {number + 1}", fontsize=9)
        _name(axes, flow, across=number // columns == rows - 1, down=number % columns == 0)
    _decision(figure.add_subplot(grid[-1, :]), flow)
    _save(figure, path)


def flow_matrix(flow: Flow, path: FilePath) -> None:
    """R of the last layer, and below it the deciding position's row: as Figure 5 of the ALTI paper."""
    figure = _figure(7, 7.6)
    above, below = figure.subplots(2, 1, gridspec_kw={"height_ratios": [12, 1]})
    shown = above.imshow(flow.accumulated[-1], cmap=COLOURS, vmin=0, aspect="auto")
    figure.colorbar(shown, ax=above, fraction=0.04)
    _name(above, flow, across=False, down=True)
    above.set_ylabel("behind the last layer")
    _decision(below, flow)
    _save(figure, path)


def _decision(axes: Axes, flow: Flow) -> None:
    axes.imshow(flow.scores[None], cmap=COLOURS, vmin=0, aspect="auto")
    _name(axes, flow, across=True, down=False)
    axes.set_xlabel(f"what the deciding position holds of each token ({flow.method})", parse_math=False)


def _name(axes: Axes, flow: Flow, *, across: bool, down: bool) -> None:
    places = np.arange(len(flow.tokens)) if len(flow.tokens) <= LABELLED else np.array([], dtype=int)
    labels = token_labels(flow.tokens, flow.offsets, flow.segment, flow.text, flow.pair)
    names = [labels[place] for place in places]
    axes.set_xticks(places if across else [], names if across else [], rotation=90, fontsize=7, parse_math=False)
    axes.set_yticks(places if down else [], names if down else [], fontsize=7, parse_math=False)


def drop_curves(
    curves: Mapping[str, Numbers], path: FilePath, *, shares: Numbers, bands: Mapping[str, Numbers] | None = None
) -> None:
    """How far the probability has fallen when that share of the tokens is gone, one line a method: as Figures 6 and
    9. bands: how far to both sides of a line its band goes.
    """
    figure = _figure(6.6, 3.8)
    axes = figure.add_subplot()
    for number, (name, curve) in enumerate(curves.items()):
        (line,) = axes.plot(100 * shares, curve, _dash(number), label=name)
        if bands is not None:
            low, high = curve - bands[name], curve + bands[name]
            axes.fill_between(100 * shares, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set_xlabel("most important tokens removed, %")
    axes.set_ylabel("drop in probability")
    _legend_beside(axes)
    _save(figure, path)


def boxes(values: Mapping[str, Sequence[float]], path: FilePath, *, label: str) -> None:
    """How the values of each method are spread: as Figures 7 and 8."""
    figure = _figure(1.4 + 0.8 * len(values), 3.8)
    axes = figure.add_subplot()
    axes.boxplot(
        [np.asarray(one)[np.isfinite(one)] for one in values.values()], tick_labels=list(values), showmeans=True
    )
    axes.tick_params(axis="x", rotation=30)
    axes.set_ylabel(label)
    _save(figure, path)


def anisotropy(outputs: Mapping[str, Numbers], parts: Mapping[str, Numbers], path: FilePath) -> None:
    """Mean cosine similarity per layer, of outputs (solid) and of parts (dashed), one colour a model: as Figure 3."""
    figure = _figure(5.5, 3.8)
    axes = figure.add_subplot()
    for number, name in enumerate(outputs):
        layers = np.arange(1, len(outputs[name]) + 1)
        axes.plot(layers, outputs[name], color=f"C{number}", label=name)
        axes.plot(layers, parts[name], color=f"C{number}", linestyle="dashed")
    axes.set_xlabel("layer")
    axes.set_ylabel("mean cosine similarity")
    axes.legend(frameon=False, fontsize=8)
    _save(figure, path)


def combination_scores(tables: Mapping[str, Mapping[str, Any]], path: FilePath, *, label: str = "RFT") -> None:
    """How faithful every combination of attention operations is: head by layer, one map for each matrix operation.

    tables: what `optimus` keeps with all_scores=True: `explanation.selection[0]["scores"]`.
    """
    rows = len(tables)
    shapes = [(len(table["heads"]), len(table["layers"])) for table in tables.values()]
    figure = _figure(
        4 * (0.28 * max(layers for _, layers in shapes) + 1.1) + 1,
        rows * (0.28 * max(heads for heads, _ in shapes) + 1.1),
    )
    limit = max(
        abs(one or 0.0)
        for table in tables.values()
        for matrix in table["scores"].values()
        for row in matrix
        for one in row
    )
    places = figure.subplots(rows, 4, squeeze=False)
    for row, (raw, table) in zip(places, tables.items(), strict=True):
        for axes, (matrix, numbers) in zip(row, table["scores"].items(), strict=True):
            shown = axes.imshow(
                np.array(numbers, dtype=float), cmap=_for_and_against(), vmin=-limit, vmax=limit, aspect="auto"
            )
            axes.set_title(f"{raw} {matrix}", fontsize=9)
            axes.set_xticks(range(len(table["layers"])), table["layers"], rotation=90, fontsize=7)
            axes.set_yticks(range(len(table["heads"])), table["heads"], fontsize=7)
            axes.set_xlabel("layer", fontsize=8)
        row[0].set_ylabel("head", fontsize=8)
    figure.colorbar(shown, ax=places, fraction=0.02, label=label)
    _save(figure, path)


def shares(parts: Mapping[str, Mapping[str, float]], path: FilePath) -> None:
    """How often each operation wins, one chart for heads, layers and matrices: as Figure 4 of the Optimus paper."""
    figure = _figure(1 + 0.34 * sum(len(part) + 2 for part in parts.values()), 3.4)
    places = figure.subplots(1, len(parts), squeeze=False, width_ratios=[len(part) + 2 for part in parts.values()])[0]
    for axes, (name, part) in zip(places, parts.items(), strict=True):
        axes.bar(range(len(part)), [100 * share for share in part.values()], color="C0")
        axes.set_xticks(range(len(part)), list(part), rotation=90, fontsize=8)
        axes.set_title(name, fontsize=9)
    places[0].set_ylabel("chosen, % of texts")
    _save(figure, path)


def distance_shares(relations: Mapping[str, Sequence[tuple[int, int]]], path: FilePath, *, reach: int) -> None:
    """Where the governors of each syntactic relation stand, in words from their dependents: as Figure 1 of the Mask-LRP
    paper. relations: (distance, count) pairs; reach: how far to both sides is drawn.
    """
    figure = _figure(5.5, 3.8)
    axes = figure.add_subplot()
    places = np.arange(-reach, reach + 1)
    for name, pairs in relations.items():
        counts, everything = dict(pairs), sum(count for _, count in pairs)
        axes.plot(places, [counts.get(int(place), 0) / everything for place in places], marker="o", label=name)
    axes.set_xlabel("distance, in words")
    axes.set_ylabel("share of the relation's pairs")
    axes.legend(frameon=False, fontsize=8)
    _save(figure, path)


def faithfulness_against_cost(
    methods: Mapping[str, tuple[float, Estimated]], families: Mapping[str, str], path: FilePath
) -> None:
    """One dot a method, in the colour of its family: what it costs, and the share of the others that it beats, with its
    interval. A line joins those that no cheaper method beats.
    """
    figure = _figure(8.4, 5.6)
    axes = figure.add_subplot()
    colours = {family: f"C{number % 10}" for number, family in enumerate(sorted(set(families.values())))}
    for family, colour in colours.items():
        axes.plot([], [], "o", color=colour, label=family)
    for name, (cost, better) in methods.items():
        low = better.value if better.low is None else better.low
        high = better.value if better.high is None else better.high
        around = [[max(better.value - low, 0.0)], [max(high - better.value, 0.0)]]
        colour = colours[families[name]]
        axes.errorbar([cost], [better.value], yerr=around, fmt="o", color=colour, capsize=2, linewidth=1)
    points = {name: (cost, better.value) for name, (cost, better) in methods.items()}
    edge = [points[name] for name in not_beaten_by_cheaper(points)]
    across, up = [cost for cost, _ in edge], [value for _, value in edge]
    axes.step(
        across, up, where="post", color="0.6", linewidth=1.2, linestyle="--", zorder=0, label="no cheaper one is better"
    )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}×")
    axes.set_xlabel("what one explanation costs, in times of the median method (logarithmic)")
    axes.set_ylabel("faithfulness: share of the other methods that it beats")
    axes.set_ylim(-0.05, 1.05)
    axes.margins(x=0.12)
    axes.grid(alpha=0.25)
    axes.legend(title="family", frameon=False, fontsize=8, title_fontsize=8, loc="lower right")
    _name_points(figure, axes, points, {name: colours[families[name]] for name in methods})
    _save(figure, path)


def not_beaten_by_cheaper(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Those that are better than every one that costs less, the cheapest first. points: cost and how good it is."""
    found: list[str] = []
    for name in sorted(points, key=lambda one: (points[one][0], -points[one][1])):
        if not found or points[name][1] > points[found[-1]][1]:
            found.append(name)
    return found


# Where a name may stand beside its dot, the first choices first: to the right or left, at most so many points away.
_BESIDE = [(side * 7, up) for up in (3, -9, 13, -19, 23, -29, 33, -39) for side in (1, -1)]


def _name_points(
    figure: Figure, axes: Axes, points: Mapping[str, tuple[float, float]], colours: Mapping[str, str]
) -> None:
    """Write every name where it covers no dot and no other name, with a line to its dot where that is not beside it."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.text import Text
        from matplotlib.transforms import Bbox
    except ModuleNotFoundError as error:
        raise MissingExtra("Drawing a picture", "report") from error
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]  # only then the axes are where they will be
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    legend = axes.get_legend()
    taken = [] if legend is None else [legend.get_window_extent()]
    for point in points.values():
        x, y = axes.transData.transform(point)
        taken.append(Bbox.from_extents(x - 5, y - 5, x + 5, y + 5))
    for name, point in sorted(points.items(), key=lambda one: -one[1][1]):
        label = axes.annotate(
            name, point, xytext=_BESIDE[0], textcoords="offset points", fontsize=8, color=colours[name],
            parse_math=False,
            arrowprops={"arrowstyle": "-", "color": colours[name], "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2},
        )  # fmt: skip

        def covered(place: tuple[int, int], label: Any = label) -> float:
            label.set_position(place)
            label.set_horizontalalignment("left" if place[0] > 0 else "right")
            label.update_positions(renderer)
            own = Text.get_window_extent(label, renderer)
            shared = [both.width * both.height for one in taken if (both := Bbox.intersection(own, one)) is not None]
            inside = axes.bbox.x0 <= own.x0 and own.x1 <= axes.bbox.x1
            return sum(shared) + (0.0 if inside else own.width * own.height)

        best = min(_BESIDE, key=covered)  # of equal ones the first
        covered(best)
        label.set_in_layout(False)  # the axes stay where they are
        if label.arrow_patch is not None:
            label.arrow_patch.set_visible(abs(best[1]) > 10)
        taken.append(Text.get_window_extent(label, renderer))


def lines(curves: Mapping[str, Numbers], path: FilePath, *, across: str, up: str) -> None:
    """One line a method over 0, 1, 2, ...: emissions as Figure 7 of the Optimus paper; logarithmic, as methods differ
    by orders.
    """
    figure = _figure(6.6, 3.8)
    axes = figure.add_subplot()
    for number, (name, curve) in enumerate(curves.items()):
        axes.plot(np.arange(1, len(curve)), curve[1:], _dash(number), label=name)
    axes.set_yscale("log")
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    _legend_beside(axes)
    _save(figure, path)


def _dash(number: int) -> str:
    """How a picture's n-th line is drawn: after ten colours they begin again, dashed and then dotted."""
    return ("-", "--", ":")[number // 10 % 3]


def _legend_beside(axes: Axes) -> None:
    """Right of the picture, where it hides no line."""
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))


def impact_map(rows: Mapping[str, Sequence[float]], tokens: Sequence[str], path: FilePath) -> None:
    """Signed scores, one row a layer or a method, each row scaled by its largest: as Figures 4 and 5 of the AttCAT
    paper.
    """
    numbers = np.array([list(row) for row in rows.values()], dtype=float)
    largest = np.abs(numbers).max(1, keepdims=True)
    figure = _figure(1.6 + 0.32 * len(tokens), 1.2 + 0.28 * len(rows))
    axes = figure.add_subplot()
    shown = axes.imshow(
        numbers / np.where(largest == 0, 1, largest), cmap=_for_and_against(), vmin=-1, vmax=1, aspect="auto"
    )
    axes.set_yticks(range(len(rows)), list(rows), fontsize=8, parse_math=False)
    axes.set_xticks(
        range(len(tokens)), [token_label(token) for token in tokens], rotation=90, fontsize=8, parse_math=False
    )
    figure.colorbar(shown, ax=axes, fraction=0.03)
    _save(figure, path)


def _for_and_against() -> Colormap:
    """Orange against, blue for, as everywhere else."""
    try:
        from matplotlib.colors import LinearSegmentedColormap
    except ModuleNotFoundError as error:
        raise MissingExtra("Drawing a picture", "report") from error
    ends = [tuple(part / 255 for part in LIGHT[side]) for side in ("against", "ground", "for")]
    return LinearSegmentedColormap.from_list("against and for", ends)


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtra("Drawing a picture", "report") from error
    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Figure, path: FilePath) -> None:
    try:
        with warnings.catch_warnings():  # a character that the font lacks is drawn as a box, which is as good as can be
            warnings.filterwarnings("ignore", message="Glyph")
            figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} could not be written: {error}.") from error
