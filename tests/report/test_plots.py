"""What pictures are drawn from, by hand."""

from __future__ import annotations

from wherefrom.report.plots import not_beaten_by_cheaper


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
