"""The pictures of the papers, drawn by matplotlib from plain numbers: curves, box plots, maps and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wherefrom import Explanation
from wherefrom.files import FilePath
from wherefrom.report.plots import for_and_against, new_figure, save_figure, token_label, token_labels
from wherefrom.typing import Numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Estimated(Protocol):
    """A number with its interval, where it has one."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def drop_curves(
    curves: Mapping[str, Numbers], path: FilePath, *, shares: Numbers, bands: Mapping[str, Numbers] | None = None
) -> None:
    """How far the probability has fallen when that share of the tokens is gone, one line a method: as Figures 6 and
    9. bands: how far to both sides of a line its band goes.
    """
    figure = new_figure(6.6, 3.8)
    axes = figure.add_subplot()
    for number, (name, curve) in enumerate(curves.items()):
        (line,) = axes.plot(100 * shares, curve, _dash(number), label=name)
        if bands is not None:
            low, high = curve - bands[name], curve + bands[name]
            axes.fill_between(100 * shares, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set_xlabel("most important tokens removed, %")
    axes.set_ylabel("drop in probability")
    _legend_beside(axes)
    save_figure(figure, path)


def boxes(values: Mapping[str, Sequence[float]], path: FilePath, *, label: str) -> None:
    """How the values of each method are spread: as Figures 7 and 8."""
    figure = new_figure(1.4 + 0.8 * len(values), 3.8)
    axes = figure.add_subplot()
    axes.boxplot(
        [np.asarray(column)[np.isfinite(column)] for column in values.values()],
        tick_labels=list(values),
        showmeans=True,
    )
    axes.tick_params(axis="x", rotation=30)
    axes.set_ylabel(label)
    save_figure(figure, path)


def anisotropy(outputs: Mapping[str, Numbers], parts: Mapping[str, Numbers], path: FilePath) -> None:
    """Mean cosine similarity per layer, of outputs (solid) and of parts (dashed), one colour a model: as Figure 3."""
    figure = new_figure(5.5, 3.8)
    axes = figure.add_subplot()
    for number, name in enumerate(outputs):
        layers = np.arange(1, len(outputs[name]) + 1)
        axes.plot(layers, outputs[name], color=f"C{number}", label=name)
        axes.plot(layers, parts[name], color=f"C{number}", linestyle="dashed")
    axes.set_xlabel("layer")
    axes.set_ylabel("mean cosine similarity")
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, path)


def shares(parts: Mapping[str, Mapping[str, float]], path: FilePath) -> None:
    """How often each operation wins, one chart for heads, layers and matrices: as Figure 4 of the Optimus paper."""
    figure = new_figure(1 + 0.34 * sum(len(part) + 2 for part in parts.values()), 3.4)
    places = figure.subplots(1, len(parts), squeeze=False, width_ratios=[len(part) + 2 for part in parts.values()])[0]
    for axes, (name, part) in zip(places, parts.items(), strict=True):
        axes.bar(range(len(part)), [100 * share for share in part.values()], color="C0")
        axes.set_xticks(range(len(part)), list(part), rotation=90, fontsize=8)
        axes.set_title(name, fontsize=9)
    places[0].set_ylabel("chosen, % of texts")
    save_figure(figure, path)


def distance_shares(relations: Mapping[str, Sequence[tuple[int, int]]], path: FilePath, *, reach: int) -> None:
    """Where the governors of each syntactic relation stand, in words from their dependents: as Figure 1 of the Mask-LRP
    paper. relations: (distance, count) pairs; reach: how far to both sides is drawn.
    """
    figure = new_figure(5.5, 3.8)
    axes = figure.add_subplot()
    places = np.arange(-reach, reach + 1)
    for name, pairs in relations.items():
        counts, everything = dict(pairs), sum(count for _, count in pairs)
        axes.plot(places, [counts.get(int(place), 0) / everything for place in places], marker="o", label=name)
    axes.set_xlabel("distance, in words")
    axes.set_ylabel("share of the relation's pairs")
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, path)


def faithfulness_against_cost(
    methods: Mapping[str, tuple[float, Estimated]], families: Mapping[str, str], path: FilePath
) -> None:
    """One dot a method, in the colour of its family: what it costs, and the share of the others that it beats, with its
    interval. A line joins those that no cheaper method beats.
    """
    figure = new_figure(8.4, 5.6)
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
    save_figure(figure, path)


