"""The figures of "Is Sparse Attention more Interpretable?" (Meister et al. 2021), drawn again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from wherefrom.report.plots import new_figure, save_figure
from wherefrom_studies.pages import StudyPicture
from wherefrom_studies.sparse import paper
from wherefrom_studies.sparse.tables import PROJECTIONS, lambda_of, of_texts, present, select, sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, BLUE, ORANGE, GREEN, PURPLE = "#1b1f24", "#3b82d6", "#e07b39", "#2f9e77", "#a05fc0"
PAPER = "D"  # the marker of the paper's numbers
LONGEST_NAME = 48  # characters: a longer name would leave no room to draw in


def pictures(results: Mapping[str, Any], out: Path) -> list[StudyPicture]:
    """Draw Figures 1 to 4 into a folder; Figure 3 where lambda was swept."""
    drawn = [
        StudyPicture(
            "sparse-figure1.png",
            "Fig. 1: attention and gradient importance",
            "Kendall's tau-b of attention with gradient importance, text by text: boxes are quartiles, diamonds the"
            " paper's means.",
        ),
        StudyPicture(
            "sparse-figure2.png",
            "Fig. 2: entropy of input importance",
            "How spread out the importance of inputs is, for every projection measured, from dense to sparse (1 = all"
            " words matter alike).",
        ),
        StudyPicture(
            "sparse-figure4.png",
            "Fig. 4: attention and leave-one-out importance",
            "The same as Fig. 1 with leave-one-out importance.",
        ),
    ]
    _agreement_figure(results, "g(x)", "g(I)", out / drawn[0].file)
    _entropy_figure(results, out / drawn[1].file)
    _agreement_figure(results, "D(x)", "D(I)", out / drawn[2].file)
    if any(
        len({row["projection"] for row in sweep(results, name, encoder)}) > 2
        for name in results["datasets"]
        for encoder in paper.ENCODERS
    ):
        swept = StudyPicture(
            "sparse-figure3.png",
            "Fig. 3: agreement with input importance as attention gets sparser",
            "Mean tau-b of attention with input importance for sparsegen's λ; 0 is sparsemax. Evenly spaced: λ goes"
            " from −∞ to 1.",
        )
        _lambda_figure(results, out / swept.file)
        drawn.insert(2, swept)
    return drawn


def inference_picture(inference: Mapping[str, Any], out: Path) -> StudyPicture:
    """Draw the numbers of a model's projected attention as curves."""
    picture = StudyPicture(
        "sparse-at-inference.png",
        f"{inference['model']}: from dense to sparse",
        "The same numbers as curves. The paper does not ask this question.",
    )
    _inference_figure(inference, out / picture.file)
    return picture


def _new_axes(
    rows: int, columns: int, *, width: float, height: float, share_y: bool = True
) -> tuple[Figure, list[Axes]]:
    figure = new_figure(width, height)
    flat: list[Axes] = list(figure.subplots(rows, columns, squeeze=False, sharey=share_y).flat)
    for axes in flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="both", color=INK, alpha=0.12, linewidth=0.6)
        axes.set_axisbelow(True)
    return figure, flat


def _boxes(
    axes: Axes, values: Sequence[list[float]], places: Sequence[float], colour: str, *, width: float = 0.3
) -> None:
    line = {"color": INK, "linewidth": 0.8}
    drawn = axes.boxplot(
        [column or [float("nan")] for column in values],
        positions=list(places),
        widths=width,
        patch_artist=True,
        showfliers=False,
        manage_ticks=False,
        medianprops=line | {"linewidth": 1.2},
        whiskerprops=line,
        capprops=line,
        boxprops={"linewidth": 0.8, "edgecolor": INK, "facecolor": colour, "alpha": 0.85},
    )
    assert drawn


def _legend(figure: Figure, entries: Sequence[tuple[str, str, str]]) -> None:
    from matplotlib.lines import Line2D

    marks = []
    for words, colour, marker in entries:
        face, size = ("white", 5) if marker == PAPER else (colour, 8)
        marks.append(
            Line2D(
                [], [], linestyle="", marker=marker, markersize=size, color=colour, markerfacecolor=face, label=words
            )
        )
    figure.legend(handles=marks, loc="outside upper center", ncols=len(marks), frameon=False, labelcolor=INK)


def _agreement_figure(results: Mapping[str, Any], inputs: str, intermediates: str, path: Path) -> None:
    names = list(results["datasets"])
    figure, axes = _new_axes(1, len(names), width=max(9.0, 4.4 * len(names)), height=3.6)
    models = [(encoder, projection) for encoder in paper.ENCODERS for projection in PROJECTIONS]
    for plot, dataset in zip(axes, names, strict=True):
        for offset, kind, colour in ((-0.19, inputs, ORANGE), (0.19, intermediates, BLUE)):
            places = [place + offset for place in range(len(models))]
            values = [
                present(
                    tau
                    for row in select(results, dataset=dataset, encoder=encoder, projection=projection, adversary=None)
                    for tau in row["tau"][kind]
                )
                for encoder, projection in models
            ]
            _boxes(plot, values, places, colour)
            printed = [paper.AGREEMENT[kind][encoder, projection, dataset][0] for encoder, projection in models]
            plot.plot(
                places, printed, linestyle="", marker=PAPER, markersize=5, color=INK, markerfacecolor="white", zorder=5
            )
        plot.axhline(0, color=INK, linewidth=0.8, alpha=0.6)
        plot.set_xticks(
            range(len(models)),
            [f"{paper.ENCODERS[encoder]}\n{projection}" for encoder, projection in models],
            fontsize=8.5,
        )
        plot.set_title(paper.DATASETS[dataset])
        plot.set_ylim(-1.05, 1.05)
    axes[0].set_ylabel("tau-b with attention")
    _legend(
        figure,
        [
            (f"{inputs}: inputs", ORANGE, "s"),
            (f"{intermediates}: intermediates", BLUE, "s"),
            ("the paper's mean", INK, PAPER),
        ],
    )
    save_figure(figure, path)


