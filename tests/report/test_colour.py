from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from wherefrom.report.colour import (
    DARK,
    LIGHT,
    Colour,
    ColourScale,
    Shade,
    Side,
    blend,
    coloured,
    largest,
    scale_of,
    shade,
)
from wherefrom.report.terminal import MIDDLE


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
        (Shade("for", 1.0), LIGHT, (78, 144, 244)),
        (Shade("against", 0.5), LIGHT, (255, 216, 164)),
        (Shade("only", 1.0), LIGHT, (176, 148, 236)),
        (Shade("for", 1.0), DARK, (32, 102, 206)),
        (Shade("against", 0.5), DARK, (74, 41, 14)),
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


# How eyes without green cones (deuteranopia) and without red cones (protanopia) see linear red, green and blue: the
# matrices of Machado, Oliveira and Fernandes 2009, at full severity.
CONES = {
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
}


def linear(colour: Colour) -> list[float]:
    return [part / 255 / 12.92 if part / 255 <= 0.04045 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in colour]


def lab(rgb: list[float]) -> list[float]:
    """CIE L*a*b* of linear red, green and blue, D65."""
    red, green, blue = rgb
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)]


def seen(colour: Colour, eyes: str) -> list[float]:
    rgb = linear(colour)
    return lab([min(1.0, max(0.0, sum(a * b for a, b in zip(row, rgb, strict=True)))) for row in CONES[eyes]])


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("eyes", list(CONES))
@pytest.mark.parametrize("strength", [0.3, 0.5, 1.0])
def test_for_and_against_differ_for_colour_blind_eyes(
    palette: Mapping[str, Colour], eyes: str, strength: float
) -> None:
    """The distance in CIE L*a*b*, of which 2.3 can just be noticed. Measured: 33.6 or more; the green and red that were
    here before came to 4.0.
    """
    ours = math.dist(*(seen(blend(Shade(side, strength), palette), eyes) for side in ("for", "against")))
    assert ours >= 30


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_for_and_against_differ_in_grey(palette: Mapping[str, Colour]) -> None:
    """At full strength by brightness alone; at any strength by the underline that the views give to `against`."""
    assert contrast(palette["for"], palette["against"]) >= 1.5


@pytest.mark.parametrize("side", ["for", "against", "only"])
def test_bars_are_visible_on_white_and_on_black(side: str) -> None:
    for ground in ((255, 255, 255), (0, 0, 0)):
        assert contrast(MIDDLE[side], ground) >= 3


def test_the_scale_starts_at_zero_unless_all_are_alike() -> None:
    assert scale_of([1.0, 2.0], signed=False) == ColourScale(2.0)
    alike = scale_of([0.9, 1.0, 0.95], signed=False)
    assert alike == ColourScale(1.0, 0.9)
    assert coloured(0.9, alike, signed=False) == Shade("only", 0.0)
    assert coloured(0.95, alike, signed=False).strength == pytest.approx(0.5)
    assert coloured(1.0, alike, signed=False).strength == pytest.approx(1.0)
    assert scale_of([0.9, -1.0], signed=True) == ColourScale(1.0)
    assert coloured(1.0, scale_of([1.0, 1.0], signed=False), signed=False).strength == 0.0
    assert coloured(1.0, scale_of([1.0], signed=False), signed=False).strength == 1.0


def test_a_quiet_scale_keeps_the_sides_and_the_order() -> None:
    quiet = ColourScale(2.0, loudness=0.12)
    weak, strong = coloured(-1.0, quiet, signed=True), coloured(2.0, quiet, signed=True)
    assert (weak.side, strong.side) == ("against", "for")
    assert (weak.strength, strong.strength) == pytest.approx((0.06, 0.12))
