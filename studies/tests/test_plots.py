"""What pictures are drawn from, by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes

from wherefrom_studies import plots
from wherefrom_studies.plots import drop_curves, not_beaten_by_cheaper


def test_the_edge_joins_those_that_no_cheaper_method_beats() -> None:
    points = {
        "dear": (10.0, 0.9),
        "cheap": (1.0, 0.5),
        "wasteful": (5.0, 0.4),  # dearer than cheap, and worse
        "as good": (2.0, 0.5),  # dearer than cheap, and no better
        "as cheap": (1.0, 0.3),  # as dear as cheap, and worse
        "middle": (3.0, 0.7),
    }
    assert not_beaten_by_cheaper(points) == ["cheap", "middle", "dear"]
    assert not_beaten_by_cheaper({}) == []


BESIDE = plots._legend_beside


def test_no_two_lines_of_a_picture_look_alike_and_the_legend_hides_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Axes] = []

    def beside(axes: Axes) -> None:
        drawn.append(axes)
        BESIDE(axes)

    monkeypatch.setattr(plots, "_legend_beside", beside)
    curves = {f"method {number}": np.linspace(0, 1 + number, 11) for number in range(14)}
    drop_curves(curves, tmp_path / "curves.png", shares=np.linspace(0, 1, 11))
    (axes,) = drawn
    looks = {(line.get_color(), line.get_linestyle()) for line in axes.lines}
    assert len(looks) == 14
    legend = axes.get_legend()
    assert legend is not None
    assert legend.get_window_extent().x0 >= axes.get_window_extent().x1 - 1


def test_other_pictures_are_drawn(tmp_path: Path) -> None:
    line = np.array([0.0, 0.5, 1.0])
    plots.drop_curves({"alti": line}, tmp_path / "a.svg", shares=line)
    plots.boxes({"alti": [0.1, 0.5, float("nan")], "norms": [0.2, 0.3, 0.4]}, tmp_path / "b.svg", label="Jaccard-25%")
    plots.anisotropy({"bert": line}, {"bert": line / 2}, tmp_path / "c.svg")
    assert all((tmp_path / f"{name}.svg").read_text(encoding="utf-8").startswith("<?xml") for name in "abc")