def _order(projection: str) -> float:
    lam = lambda_of(projection)
    return float("-inf") if lam is None else lam


def _short(projection: str) -> str:
    return projection.replace("sparsegen:", "λ ").replace("-", "−")[:LONGEST_NAME]


def _entropy_figure(results: Mapping[str, Any], path: Path) -> None:
    names = list(results["datasets"])
    figure, axes = _new_axes(len(names), 2, width=8.6, height=0.5 + 2.9 * len(names))
    for place, plot in enumerate(axes):
        dataset, encoder = names[place // 2], list(paper.ENCODERS)[place % 2]
        rows = select(results, dataset=dataset, encoder=encoder, adversary=None)
        projections = sorted({row["projection"] for row in rows}, key=_order)
        for offset, kind, colour in ((-0.19, "g(x)", ORANGE), (0.19, "D(x)", GREEN)):
            values = [
                present(h for row in rows if row["projection"] == name for h in row["entropy"][kind])
                for name in projections
            ]
            _boxes(plot, values, [i + offset for i in range(len(projections))], colour)
        plot.set_xticks(
            range(len(projections)),
            [_short(name) for name in projections],
            fontsize=8.5,
            rotation=0 if len(projections) < 5 else 30,
        )
        plot.set_title(f"{paper.DATASETS[dataset]} · {paper.ENCODERS[encoder]}")
        plot.set_ylim(0, 1.03)
        if place % 2 == 0:
            plot.set_ylabel("normalised entropy")
    _legend(figure, [("g(x): gradient", ORANGE, "s"), ("D(x): leave-one-out", GREEN, "s")])
    save_figure(figure, path)


def _lambda_figure(results: Mapping[str, Any], path: Path) -> None:
    names = list(results["datasets"])
    figure, axes = _new_axes(1, len(names), width=max(9.0, 4.2 * len(names)), height=3.6)
    lines = [("bilstm", "g(x)", BLUE, "o", "-"), ("bilstm", "D(x)", BLUE, "s", "--")]
    lines += [("transformer", "g(x)", PURPLE, "o", "-"), ("transformer", "D(x)", PURPLE, "s", "--")]
    reached: list[float] = []
    for plot, dataset in zip(axes, names, strict=True):
        projections: list[str] = []
        for encoder, kind, colour, marker, style in lines:
            rows = sweep(results, dataset, encoder)
            projections = list(dict.fromkeys(row["projection"] for row in rows))
            means = [of_texts([row for row in rows if row["projection"] == name], "tau", kind) for name in projections]
            values = [mean.value if mean else float("nan") for mean in means]
            widths = [mean.interval or 0.0 if mean else 0.0 for mean in means]
            label = f"{paper.ENCODERS[encoder]}, {kind}"
            reached += values
            plot.errorbar(
                range(len(projections)),
                values,
                yerr=widths if any(widths) else None,
                color=colour,
                marker=marker,
                linestyle=style,
                label=label,
            )
        plot.set_xticks(range(len(projections)), [f"{lambda_of(name):g}".replace("-", "−") for name in projections])
        plot.set_xlabel("λ (sparser to the right)")
        plot.set_title(paper.DATASETS[dataset])
    # All data sets on one scale, which does not go as far as intervals of two seeds reach.
    axes[0].set_ylim(max(-1.0, min(reached) - 0.15), min(1.0, max(reached) + 0.15))
    axes[0].set_ylabel("mean tau-b with attention")
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False, labelcolor=INK
    )
    save_figure(figure, path)


def _inference_figure(inference: Mapping[str, Any], path: Path) -> None:
    rows = inference["projections"]
    figure, axes = _new_axes(1, 2, width=8.6, height=3.6, share_y=False)
    places = range(len(rows))

    def means(key: str) -> list[float]:
        return [fmean(values) if (values := present(row["measures"][key])) else float("nan") for row in rows]

    axes[0].plot(places, [row["accuracy"] for row in rows], color=INK, marker="D", label="accuracy")
    for key, colour in (("entropy", BLUE), ("zeros", ORANGE), ("on special tokens", GREEN)):
        axes[0].plot(
            places,
            means(key),
            color=colour,
            marker="o",
            label={"entropy": "entropy of attention", "zeros": "zero weights"}.get(key, key),
        )
    for key, colour, style in (
        ("raw attention, g(x)", BLUE, "-"),
        ("raw attention, D(x)", BLUE, "--"),
        ("rollout, g(x)", PURPLE, "-"),
        ("rollout, D(x)", PURPLE, "--"),
    ):
        axes[1].plot(places, means(key), color=colour, linestyle=style, marker="o", label=key)
    axes[0].set_title("the model and its attention")
    axes[1].set_title("mean tau-b of explanation and importance")
    axes[0].set_ylim(-0.02, 1.02)
    for plot in axes:
        names = [_short(row["projection"]) for row in rows]
        plot.set_xticks(places, names, rotation=30, fontsize=8.5, parse_math=False)
        plot.legend(frameon=False, fontsize=8.5, labelcolor=INK)
    save_figure(figure, path)
