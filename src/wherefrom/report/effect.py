"""How much the decision could move by what the scores say, how loud their colours may be, and what to warn of.

docs/reading.md justifies the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from wherefrom.catalogue import catalogue
from wherefrom.core.check import SPREAD_IN_PROBABILITY
from wherefrom.core.explanation import Explanation
from wherefrom.core.target import written_value

TINY = 0.01  # a point: what moves the probability by less is not worth a colour
LOUD = 0.10  # from ten points on, colours have their full strength
PALE = 0.12  # what is left of it where the scores are tiny: the order can still be seen
SATURATED = 0.99  # above this probability, or as far below one half, the logit may move and the probability hardly does
SINGLE_PRECISION = (
    1e-6  # of the largest score, or of a logit: smaller differences are rounding errors in single precision
)
LOGIT, DERIVATIVE, LOG_PROBABILITY = "logit", "derivative", "log-probability"  # what scores are changes of
GENERATING = ("causal_lm", "seq2seq")  # tasks whose targets are tokens that a model writes


class Effect(NamedTuple):
    """How far the target's probability moves, in parts of one; a regression model's value moves by so many spreads,
    each of which is counted as `SPREAD_IN_PROBABILITY`.
    """

    size: float
    measured: bool  # by hiding units; else computed from the scores

    @property
    def tiny(self) -> bool:
        return self.size < TINY

    @property
    def loudness(self) -> float:
        """The share of the full colour that the strongest score is shown with."""
        return max(PALE, min(1.0, self.size / LOUD))


def effect_of(explanation: Explanation, *, special: bool = False) -> Effect | None:
    """The effect of all scored units together; None where neither the scores' unit nor a check determines it.

    special: whether the scores of special tokens count.
    """
    total = sum(
        abs(score)
        for score, part in zip(explanation.scores, explanation.segment, strict=True)
        if (special or part >= 0) and math.isfinite(score)
    )
    total /= max(1, sum(part.step is not None for part in explanation.components))  # the probability is of one token
    if explanation.value is not None:
        return _effect_on_value(explanation, total)
    measured = None if explanation.check is None else Effect(explanation.check.effect, measured=True)
    if explanation.probability is None:  # scores of another tool
        return measured
    unit = score_unit(explanation)
    moved = shift_of_log if unit == LOG_PROBABILITY else shift
    computed = Effect(moved(explanation.probability, total), measured=False)
    if unit in (
        LOGIT,
        LOG_PROBABILITY,
    ):  # scores of opposite sign cancel in a unit, so that hiding it may move more than its score
        return max(computed, measured or computed, key=lambda effect: effect.size)
    return measured or (computed if unit == DERIVATIVE else None)


def score_unit(explanation: Explanation) -> str | None:
    """What the method's scores are changes of: the target's logit, or its derivative times what that is taken by; where
    words of a prompt are hidden from a language model, the log-probability of what it generates. A derivative says what
    a small change does, which is less than what hiding a word does; so a check precedes it.
    """
    row = catalogue("method").get(explanation.method)
    if row is None or not explanation.signed:  # an option that takes the sign away takes the unit, too
        return None
    if explanation.pooling not in (None, "sum"):  # means do not add up to a change
        return None
    unit: str | None = row.get("scale")
    hides = unit == LOGIT and row.get("reads") == "answers"
    return LOG_PROBABILITY if hides and explanation.task in GENERATING else unit


def unit_in_words(explanation: Explanation) -> str:
    """The unit of the scores, for views; nothing where they have none that means something."""
    unit = score_unit(explanation)
    if unit == LOGIT:
        return "in the model's value" if explanation.value is not None else "in logits"
    return "in log-probability (natural)" if unit == LOG_PROBABILITY else ""


def _effect_on_value(explanation: Explanation, total: float) -> Effect | None:
    """These scores are in the unit of the model's value; the spread that a check measured makes them comparable."""
    check = explanation.check
    if check is None or not check.spread:
        return None
    measured = score_unit(explanation) != LOGIT or check.effect > total
    return Effect(SPREAD_IN_PROBABILITY * (check.effect if measured else total) / check.spread, measured)


def shift(probability: float, logit: float) -> float:
    """The farthest that a probability moves when its logit moves so far, in either direction.

    For small steps that is p (1 - p) times the step. A sure model's probability moves farther than that when the step
    is large, so the step itself is taken. It is exact for a softmax whose other logits stay, and for a sigmoid.
    """
    if not 0 < probability < 1:
        return 0.0
    odds = math.log(probability / (1 - probability))
    return max(abs(_sigmoid(odds + step) - probability) for step in (logit, -logit))


def shift_of_log(probability: float, step: float) -> float:
    """The farthest that a probability moves when its logarithm moves so far, in either direction."""
    if not 0 < probability < 1:
        return 0.0
    grown = math.exp(min(0.0, math.log(probability) + step))
    return max(grown - probability, probability - probability * math.exp(-step))


def _sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))


def loudness_of(explanation: Explanation, *, special: bool = False) -> float:
    effect = effect_of(explanation, special=special)
    return 1.0 if effect is None else effect.loudness


def points(size: float) -> str:
    """A difference of probabilities in points: 0.0312 is 3.1 points."""
    if size < 0.0005:
        return "less than 0.1 points"
    return f"{100 * size:.1f} points"


def moved_by(effect: Effect, explanation: Explanation) -> str:
    """How far the probability moves, in points; or how far the value does, and how many spreads that is."""
    if explanation.value is None or explanation.check is None or explanation.check.spread is None:
        return points(effect.size)
    spreads = effect.size / SPREAD_IN_PROBABILITY
    return f"{written_value(spreads * explanation.check.spread)} ({spreads:.2f} of its spread)"


def warning(explanation: Explanation) -> str:
    """What a reader must know before looking at colours; nothing where there is nothing."""
    shown = [
        abs(score)
        for score, part in zip(explanation.scores, explanation.segment, strict=True)
        if part >= 0 and math.isfinite(score)
    ]
    if not any(shown):
        return ""  # the views say that every score is zero
    if explanation.gap_stays:
        return gap_warning(explanation)
    if _only_rounding(shown, signed=explanation.signed):
        return "Differences here are rounding: the scores differ by less than single precision can resolve."
    effect = effect_of(explanation)
    if effect is None or not effect.tiny:
        return ""
    what = "scores are" if explanation.signed else "effect is"
    regression = explanation.value is not None
    sure = not regression and max(explanation.output, 1 - explanation.output) >= SATURATED
    why = ": the model is saturated" if sure else ""
    what_moves, moved = "value" if regression else "probability", moved_by(effect, explanation)
    if effect.measured:
        because = f"Hiding the {explanation.level}s that the scores name moved the {what_moves} by {moved}"
    else:
        because = f"All of them together could move the {what_moves} by {moved}"
    return f"The {what} tiny{why}. {because}, so the colours stay pale."


def gap_warning(explanation: Explanation) -> str:
    """That the scores do not add up, in words; nothing where they do."""
    if not explanation.gap_stays or explanation.gap is None:
        return ""
    total = sum(map(abs, explanation.scores))
    return (
        f"Do not rely on these scores: they miss {abs(explanation.gap):.3g} of what they should add up to, and are"
        f" {total:.3g} together."
    )


def _only_rounding(shown: Sequence[float], *, signed: bool) -> bool:
    most = max(shown)
    if signed:
        return most < SINGLE_PRECISION
    return len(shown) > 1 and most - min(shown) <= SINGLE_PRECISION * most
