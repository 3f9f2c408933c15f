"""The check of an explanation: hide its strongest units, and as many at random, and compare the model's output.

Units are hidden as the erasure metrics hide them (`comprehensiveness`, `sufficiency`, `aopc`): they are deleted. So no
question is asked twice where those metrics ask the same of the same asker. The random choices depend on the text alone,
so that all explanations of a text share them.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np
from torch import Tensor

from wherefrom.case.asking import Asker, PendingAnswers
from wherefrom.case.case import Case
from wherefrom.case.spread import PendingSpread, note_spread
from wherefrom.core.arrays import Flags, Numbers
from wherefrom.core.check import DRAWS, SPREAD_IN_PROBABILITY, Check, HiddenUnits, Verdict, how_many, long_enough
from wherefrom.core.encoding import Encoding
from wherefrom.core.explanation import Explanation
from wherefrom.core.masks import masks_without
from wherefrom.core.target import Target
from wherefrom.model.hiding import SAMPLE
from wherefrom.model.text_model import TextModel

FILL = "delete"
# Beside two sizes of random choices, three questions are asked: without the strongest, with only them, without those
# against. Together that is at most 42 rows.
DRAWS_OF_SECOND_SIZE = 19
# What share of the random choices must have moved the probability less. If the scores were meaningless, their choice
# would be one more random choice, with every rank among 21 (or 20) equally likely: it is first with a chance of at most
# 5%, and among the first five (or four) with a chance of 24% (or 20%).
SUPPORTED = 1.0
WEAK = 0.8
# The probability must move by this much, and so much farther than the random choices' mean: a point, or a tenth of a
# probability that is below ten points. For the verdict "weak", a tenth of that.
LEAST = 0.01
LEAST_SHARE = 0.1
PROBABILITY_TOLERANCE = 1e-9  # probabilities nearer than this are equal
LISTED = 2000  # up to so many choices are listed and shuffled; among more, choices are drawn until enough differ

Choice = tuple[int, ...]  # places of units, in rising order


@dataclass(frozen=True, eq=False)
class ToCheck:
    """One explanation to check, with what its queries need; it keeps no forward pass in memory."""

    explanation: Explanation
    encoding: Encoding
    targets: Sequence[Target]  # several where the target has components; their probabilities are multiplied
    logits: Tensor  # with the whole text

    @classmethod
    def of(cls, explanation: Explanation, cases: Sequence[Case]) -> ToCheck:
        case = cases[0]
        return cls(explanation, case.encoding, [component.target for component in cases], case.logits.detach().clone())


@dataclass(frozen=True)
class Plan:
    """Which units of an explanation are hidden, and which random choices beside them."""

    k: int
    strongest: Choice  # by strength, the strongest first
    against: Choice
    draws: tuple[Choice, ...]  # for the strongest
    draws_against: tuple[Choice, ...]
    enough: bool  # False where the text is too short for a verdict


def check_explanations(jobs: Sequence[ToCheck], asker: Asker) -> list[Check]:
    """The check of every explanation. All queries run together, each one once."""
    started = time.perf_counter()
    for job in jobs:
        asker.know(job.encoding, job.logits)
    plans = [plan_of(job.explanation) for job in jobs]
    queries = [
        (_note(job, plan, asker), note_spread(job.encoding, asker)) for job, plan in zip(jobs, plans, strict=True)
    ]
    asker.run()
    seconds = (time.perf_counter() - started) / max(1, len(jobs))
    return [
        _check(job, plan, *pending, seconds, fill_of_checks(asker.model))
        for job, plan, pending in zip(jobs, plans, queries, strict=True)
    ]


def plan_of(explanation: Explanation) -> Plan:
    """What is hidden. Equal scores keep the order of the text, as in the erasure metrics."""
    real = [place for place, part in enumerate(explanation.segment) if part >= 0]
    scores, k = explanation.scores, how_many(len(real))
    falling = sorted(real, key=lambda place: -scores[place])
    strongest = tuple(place for place in falling[:k] if scores[place] > 0)
    rising = sorted(real, key=lambda place: scores[place])
    against = tuple(place for place in rising[:k] if scores[place] < 0) if explanation.signed else ()
    seed = _seed(explanation)
    same = not strongest or not against or len(strongest) == len(against)
    return Plan(
        k,
        strongest,
        against,
        _draws(real, strongest, seed, DRAWS),
        _draws(real, against, seed, DRAWS if same else DRAWS_OF_SECOND_SIZE),
        long_enough(len(real)),
    )


def _seed(explanation: Explanation) -> str:
    identity = "\0".join((explanation.text, explanation.pair or "", explanation.level))
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()


def _draws(real: Sequence[int], strongest: Choice, seed: str, count: int) -> tuple[Choice, ...]:
    """Distinct random choices of as many units, other than the explanation's own."""
    if not strongest or len(real) <= len(strongest):
        return ()
    mine = tuple(sorted(strongest))
    stream = _choices(real, len(strongest), random.Random(f"{seed}:{len(strongest)}"))
    return tuple(islice((choice for choice in stream if choice != mine), count))


