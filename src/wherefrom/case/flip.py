"""The smallest set of units whose hiding changes what the model decides.

Up to `EXACT` units every set is tried, the small ones first. With more, units are hidden in the order of an
explanation's scores until the decision changes; then those that are not needed are put back. Every single unit is tried
in any case, so that what hiding each alone does is there to go by.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from wherefrom.case.asking import Asker
from wherefrom.case.case import Case
from wherefrom.case.door import is_output, output_without, plain_target, subject_of
from wherefrom.case.explain import attributions, cases_of, unit_scores
from wherefrom.case.passes import Passes
from wherefrom.core.encoding import Encoding
from wherefrom.core.flip import Flip, HiddenUnit
from wherefrom.core.masks import masks_without
from wherefrom.core.target import Target, joint_probability
from wherefrom.core.units import Level
from wherefrom.errors import BadOption, EmptyText
from wherefrom.model.hiding import fill_in_place, fill_token
from wherefrom.model.tasks import TargetSpec
from wherefrom.model.text_model import TextModel
from wherefrom.registry import Configured, Method, methods_in

EXACT = 12  # units up to which every set is tried: at most 4094 questions
CHUNK = 512  # sets queried at once: all answers of a language model, a number for each token, would fill the memory
SMALL = 4096  # numbers in one answer, up to which all answers are kept and no query runs twice
FIRST_PREFIXES = 8  # sizes that are tried at first, then twice as many, and so on

UnitSet = tuple[int, ...]  # places of units among those that can be hidden, in rising order


class FlipOutcome(NamedTuple):
    """What the model decides without a set of units."""

    flipped: bool
    becomes: str
    becomes_probability: float
    remaining: float  # the probability of the first decision


@dataclass(frozen=True, eq=False)
class Decision:
    """What was decided with the whole text, and when another decision differs from it."""

    model: TextModel
    encoding: Encoding
    targets: Sequence[Target]  # several where the decision has components, as an answer has
    logits: Tensor
    to: Target | None

    @property
    def label(self) -> str:
        return self.targets[0].label

    def probability(self, logits: Tensor) -> float:
        return joint_probability(self.targets, logits[None]).item()

    def outcome(self, logits: Tensor) -> FlipOutcome:
        """What is decided by these logits."""
        model, first, remaining = self.model, self.targets[0], self.probability(logits)
        goal = self.to or first
        if goal.independent:  # each label is decided on its own: likelier than not, or not
            chance = goal.probability(logits[None]).item()
            before = goal.probability(self.logits[None]).item()
            flipped = (chance >= 0.5) != (before >= 0.5)
            name, chance = (goal.label, chance) if chance >= 0.5 else (f"not {goal.label}", 1 - chance)
            return FlipOutcome(flipped, name, chance, remaining)
        now = model.task.decided(model, logits, self.encoding, self.targets)
        flipped = now[0].label == self.to.label if self.to else now[0].label != first.label
        return FlipOutcome(flipped, now[0].label, joint_probability(now, logits[None]).item(), remaining)


class FlipSearch:
    """Asks about sets of units, each once."""

    def __init__(self, decision: Decision, units: Sequence[Sequence[int]], fill: str, asker: Asker) -> None:
        self.decision, self.units, self.fill, self.asker = decision, units, fill, asker
        encoding = decision.encoding
        self.parts = [encoding.segment[group[0]] for group in units]  # which text each unit is in
        self.rows = 0
        self._known: dict[UnitSet, FlipOutcome] = {}

    def leaves_text(self, hidden: UnitSet) -> bool:
        """Whether something is left of every text: the decision on an empty one is no counterfactual."""
        left = {part for place, part in enumerate(self.parts) if place not in set(hidden)}
        return left == set(self.parts)

    def ask(self, sets: Iterable[UnitSet]) -> dict[UnitSet, FlipOutcome]:
        """What is decided without each of these sets."""
        hidden_sets = [units for units in dict.fromkeys(sets) if self.leaves_text(units)]
        new = [units for units in hidden_sets if units not in self._known]
        for start in range(0, len(new), CHUNK):
            chunk = new[start : start + CHUNK]
            keep = masks_without(self.units, chunk, len(self.decision.encoding))
            kept = self.decision.logits.numel() <= SMALL
            asker = self.asker if kept else Asker(self.decision.model)
            before = asker.rows
            pending = asker.note(self.decision.encoding, keep, self.fill)
            asker.run()
            self.rows += asker.rows - before
            for hidden, logits in zip(chunk, pending.logits, strict=True):
                self._known[hidden] = self.decision.outcome(logits)
        return {units: self._known[units] for units in hidden_sets}

    def best(self, sets: Iterable[UnitSet]) -> UnitSet | None:
        """Of the sets that change the decision, the one that leaves least of the first; None where none does."""
        flips = [(outcome.remaining, hidden) for hidden, outcome in self.ask(sets).items() if outcome.flipped]
        return min(flips)[1] if flips else None

    def outcome(self, hidden: UnitSet) -> FlipOutcome:
        return self.ask([hidden])[hidden]


def smallest_of_all(search: FlipSearch) -> UnitSet | None:
    """Every set is tried, the small ones first."""
    places = range(len(search.units))
    sizes = (search.best(combinations(places, size)) for size in range(1, len(search.units)))
    return next((units for units in sizes if units is not None), None)


def smallest_by_scores(search: FlipSearch, scores: Sequence[float] | None) -> UnitSet | None:
    """A single unit, if one changes the decision. Else units are hidden by falling score until it changes, then each
    that is not needed is put back.

    scores: of the units; unless given, what the probability loses without each.
    """
    places = [(place,) for place in range(len(search.units))]
    if (alone := search.best(places)) is not None:
        return alone
    if scores is None:
        outcomes = search.ask(places)
        scores = [-outcomes[unit].remaining if unit in outcomes else 0.0 for unit in places]
    order = sorted(range(len(search.units)), key=lambda place: -scores[place])
    sizes, step = iter(range(2, len(order))), FIRST_PREFIXES
    flipping = None
    while flipping is None and (prefixes := [tuple(sorted(order[:size])) for size in islice(sizes, step)]):
        outcomes = search.ask(prefixes)
        flipping = next((units for units in prefixes if units in outcomes and outcomes[units].flipped), None)
        step *= 2
    return None if flipping is None else _pruned(search, flipping)


def _pruned(search: FlipSearch, hidden: UnitSet) -> UnitSet:
    """The set without what it does not need: the decision comes back with any one of the rest."""
    while len(hidden) > 1:
        smaller = search.best(tuple(unit for unit in hidden if unit != place) for place in hidden)
        if smaller is None:
            return hidden
        hidden = smaller
    return hidden


def flip(
    model: TextModel,
    encoding: Encoding,
    to: TargetSpec,
    choice: Configured[Method] | None,
    level: Level,
    fill: str,
) -> Flip:
    """The smallest set of units whose hiding changes the decision; for a whole output, also what is written then."""
    if not is_output(model, None):
        return find_flip(model, encoding, to, choice, level, fill)
    if to is not None:
        raise BadOption(
            "What a whole output should become instead cannot be asked, because outputs are too many: leave"
            " `to` (--to) out, and the smallest change to any other output is looked for."
        )
    subject = subject_of(model, encoding, None)
    result = find_flip(subject.model, subject.encoding, None, choice, level, fill)
    if result.becomes is None:
        return result
    hidden = [(unit.start, unit.end) for unit in result.hidden]
    output, chance = output_without(model, encoding, hidden, result.fill)
    return replace(result, becomes=output, becomes_probability=chance)


def find_flip(
    model: TextModel,
    encoding: Encoding,
    to: TargetSpec,
    choice: Configured[Method] | None,
    level: Level,
    fill: str,
) -> Flip:
    """The smallest set of units whose hiding changes the decision, as far as the search finds.

    choice: the method whose scores are followed; None for the effect of hiding each unit alone.
    """
    started = time.perf_counter()
    if model.regression:
        raise BadOption("A regression model predicts a value and decides for nothing, so no decision can change.")
    fill = fill_in_place(model, fill)
    if fill != "delete":
        fill_token(model, fill)  # raises where the tokenizer has no such token
    to = plain_target(to)
    if isinstance(to, tuple):
        raise BadOption("A decision can be asked to become one label, token or answer, not one rather than another.")
    model.task.fixed_target(model, to)  # a label that the model does not have is an error before anything runs
    units = [group for group in encoding.members(level) if encoding.segment[group[0]] >= 0]
    if len(units) < 2:
        raise EmptyText(f"The text is one {level}: without it there is none, so that nothing can be hidden.")
    by_scores = len(units) > EXACT
    passes = Passes(model, [encoding])
    if by_scores and choice is not None:
        passes.announce(choice.row.needs(choice.options))
    cases = cases_of(passes, [0], [None], level)[0]
    aims = [] if to is None else model.task.targets(model, to, cases[0].logits, encoding)
    goal = aims[0] if aims else None
    places = [{target.position for target in targets} for targets in (aims, [case.target for case in cases])]
    if aims and model.task.answers_by_position and places[0] != places[1]:
        raise BadOption(
            f"{aims[0].label!r} is about other words than the decision {cases[0].target.label!r}, the surest that is"
            " made: name what these words should become."
        )
    decision = Decision(model, encoding, [case.target for case in cases], cases[0].logits, goal)
    if model.task.decided(model, decision.logits, encoding, decision.targets)[0].label != decision.label:
        raise BadOption(f"The model does not decide for {decision.label!r} here, nor for anything that could change.")
    if goal is not None and not goal.independent and goal.label == decision.label:
        raise BadOption(f"The model decides {decision.label!r} already: choose what it should become instead.")
    search = FlipSearch(decision, units, fill, passes.asker)
    rows = passes.count.forwards
    if by_scores:
        scores = None if choice is None else _scores(cases, choice, encoding.members(level), units)
        rows = passes.count.forwards + passes.asker.rows
        hidden = smallest_by_scores(search, scores)
        certain = hidden is not None and len(hidden) <= 2  # every single unit was queried
    else:
        hidden, certain = smallest_of_all(search), True
    rows += search.rows
    method: str = "" if not by_scores else methods_in("flip")[0] if choice is None else choice.row.name
    options: Mapping[str, Any] = {} if not by_scores else {"fill": fill} if choice is None else choice.options
    return _result(decision, search, hidden, level, certain, method, options, rows, started)


def _scores(
    cases: Sequence[Case],
    choice: Configured[Method],
    members: Sequence[Sequence[int]],
    units: Sequence[Sequence[int]],
) -> list[float]:
    """A method's scores of the units that can be hidden."""
    total = np.zeros(len(members))
    for case, attribution in zip(cases, attributions(cases, choice.row, choice.options), strict=True):
        total += unit_scores(case, choice.row, attribution).numpy()
    return [float(score) for score, group in zip(total, members, strict=True) if group in units]


