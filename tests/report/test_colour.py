from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from wherefrom.report.colour import DARK, LIGHT, Colour, Shade, Side, blend, largest, shade


@pytest.mark.parametrize(
    ("score", "signed", "expected"),
    [
        (2.0, True, Shade("for", 1.0)),
        (1.0, True, Shade("for", 0.5)),
        (-0.5, True, Shade("against", 0.25)),
        (0.0, True, Shade("for", 0.0)),
        (3.0, True, Shade("for", 1.0)),  # never more than full
        (1.0, False, Shade("only", 0.5)),
        (math.nan, True, Shade("for", 0.0)),
        (-math.inf, True, Shade("against", 0.0)),
    ],
)
def test_shade_of_a_score(score: float, signed: bool, expected: Shade) -> None:
    assert shade(score, 2.0, signed=signed) == expected


def test_all_zero_scores_have_no_colour() -> None:
    assert largest([0.0, 0.0]) == 0.0
    assert shade(0.0, 0.0, signed=True) == Shade("for", 0.0)


def test_largest_counts_either_sign_and_only_finite_scores() -> None:
    assert largest([1.0, -3.0, math.inf, math.nan]) == 3.0
    assert largest([]) == 0.0


@pytest.mark.parametrize(
    ("shade", "palette", "expected"),
    [
        (Shade("for", 0.0), LIGHT, (255, 255, 255)),
        (Shade("for", 1.0), LIGHT, (52, 190, 140)),
        (Shade("against", 0.5), LIGHT, (250, 188, 176)),
        (Shade("only", 1.0), LIGHT, (104, 168, 246)),
        (Shade("for", 1.0), DARK, (10, 122, 86)),
        (Shade("against", 0.5), DARK, (103, 41, 34)),
    ],
)
def test_blend_is_known(shade: Shade, palette: Mapping[str, Colour], expected: Colour) -> None:
    assert blend(shade, palette) == expected


def luminance(colour: Colour) -> float:
    """Relative luminance, WCAG 2.2."""
    linear = [part / 255 / 12.92 if part / 255 <= 0.04045 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Colour, other: Colour) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("side", ["for", "against", "only"])
def test_text_is_legible_on_every_colour(palette: Mapping[str, Colour], side: Side) -> None:
    assert min(contrast(palette["ink"], blend(Shade(side, step / 50), palette)) for step in range(51)) >= 4.5


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["ground", "raised"])
def test_small_print_is_legible(palette: Mapping[str, Colour], ground: str) -> None:
    assert contrast(palette["soft"], palette[ground]) >= 4.5
