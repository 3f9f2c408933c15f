"""Early stopping: units are hidden a few at a time, and the search ends when no other combination can win any more, or
is likely to.

A metric such as RFT adds up what every unit brings by itself: with e_i, how far the probability falls when unit i is
hidden, a combination scores sum_i c_i(e_i) / S, and c_i is known before anything is asked. So two combinations differ
by what the units that were asked say, which is known, and by what the others may still say:

    certain: e_i lies between p - 1 and p, because a probability lies between 0 and 1. A combination is dropped when the
        best one stays ahead of it whatever the units that are left do. The same winner as in the whole search.
    likely: e_i is taken for a random number of mean zero, as large as the effects of the last units that were asked. A
        combination is dropped when it is behind by more than `WIDTH` standard deviations of what may still come.

Those units are asked first about which the combinations that are left disagree most: they are the ones that can decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from wherefrom.core.arrays import Flags, Indices, Numbers

Stop = Literal["never", "certain", "likely"]

STEPS = 8  # so many times the search looks whether it may end, at most
PASS = 256  # tokens that a forward pass should have at least: smaller ones cost nearly as much
WIDTH = 2.0  # standard deviations; how it was chosen is said in docs/appendix/studies/optimus.md
SUM_TOLERANCE = 1e-12  # sums in another order may differ by this much, so candidates this close stay

# The effects of hiding each of these units, by the number it has among all that can be asked. (target, unit)
AskEffects = Callable[[Indices], Numbers]


@dataclass(frozen=True, eq=False)
class Slopes:
    """What a unit adds to each combination's score for every unit of effect. (combination, unit) each"""

    falling: Numbers  # where the probability falls when the unit is hidden
    rising: Numbers  # where it rises

    def added(self, effects: Numbers, units: Indices | Flags) -> Numbers:
        """What some units add to every combination, the mean over targets. (target, unit) -> (combination,)"""
        falls, rises = effects.clip(min=0).mean(0), (-effects).clip(min=0).mean(0)  # (unit,)
        # Row by row, not as a matrix product: combinations with equal rows must get equal sums.
        total: Numbers = (self.falling[:, units] * falls + self.rising[:, units] * rises).sum(-1)
        return total

    def least_lead(self, best: int, whole: Sequence[float], units: Flags) -> Numbers:
        """The least that these units can add to the best combination beyond each other one, whatever they do.
        (combination,)

        whole: the probability of each target with the whole text. What a unit adds is linear on either side of no
            effect, so its minimum is at one of the two ends, or zero.
        """
        falls, rises = (side[best, units] - side[:, units] for side in (self.falling, self.rising))
        by_target = [np.minimum(np.minimum(falls * p, rises * (1 - p)), 0).sum(-1) for p in whole]
        leads: Numbers = np.mean(by_target, 0)
        return leads

    def deviation(self, best: int, units: Flags) -> Numbers:
        """The standard deviation of what these units add to the best combination beyond each other one, for effects of
        size one. (combination,)
        """
        lead = self.falling[best, units] - self.falling[:, units]
        deviations: Numbers = np.sqrt(np.square(lead).sum(-1))
        return deviations


@dataclass(frozen=True, eq=False)
class EndedSearch:
    """Where the search ended: what the units that were asked add to every combination that is left, NaN for the others;
    and which units these are.
    """

    totals: Numbers  # (combination,)
    queried: Flags  # (unit,)


def ask_until_clear(
    slopes: Slopes,
    ask: AskEffects,
    *,
    stop: Stop,
    whole: Sequence[float],
    step: int,
    width: float = WIDTH,
) -> EndedSearch:
    """Ask units until one combination is left, or all were asked.

    whole: the probability of each target with the whole text. step: how many units are asked at a time.
    """
    combinations, units = slopes.falling.shape
    left, queried = np.ones(combinations, dtype=np.bool_), np.zeros(units, dtype=np.bool_)
    totals: Numbers = np.zeros(combinations)
    while not queried.all():
        disagreement = np.where(queried, -1.0, slopes.falling[left].std(0))
        following = np.argsort(-disagreement, kind="stable")[: min(step, int((~queried).sum()))]
        effects = ask(following)
        totals, queried[following] = totals + slopes.added(effects, following), True
        best = int(np.where(left, totals, -np.inf).argmax())
        lead = totals[best] - totals
        if stop == "certain":
            left &= lead + slopes.least_lead(best, whole, ~queried) <= SUM_TOLERANCE
        elif stop == "likely":
            size = float(np.sqrt(np.square(effects.mean(0)).mean()))
            left &= lead <= width * size * slopes.deviation(best, ~queried) + SUM_TOLERANCE
        if _alike(slopes, left):
            break
    return EndedSearch(np.where(left, totals, np.nan), queried)


def _alike(slopes: Slopes, left: Flags) -> bool:
    """Whether all that are left rank the units alike, so that no answer can separate them."""
    return all(bool((side[left] == side[left][0]).all()) for side in (slopes.falling, slopes.rising))


def step_of(units: int, tokens: int) -> int:
    """How many units to ask at a time, each of them a row of so many tokens."""
    return max(-(-units // STEPS), -(-PASS // tokens))