def _result(
    decision: Decision,
    search: FlipSearch,
    hidden: UnitSet | None,
    level: Level,
    certain: bool,
    method: str,
    options: Mapping[str, Any],
    rows: int,
    started: float,
) -> Flip:
    encoding = decision.encoding
    outcome = None if hidden is None else search.outcome(hidden)
    return Flip(
        text=encoding.text,
        pair=encoding.pair,
        decision=decision.label,
        probability=decision.probability(decision.logits),
        hidden=tuple(hidden_unit(encoding, search.units[place]) for place in hidden or ()),
        becomes=outcome and outcome.becomes,
        becomes_probability=outcome and outcome.becomes_probability,
        remaining=outcome and outcome.remaining,
        smallest=certain,
        level=level,
        units=len(search.units),
        fill=search.fill,
        method=method,
        params=dict(options) if method else {},
        rows=rows,
        seconds=time.perf_counter() - started,
        model=decision.model.name,
    )


def hidden_unit(encoding: Encoding, group: Sequence[int]) -> HiddenUnit:
    """The unit of a group of tokens, without the blanks around it."""
    start, end = min(encoding.offsets[i][0] for i in group), max(encoding.offsets[i][1] for i in group)
    segment = encoding.segment[group[0]]
    written = (encoding.text, encoding.pair or "")[segment][start:end]
    blank = len(written) - len(written.lstrip())
    return HiddenUnit(written.strip(), start + blank, start + len(written.rstrip()), segment)
