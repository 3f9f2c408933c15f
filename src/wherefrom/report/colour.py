"""From scores to colours: which side a score is on, how strong it is, and its colour on a light or dark background."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

Colour = tuple[int, int, int]
Side = Literal["for", "against", "only"]  # "only": the method has no sign, so there is nothing to be against


class Shade(NamedTuple):
    """The colour of a score: its side, and its strength."""

    side: Side
    strength: float  # 0 shows no colour, 1 the full one


# The green leans to blue and the red to orange, which keeps them apart for most colour-blind eyes. Light hues carry
# dark ink and dark hues light ink, so that text is legible (contrast 4.5 or more) at every strength; a test holds them
# to it.
LIGHT: Mapping[str, Colour] = {
    "ground": (255, 255, 255),
    "raised": (246, 247, 249),
    "ink": (24, 27, 33),
    "soft": (92, 99, 112),
    "line": (222, 225, 231),
    "for": (52, 190, 140),
    "against": (246, 122, 98),
    "only": (104, 168, 246),
}
DARK: Mapping[str, Colour] = {
    "ground": (22, 24, 29),
    "raised": (30, 33, 40),
    "ink": (240, 242, 246),
    "soft": (160, 168, 182),
    "line": (54, 59, 69),
    "for": (10, 122, 86),
    "against": (184, 58, 38),
    "only": (34, 100, 190),
}


def largest(scores: Iterable[float]) -> float:
    """What is shown at full strength. Pass the shown scores only: a hidden [CLS] must not make everything else look
    pale.
    """
    return max((abs(score) for score in scores if math.isfinite(score)), default=0.0)


def shade(score: float, scale: float, *, signed: bool) -> Shade:
    """The side a score is on, and how strong its colour is beside the largest score, `scale`."""
    strength = min(1.0, abs(score) / scale) if scale and math.isfinite(score) else 0.0
    if not signed:
        return Shade("only", strength)
    return Shade("against" if score < 0 else "for", strength)


def blend(shade: Shade, palette: Mapping[str, Colour]) -> Colour:
    """The side's hue laid over the ground, as thickly as the shade is strong: what CSS makes of rgb(hue / strength)."""
    ground, hue = palette["ground"], palette[shade.side]
    red, green, blue = (
        round(below + (above - below) * shade.strength) for below, above in zip(ground, hue, strict=True)
    )
    return red, green, blue