def _choices(real: Sequence[int], size: int, chance: random.Random) -> Iterator[Choice]:
    """Every choice once, in random order; the same order for all explanations of a text."""
    if math.comb(len(real), size) <= LISTED:
        listed = list(combinations(real, size))
        chance.shuffle(listed)
        yield from listed
        return
    seen: set[Choice] = set()
    while True:
        choice = tuple(sorted(chance.sample(list(real), size)))
        if choice not in seen:
            seen.add(choice)
            yield choice


def _note(job: ToCheck, plan: Plan, asker: Asker) -> PendingAnswers | None:
    """The questions in this order: without the strongest, only them, without those against, the draws."""
    explanation = job.explanation
    members = job.encoding.members(explanation.level)
    rows: list[Flags] = []
    if plan.strongest:
        without = masks_without(members, [plan.strongest, *plan.draws], len(job.encoding))
        only = ~without[:1]
        rows += [without[:1], only, without[1:]]
    if plan.against:
        rows.append(masks_without(members, [plan.against, *plan.draws_against], len(job.encoding)))
    return asker.note(job.encoding, np.concatenate(rows), fill_of_checks(asker.model)) if rows else None


def fill_of_checks(model: TextModel) -> str:
    """Units are deleted, unless the user named a masked language model to put others in their place."""
    return FILL if model.sampled_words is None else SAMPLE


def _check(
    job: ToCheck,
    plan: Plan,
    pending: PendingAnswers | None,
    pending_spread: PendingSpread | None,
    seconds: float,
    fill: str,
) -> Check:
    explanation, whole = job.explanation, job.explanation.output
    spread = None if pending_spread is None else pending_spread.of(job.targets)
    answers = np.zeros(0) if pending is None else pending.probability(job.targets)
    strongest = against = None
    if plan.strongest:
        split = 2 + len(plan.draws)
        kept, rest = float(answers[1]), np.concatenate([answers[:1], answers[2:split]])
        strongest = _hiding(explanation, plan.strongest, rest, kept, whole, enough=plan.enough, spread=spread)
        answers = answers[split:]
    if plan.against:
        against = _hiding(explanation, plan.against, answers, None, whole, enough=plan.enough, spread=spread, sign=-1)
    side = strongest or against
    verdict: Verdict = side.verdict if side else "not supported" if plan.enough else "too short"
    rows = 0 if pending is None else len(set(pending.places.tolist()))
    return Check(verdict, whole, fill, plan.k, strongest, against, rows, seconds, spread)


def _hiding(
    explanation: Explanation,
    units: Choice,
    answers: Numbers,
    kept: float | None,
    whole: float,
    *,
    enough: bool,
    spread: float | None = None,
    sign: int = 1,
) -> HiddenUnits:
    """answers: without the units, then without each random choice. spread: of a regression model's value. sign: 1 where
    the probability should fall, -1 where it should rise.
    """
    hidden, draws = float(answers[0]), answers[1:]
    fell, fallen = sign * (whole - hidden), sign * (whole - draws)
    beyond = float((fallen < fell - PROBABILITY_TOLERANCE).mean()) if len(draws) else 0.0
    mean = float(draws.mean()) if len(draws) else whole
    low, high = (float(edge) for edge in np.percentile(draws, [5, 95])) if len(draws) else (whole, whole)
    margin = min(fell, fell - sign * (whole - mean))  # it must move, and farther than by chance
    enough = enough and len(draws) >= DRAWS_OF_SECOND_SIZE
    verdict: Verdict = verdict_of(beyond, margin, whole, spread) if enough else "too short"
    texts = {0: explanation.text, 1: explanation.pair or ""}
    written = tuple(
        texts[explanation.segment[place]][slice(*explanation.offsets[place])].strip() or explanation.tokens[place]
        for place in units
    )
    return HiddenUnits(units, written, hidden, kept, len(draws), mean, low, high, beyond, verdict)


def verdict_of(beyond: float, margin: float, whole: float, spread: float | None = None) -> Verdict:
    """The verdict on units whose effect exceeds that of this share of the random choices.

    margin: how far hiding them moved the probability, from the whole text's and from the mean of the random choices':
        the smaller of the two.
    spread: of a regression model's value, which has to move by a tenth of it.
    """
    least = min(LEAST, LEAST_SHARE * whole)
    if spread is not None:
        least = LEAST
        margin = SPREAD_IN_PROBABILITY * margin / spread if spread > 0 else 0.0
    if beyond >= SUPPORTED - PROBABILITY_TOLERANCE and margin >= least:
        return "supported"
    if beyond >= WEAK - PROBABILITY_TOLERANCE and margin >= least / 10:
        return "weak"
    return "not supported"
