"""What the model did when an explanation was put to the test: plain numbers, without torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["supported", "weak", "not supported", "too short"]
# A regression model's value has no range to measure changes by. Where a probability has to move by a point (0.01), a
# value has to move by a tenth of its spread; where ten points are much, a whole spread is.
SPREAD_IN_PROBABILITY = 0.1
MOST = 3  # units that are hidden together
DRAWS = 20  # random choices beside them


def how_many(units: int) -> int:
    """How many units are hidden: three, but at most a third of the text, so that random choices are mostly others."""
    return max(1, min(MOST, units // 3))


def long_enough(units: int) -> bool:
    """Whether a text of so many units allows a verdict: it needs at least `DRAWS` other choices of as many units as are
    hidden, which there are from seven units on.
    """
    return units // 3 >= 1 and math.comb(units, how_many(units)) - 1 >= DRAWS


@dataclass(frozen=True)
class HiddenUnits:
    """Some units hidden together, beside random choices of as many. Where the model is a regression model, every
    probability here is its value.

    Attributes:
        units: their places among the explanation's tokens, words or sentences, the strongest first.
        texts: the same as they are written.
        hidden: the target's probability without them.
        kept: the target's probability with nothing but them; None for units that speak against the target.
        draws: how many random choices of as many units were hidden instead.
        mean: the mean probability over these.
        low: their 5th percentile.
        high: their 95th percentile.
        beyond: the share of the draws that moved the probability less in the direction that the scores predict.
        verdict: what that says of these units.
    """

    units: tuple[int, ...]
    texts: tuple[str, ...]
    hidden: float
    kept: float | None
    draws: int
    mean: float
    low: float
    high: float
    beyond: float
    verdict: Verdict


@dataclass(frozen=True)
class Check:
    """An explanation's own test: its strongest units hidden, against random units hidden.

    Attributes:
        verdict: supported, weak, not supported, or too short: that of the strongest units, which speak for the target.
        whole: the target's probability with the whole text.
        fill: how units were hidden: "delete", or the token that stood in their place.
        k: how many units were to be hidden; fewer where fewer have a score on that side.
        strongest: the units with the largest scores; None where no score is positive.
        against: of a signed method, the units with the most negative scores; None where there are none.
        rows: how many different questions were put to the model: at most 42.
        seconds: how long that took.
        spread: of a regression model, the deviation of its value over random maskings of the text; None for others.
    """

    verdict: Verdict
    whole: float
    fill: str
    k: int
    strongest: HiddenUnits | None = None
    against: HiddenUnits | None = None
    rows: int = 0
    seconds: float = 0.0
    spread: float | None = None

    @property
    def effect(self) -> float:
        """The farthest that hiding the named units moved the probability, in either direction."""
        return max(
            (abs(self.whole - hiding.hidden) for hiding in (self.strongest, self.against) if hiding is not None),
            default=0.0,
        )
