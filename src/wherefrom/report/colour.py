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


# Blue for and orange against, which red-green colour-blind readers can distinguish; at full strength also by their
# brightness, for print in grey. What speaks against has a second sign besides: an underline, stripes, or a minus. Light
# hues carry dark ink and dark hues light ink, so that text is legible (contrast 4.5 or more) at every strength. Tests
# compute all of that.
LIGHT: Mapping[str, Colour] = {
    "ground": (255, 255, 255),
    "raised": (246, 247, 249),
    "ink": (24, 27, 33),
    "soft": (92, 99, 112),
    "line": (222, 225, 231),
    "for": (78, 144, 244),
    "against": (255, 176, 72),
    "only": (176, 148, 236),
}
DARK: Mapping[str, Colour] = {
    "ground": (22, 24, 29),
    "raised": (30, 33, 40),
    "ink": (240, 242, 246),
    "soft": (160, 168, 182),
    "line": (54, 59, 69),
    "for": (32, 102, 206),
    "against": (126, 58, 0),
    "only": (104, 74, 176),
}


ALIKE = 0.5  # unsigned scores are similar where the smallest is more than this share of the largest


def largest(scores: Iterable[float]) -> float:
    """What is shown at full strength. Pass the shown scores only: a hidden [CLS] must not make everything else look
    pale.
    """
    return max((abs(score) for score in scores if math.isfinite(score)), default=0.0)


class ColourScale(NamedTuple):
    """How scores become colours."""

    full: float  # the score at the strong end
    start: float = 0.0  # the score at the end without colour
    loudness: float = 1.0  # the colour at the strong end: pale where the decision would hardly move


def scale_of(scores: Iterable[float], *, signed: bool, loudness: float = 1.0) -> ColourScale:
    """The scale of these scores. Where unsigned scores are similar, it does not start at zero: otherwise every
    word would have nearly the same strong colour.
    """
    sizes = [abs(score) for score in scores if math.isfinite(score)]
    full = max(sizes, default=0.0)
    start = min(sizes, default=0.0)
    alike = not signed and len(sizes) > 1 and start > ALIKE * full
    return ColourScale(full, start if alike else 0.0, loudness)


def coloured(score: float, scale: ColourScale, *, signed: bool) -> Shade:
    """The side a score is on, and how strong its colour is on this scale."""
    if scale.full <= scale.start:
        return shade(score, 0.0, signed=signed)
    strength = shade(abs(score) - scale.start, scale.full - scale.start, signed=False).strength
    return shade(score, 1.0, signed=signed)._replace(strength=strength * scale.loudness)


def shade(score: float, scale: float, *, signed: bool) -> Shade:
    """The side a score is on, and how strong it is beside the largest score, `scale`."""
    strength = min(1.0, abs(score) / scale) if scale and math.isfinite(score) else 0.0
    if not signed:
        return Shade("only", strength)
    return Shade("against" if score < 0 else "for", strength)


def blend(shade: Shade, palette: Mapping[str, Colour]) -> Colour:
    """The side's hue over the background with the shade's strength as opacity, as CSS computes rgb(hue / strength)."""
    ground, hue = palette["ground"], palette[shade.side]
    red, green, blue = (
        round(below + (above - below) * shade.strength) for below, above in zip(ground, hue, strict=True)
    )
    return red, green, blue
