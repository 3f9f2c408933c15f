"""The sparse-attention study as a page that stands alone: tables and figures, measured beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from wherefrom.errors import MissingExtra
from wherefrom.report.document import render_page
from wherefrom.report.figure import BLUE, GREEN, INK, ORANGE, PURPLE, label, new_axes, svg_of
from wherefrom_studies.sparse import paper
from wherefrom_studies.sparse.tables import (
    PROJECTIONS,
    inference_table,
    lambda_of,
    of_texts,
    present,
    select,
    sweep,
    tables,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER = "D"  # the mark of the paper's numbers


def check_extra() -> None:
    """Raise where a package is missing: before hours of work, not after."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as missing:
        raise MissingExtra("The study's page", "report") from missing


def study_page(results: dict[str, Any] | None, inference: dict[str, Any] | None = None) -> str:
    """A page of what has been measured: the trained classifiers, a model's projected attention, or both."""
    check_extra()
    figures = [] if results is None else _figures(results)
    return render_page(
        "sparse_study.html",
        title="Is sparse attention more interpretable?",
        styles=("text.css", "page.css", "sparse_study.css"),
        results=results,
        tables=[] if results is None else tables(results),
        figures=figures,
        contradictions=paper.CONTRADICTIONS,
        datasets=paper.DATASETS,
        inference=inference,
        inference_table=None if inference is None else inference_table(inference),
        inference_figure=None if inference is None else _inference_figure(inference),
    )