def method_dots(points: Mapping[str, tuple[float, float]], path: FilePath, *, across: str, up: str) -> None:
    """One named dot a method, and a line through those that no cheaper one beats. points: cost and how good it is."""
    figure = new_figure(8.4, 5.6)
    axes = figure.add_subplot()
    for number, (cost, good) in enumerate(points.values()):
        axes.plot(cost, good, "o", color=f"C{number % 10}")
    edge = [points[name] for name in not_beaten_by_cheaper(points)]
    axes.step(*zip(*edge, strict=True), where="post", color="0.6", linewidth=1.2, linestyle="--", zorder=0)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.set_ylim(-0.05, 1.05)
    axes.margins(x=0.12)
    axes.grid(alpha=0.25)
    _name_points(figure, axes, points, {name: f"C{number % 10}" for number, name in enumerate(points)})
    save_figure(figure, path)


def not_beaten_by_cheaper(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Those that are better than every one that costs less, the cheapest first. points: cost and how good it is."""
    names: list[str] = []
    for name in sorted(points, key=lambda key: (points[key][0], -points[key][1])):
        if not names or points[name][1] > points[names[-1]][1]:
            names.append(name)
    return names


# Where a name may stand beside its dot, the first choices first: to the right or left, at most so many points away.
_BESIDE = [(side * 7, up) for up in (3, -9, 13, -19, 23, -29, 33, -39) for side in (1, -1)]


def _name_points(
    figure: Figure, axes: Axes, points: Mapping[str, tuple[float, float]], colours: Mapping[str, str]
) -> None:
    """Write every name where it covers no dot and no other name, with a line to its dot where that is not beside it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]  # only then the axes are where they will be
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    legend = axes.get_legend()
    taken = [] if legend is None else [legend.get_window_extent()]
    for point in points.values():
        x, y = axes.transData.transform(point)
        taken.append(Bbox.from_extents(x - 5, y - 5, x + 5, y + 5))
    for name, point in sorted(points.items(), key=lambda item: -item[1][1]):
        label = axes.annotate(
            name, point, xytext=_BESIDE[0], textcoords="offset points", fontsize=8, color=colours[name],
            parse_math=False,
            arrowprops={"arrowstyle": "-", "color": colours[name], "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2},
        )  # fmt: skip

        def covered(place: tuple[int, int], label: Any = label) -> float:
            label.set_position(place)
            label.set_horizontalalignment("left" if place[0] > 0 else "right")
            label.update_positions(renderer)
            extent = Text.get_window_extent(label, renderer)
            shared = [
                both.width * both.height for item in taken if (both := Bbox.intersection(extent, item)) is not None
            ]
            inside = axes.bbox.x0 <= extent.x0 and extent.x1 <= axes.bbox.x1
            return sum(shared) + (0.0 if inside else extent.width * extent.height)

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
    figure = new_figure(6.6, 3.8)
    axes = figure.add_subplot()
    for number, (name, curve) in enumerate(curves.items()):
        axes.plot(np.arange(1, len(curve)), curve[1:], _dash(number), label=name)
    axes.set_yscale("log")
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    _legend_beside(axes)
    save_figure(figure, path)


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
    figure = new_figure(1.6 + 0.32 * len(tokens), 1.2 + 0.28 * len(rows))
    axes = figure.add_subplot()
    shown = axes.imshow(
        numbers / np.where(largest == 0, 1, largest), cmap=for_and_against(), vmin=-1, vmax=1, aspect="auto"
    )
    axes.set_yticks(range(len(rows)), list(rows), fontsize=8, parse_math=False)
    axes.set_xticks(
        range(len(tokens)), [token_label(token) for token in tokens], rotation=90, fontsize=8, parse_math=False
    )
    figure.colorbar(shown, ax=axes, fraction=0.03)
    save_figure(figure, path)


def explanations_map(explanations: Mapping[str, Explanation], path: FilePath) -> None:
    """The scores of several explanations of one text, special tokens left out."""
    first = next(iter(explanations.values()))
    kept = [place for place, special in enumerate(first.special) if not special]
    names = token_labels(first.tokens, first.offsets, first.segment, first.text, first.pair)
    rows = {title: [explanation.scores[place] for place in kept] for title, explanation in explanations.items()}
    impact_map(rows, [names[place] for place in kept], path)
