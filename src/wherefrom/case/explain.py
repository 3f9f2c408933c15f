"""From what a method gives to an explanation: the target's parts added up, tokens pooled into words or sentences,
passes counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, TypeVar

import torch
from torch import Tensor

from wherefrom.case.case import Attribution, Case, together
from wherefrom.case.passes import Group
from wherefrom.core.explanation import Explanation
from wherefrom.core.target import Boundary, Target
from wherefrom.core.units import POOL
from wherefrom.errors import WherefromError
from wherefrom.model.tasks import Asked
from wherefrom.registry import Method

Said = TypeVar("Said")
Aims = dict[int, list[Case]]  # the cases of each text, by its place: one for every part of what is explained


def aimed(cases: dict[int, Case], targets: Mapping[int, Asked], *, recorded: bool) -> Aims:
    """The cases themselves; where what is explained depends on the text, as an answer's start and end do, one for every
    part of it.

    recorded: whether a pass with everything recorded will be needed, which then also says what is predicted.
    """
    group = next(iter(cases.values())).group
    task = group.model.task
    if not task.depends_on_text:
        return {place: [case] for place, case in cases.items()}
    if recorded:
        _ = group.recorded
    aims = {place: task.aims(group.model, targets[place], case.logits, case.encoding) for place, case in cases.items()}
    return retargeted(cases, aims)


def retargeted(cases: dict[int, Case], aims: Mapping[int, Sequence[Target]]) -> Aims:
    """The same texts with other targets, as many for each: passes are shared, only going back is new."""
    group = next(iter(cases.values())).group
    found: Aims = {place: [] for place in cases}
    for part in range(len(next(iter(aims.values())))):
        other = group.aimed([aims[place][part] for place in cases])
        for place, case in cases.items():
            found[place].append(Case(other, case.row, level=case.level))
    return found


class Spent:
    """Time and passes that a group of texts shares, from now on."""

    def __init__(self, group: Group) -> None:
        self.group, self.started = group, time.perf_counter()
        self.forwards, self.backwards = group.passes.forwards, group.passes.backwards

    def each(self) -> tuple[float, float, float]:
        """Seconds, rows forth and rows back, for one of the texts."""
        seconds, passes = time.perf_counter() - self.started, self.group.passes
        spent = (seconds, passes.forwards - self.forwards, passes.backwards - self.backwards)
        return spent[0] / self.rows, spent[1] / self.rows, spent[2] / self.rows

    @property
    def rows(self) -> int:
        return len(self.group.encodings)


def explained(
    aims: Aims, row: Method, options: Mapping[str, Any], spent: Spent | None = None
) -> dict[int, Explanation]:
    """One method's explanation of every text."""
    spent = spent or Spent(next(iter(aims.values()))[0].group)
    before = {place: _asked(cases) for place, cases in aims.items()}
    given = {}
    for place, cases in aims.items():
        with together(cases):
            given[place] = [row(case, **options) for case in cases]
    _ = spent.group.answer  # which every explanation tells, also where the method did not need it
    seconds, forwards, backwards = spent.each()
    found = {}
    for place, cases in aims.items():
        own = _asked(cases)
        cost = (seconds, round(forwards + own[0] - before[place][0]), round(backwards + own[1] - before[place][1]))
        found[place] = explanation(cases, row, options, given[place], cost)
    return found


def _asked(cases: Sequence[Case]) -> tuple[int, int]:
    """Rows that these cases had of their own, forth and back."""
    return sum(case.asking.forwards for case in cases), sum(case.asking.backwards for case in cases)


def explanation(
    cases: Sequence[Case],
    row: Method,
    options: Mapping[str, Any],
    given: Sequence[Tensor | Attribution],
    cost: tuple[float, int, int] = (0.0, 0, 0),
) -> Explanation:
    """One explanation of one text. Where it has several parts, such as an answer's start and end, their scores add
    up.
    """
    case, target = cases[0], cases[0].target
    parts = [one if isinstance(one, Attribution) else Attribution(one) for one in given]
    attribution = parts[0]
    scores, layers = torch.stack([part.scores.detach().double().cpu() for part in parts]).sum(0), None
    if scores.ndim == 2:
        layers = tuple(tuple(layer) for layer in scores.tolist())
        scores = scores.sum(0)
    if not bool(scores.isfinite().all()):
        raise WherefromError(
            f"{row.name} gave scores that are not finite for this text; the model's gradients may have overflowed."
        )
    encoding, task = case.encoding, case.model.task
    by_unit = row.scores_units and case.level != "token"
    found = Explanation(
        text=encoding.text,
        pair=encoding.pair,
        tokens=encoding.tokens,
        scores=(0.0,) * len(encoding) if by_unit else tuple(scores.tolist()),
        offsets=encoding.offsets,
        segment=encoding.segment,
        target=target.label,
        aims=tuple(_aim(one.target) for one in cases),
        probability=prod(one.target.probability(case.logits[None]).item() for one in cases),
        prediction=task.predicted(case.model, case.logits, encoding).label,
        probabilities=task.probabilities(case.model, case.logits),
        method=row.name,
        params={**options, **attribution.params},
        signed=row.signed if attribution.signed is None else attribution.signed,
        layers=layers,
        gap=_total([part.gap for part in parts]),
        unassigned=_total([part.unassigned for part in parts]),
        cut=encoding.cut,
        notes=_once(note for part in parts for note in part.notes),
        selection=_once(part.selection for part in parts if part.selection),
        model=case.model.name,
        seconds=cost[0],
        forwards=cost[1],
        backwards=cost[2],
        word_of=encoding.word_of,
        sentence_of=encoding.sentence_of,
    )
    if by_unit:
        return found.pooled(case.level, encoding.members(case.level), POOL[case.level], scores.tolist())
    return found.at(case.level)


def _once(said: Iterable[Said]) -> tuple[Said, ...]:
    """What several parts say alike is said once."""
    found: list[Said] = []
    for one in said:
        if one not in found:
            found.append(one)
    return tuple(found)


def _aim(target: Target) -> tuple[int, int | None, bool | None]:
    return target.index, target.versus, target.end if isinstance(target, Boundary) else None


def _total(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None