def _figures(results: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(title, what it shows, svg)"""
    shown = [
        (
            "Fig. 1: attention and gradient importance",
            "Kendall's tau-b of attention with gradient importance, text by text:"
            " boxes are quartiles, diamonds the paper's means.",
            _agreement_figure(results, "g(x)", "g(I)"),
        ),
        (
            "Fig. 2: entropy of input importance",
            "How spread out the importance of inputs is, for every projection measured,"
            " from dense to sparse (1 = all words matter alike).",
            _entropy_figure(results),
        ),
    ]
    if any(
        len({row["projection"] for row in sweep(results, name, encoder)}) > 2
        for name in results["datasets"]
        for encoder in paper.ENCODERS
    ):
        shown.append(
            (
                "Fig. 3: agreement with input importance as attention gets sparser",
                "Mean tau-b of attention with input importance for sparsegen's λ; 0 is"
                " sparsemax. Evenly spaced: λ goes from −∞ to 1.",
                _lambda_figure(results),
            )
        )
    shown.append(
        (
            "Fig. 4: attention and leave-one-out importance",
            "The same with leave-one-out importance.",
            _agreement_figure(results, "D(x)", "D(I)"),
        )
    )
    return shown


def _boxes(
    axes: Axes, values: Sequence[list[float]], places: Sequence[float], colour: str, *, width: float = 0.3
) -> None:
    line = {"color": INK, "linewidth": 0.8}
    drawn = axes.boxplot(
        [one or [float("nan")] for one in values],
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


def _agreement_figure(results: dict[str, Any], inputs: str, intermediates: str) -> str:
    names = list(results["datasets"])
    figure, axes = new_axes(1, len(names), width=max(9.0, 4.4 * len(names)), height=3.6)
    models = [(encoder, projection) for encoder in paper.ENCODERS for projection in PROJECTIONS]
    for one, dataset in zip(axes, names, strict=True):
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
            _boxes(one, values, places, colour)
            said = [paper.AGREEMENT[kind][encoder, projection, dataset][0] for encoder, projection in models]
            one.plot(
                places, said, linestyle="", marker=PAPER, markersize=5, color=INK, markerfacecolor="white", zorder=5
            )
        one.axhline(0, color=INK, linewidth=0.8, alpha=0.6)
        one.set_xticks(
            range(len(models)),
            [f"{paper.ENCODERS[encoder]}\n{projection}" for encoder, projection in models],
            fontsize=8.5,
        )
        one.set_title(paper.DATASETS[dataset])
        one.set_ylim(-1.05, 1.05)
    axes[0].set_ylabel("tau-b with attention")
    _legend(
        figure,
        [
            (f"{inputs}: inputs", ORANGE, "s"),
            (f"{intermediates}: intermediates", BLUE, "s"),
            ("the paper's mean", INK, PAPER),
        ],
    )
    return svg_of(figure)


def _order(projection: str) -> float:
    lam = lambda_of(projection)
    return float("-inf") if lam is None else lam


def _short(projection: str) -> str:
    return projection.replace("sparsegen:", "λ ").replace("-", "−")


def _entropy_figure(results: dict[str, Any]) -> str:
    names = list(results["datasets"])
    figure, axes = new_axes(len(names), 2, width=8.6, height=0.5 + 2.9 * len(names))
    for place, one in enumerate(axes):
        dataset, encoder = names[place // 2], list(paper.ENCODERS)[place % 2]
        rows = select(results, dataset=dataset, encoder=encoder, adversary=None)
        projections = sorted({row["projection"] for row in rows}, key=_order)
        for offset, kind, colour in ((-0.19, "g(x)", ORANGE), (0.19, "D(x)", GREEN)):
            values = [
                present(h for row in rows if row["projection"] == name for h in row["entropy"][kind])
                for name in projections
            ]
            _boxes(one, values, [i + offset for i in range(len(projections))], colour)
        one.set_xticks(
            range(len(projections)),
            [_short(name) for name in projections],
            fontsize=8.5,
            rotation=0 if len(projections) < 5 else 30,
        )
        one.set_title(f"{paper.DATASETS[dataset]} · {paper.ENCODERS[encoder]}")
        one.set_ylim(0, 1.03)
        if place % 2 == 0:
            one.set_ylabel("normalised entropy")
    _legend(figure, [("g(x): gradient", ORANGE, "s"), ("D(x): leave-one-out", GREEN, "s")])
    return svg_of(figure)


def _lambda_figure(results: dict[str, Any]) -> str:
    names = list(results["datasets"])
    figure, axes = new_axes(1, len(names), width=max(9.0, 4.2 * len(names)), height=3.6)
    lines = [("bilstm", "g(x)", BLUE, "o", "-"), ("bilstm", "D(x)", BLUE, "s", "--")]
    lines += [("transformer", "g(x)", PURPLE, "o", "-"), ("transformer", "D(x)", PURPLE, "s", "--")]
    reached: list[float] = []
    for one, dataset in zip(axes, names, strict=True):
        projections: list[str] = []
        for encoder, kind, colour, marker, style in lines:
            rows = sweep(results, dataset, encoder)
            projections = list(dict.fromkeys(row["projection"] for row in rows))
            means = [of_texts([row for row in rows if row["projection"] == name], "tau", kind) for name in projections]
            values = [mean.value if mean else float("nan") for mean in means]
            widths = [mean.interval or 0.0 if mean else 0.0 for mean in means]
            label = f"{paper.ENCODERS[encoder]}, {kind}"
            reached += values
            one.errorbar(
                range(len(projections)),
                values,
                yerr=widths if any(widths) else None,
                color=colour,
                marker=marker,
                linestyle=style,
                label=label,
            )
        one.set_xticks(range(len(projections)), [f"{lambda_of(name):g}".replace("-", "−") for name in projections])
        one.set_xlabel("λ (sparser to the right)")
        one.set_title(paper.DATASETS[dataset])
    # All data sets on one scale, which does not go as far as intervals of two seeds reach.
    axes[0].set_ylim(max(-1.0, min(reached) - 0.15), min(1.0, max(reached) + 0.15))
    axes[0].set_ylabel("mean tau-b with attention")
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False, labelcolor=INK
    )
    return svg_of(figure)


def _inference_figure(inference: dict[str, Any]) -> str:
    found = inference["projections"]
    figure, axes = new_axes(1, 2, width=8.6, height=3.6, share_y=False)
    places = range(len(found))

    def means(key: str) -> list[float]:
        return [fmean(values) if (values := present(one["measures"][key])) else float("nan") for one in found]

    axes[0].plot(places, [one["accuracy"] for one in found], color=INK, marker="D", label="accuracy")
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
    for one in axes:
        one.set_xticks(
            places, [label(_short(row["projection"])) for row in found], rotation=30, fontsize=8.5, parse_math=False
        )
        one.legend(frameon=False, fontsize=8.5, labelcolor=INK)
    return svg_of(figure)
