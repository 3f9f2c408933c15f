"""Pairwise Shapley interactions: what two units do together beyond what each does alone, on average over all orders.

I_ij = sum_T (n - |T| - 2)! |T|! / (n - 1)! (y(T + i + j) - y(T + i) - y(T + j) + y(T)) over all sets T of the other
units (Grabisch & Roubens 1999). Where every set fits into the budget the values are exact. Else orders are drawn: two
units that are neighbours in a random order, with all before them as T, give I_ij on average. The orders of a round are
Hamiltonian paths that together have every two units as neighbours once (Walecki), with their units shuffled: one round
gives every pair one sample, for n^2 queries.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import torch
from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.case.door import subject_of
from wherefrom.case.explain import cases_of
from wherefrom.case.flip import hidden_unit
from wherefrom.case.passes import Passes
from wherefrom.core.encoding import Encoding
from wherefrom.core.interactions import Interactions, UnitPair
from wherefrom.core.target import joint_probability
from wherefrom.core.units import Level
from wherefrom.errors import BadOption, EmptyText
from wherefrom.model.hiding import fill_in_place, fill_token
from wherefrom.model.tasks import TargetSpec
from wherefrom.model.text_model import TextModel

LEAST_SAMPLES = 4
MOST_UNITS = 60  # two rounds of so many are 7,200 queries
CHUNK = 512


@dataclass(frozen=True, eq=False)
class Game:
    """A target's score for every set of units that is left of the text."""

    cases: Sequence[Case]  # one for each component of the target, whose scores add up
    units: Tensor  # (unit, token): the tokens of each unit that can be hidden
    fill: str

    def values(self, kept: Tensor) -> Tensor:
        """(set, unit) bool -> (set,), in double precision"""
        special, tokens = self.cases[0].special.cpu(), self.units.double()
        answers = list[Tensor]()
        for start in range(0, len(kept), CHUNK):
            keep = (kept[start : start + CHUNK].double() @ tokens > 0) | special
            keep = keep.to(self.cases[0].units.device)
            answers.append(torch.stack([case.ask(keep, self.fill).double().cpu() for case in self.cases]).sum(0))
        return torch.cat(answers)


def interactions(
    model: TextModel, encoding: Encoding, spec: TargetSpec, level: Level, *, fill: str, samples: int, seed: int
) -> Interactions:
    """Of one text and its target."""
    started = time.perf_counter()
    subject = subject_of(model, encoding, spec)
    model, encoding = subject.model, subject.encoding
    if fill == "auto":
        fill = "delete" if model.task.deletes else model.hiding.usual_fill()
    fill = fill_in_place(model, fill)
    if fill != "delete":
        fill_token(model, fill)  # raises where the tokenizer has no such token
    groups = [group for group in encoding.members(level) if encoding.segment[group[0]] >= 0]
    count = len(groups)
    if count < 2:
        raise EmptyText(f"The text is one {level}: interactions are of two.")
    if count > MOST_UNITS:
        raise BadOption(
            f"The text has {count} {level}s; interactions are computed of at most {MOST_UNITS}. Take a shorter text,"
            " level='sentence', or units of your own."
        )
    if samples < LEAST_SAMPLES:
        raise BadOption(f"interactions takes at least {LEAST_SAMPLES} samples, not {samples}.")
    cases = cases_of(Passes(model, [encoding]), [0], [subject.target], level)[0]
    tokens = torch.zeros(count, len(encoding), dtype=torch.bool)
    for row, group in zip(tokens, groups, strict=True):
        row[list(group)] = True
    game, exact = Game(cases, tokens, fill), 2**count <= samples
    found = exactly(game, count) if exact else by_orders(game, count, max(2, samples // count**2), seed)
    targets = [case.target for case in cases]
    output = joint_probability(targets, cases[0].logits[None]).item()
    regression = targets[0].regression
    places = combinations(range(count), 2)
    return Interactions(
        text=encoding.text,
        pair=encoding.pair,
        units=tuple(hidden_unit(encoding, group) for group in groups),
        scores=tuple(found.single.tolist()),
        pairs=tuple(UnitPair(i, j, found.both[i, j].item(), found.errors[i, j].item()) for i, j in places),
        target=targets[0].label,
        probability=None if regression else output,
        value=output if regression else None,
        exact=exact,
        level=level,
        fill=fill,
        samples=found.queries,
        model=model.name,
        seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True, eq=False)
class ShapleyPairs:
    """Shapley values, the interactions of every two units with their standard errors, and how many sets were queried.
    (unit,), (unit, unit), (unit, unit)
    """

    single: Tensor
    both: Tensor
    errors: Tensor
    queries: int


def exactly(game: Game, count: int) -> ShapleyPairs:
    """From every set of units."""
    sets = torch.arange(2**count)
    kept = (sets[:, None] >> torch.arange(count) & 1).bool()
    values, sizes = game.values(kept), kept.sum(1)
    of_one = torch.tensor([1 / (count * math.comb(count - 1, size)) for size in range(count)], dtype=torch.float64)
    of_two = torch.tensor(
        [1 / ((count - 1) * math.comb(count - 2, size)) for size in range(count - 1)], dtype=torch.float64
    )
    single, both = torch.zeros(count, dtype=torch.float64), torch.zeros(count, count, dtype=torch.float64)
    for i in range(count):
        without = sets[~kept[:, i]]
        single[i] = of_one[sizes[without]] @ (values[without + 2**i] - values[without])
        for j in range(i + 1, count):
            rest = sets[~kept[:, i] & ~kept[:, j]]
            change = values[rest + 2**i + 2**j] - values[rest + 2**i] - values[rest + 2**j] + values[rest]
            both[i, j] = both[j, i] = of_two[sizes[rest]] @ change
    return ShapleyPairs(single, both, torch.zeros_like(both), len(sets))


def neighbouring_orders(count: int) -> list[list[int]]:
    """Orders of `count` numbers in which every two are neighbours exactly once; `count` is even."""
    zigzag = [step // 2 if step % 2 == 0 else -(step + 1) // 2 for step in range(count)]  # 0, -1, 1, -2, 2, ...
    return [[(start + step) % count for step in zigzag] for start in range(count // 2)]


def by_orders(game: Game, count: int, rounds: int, seed: int) -> ShapleyPairs:
    """From orders that are drawn at random, `rounds` samples of every pair."""
    generator = torch.Generator().manual_seed(seed)
    padded = count + count % 2  # one that does nothing makes the number even, and changes no interaction
    samples = torch.zeros(rounds, count, count, dtype=torch.float64)
    single, queries = torch.zeros(count, dtype=torch.float64), 0
    for sample in samples:
        names = torch.randperm(padded, generator=generator).tolist()
        named = [[names[place] for place in order] for order in neighbouring_orders(padded)]
        breaks = [{place for place, unit in enumerate(order) if unit >= count} for order in named]
        orders = [[unit for unit in order if unit < count] for order in named]
        queries += _sample(game, count, orders, breaks, sample, single)
    share = padded // 2 * rounds
    errors = samples.std(0) / math.sqrt(rounds)
    return ShapleyPairs(single / share, samples.mean(0), errors, queries)


def _sample(
    game: Game,
    count: int,
    orders: Sequence[Sequence[int]],
    breaks: Sequence[set[int]],
    sample: Tensor,
    single: Tensor,
) -> int:
    """One sample of every pair, written into `sample`; every unit's changes are added to `single`. Returns how many
    sets were queried.

    breaks: where the unit that does nothing was in each order: the two around it are no neighbours.
    """
    rows = list[Tensor]()
    for order in orders:
        prefixes = torch.zeros(len(order) + 1, count, dtype=torch.bool)
        for place, unit in enumerate(order):
            prefixes[place + 1 :, unit] = True
        swapped = prefixes[: len(order) - 1].clone()  # all before a pair, and the second of it
        swapped[range(len(order) - 1), list(order[1:])] = True
        rows += [prefixes, swapped]
    kept = torch.cat(rows)
    values = list(game.values(kept).split([len(part) for part in rows]))
    for number, order in enumerate(orders):
        prefix, second = values[2 * number], values[2 * number + 1]
        single[list(order)] += prefix[1:] - prefix[:-1]
        change = prefix[2:] - prefix[1:-1] - second + prefix[:-2]
        for place, (i, j) in enumerate(pairwise(order)):
            if place + 1 not in breaks[number]:
                sample[i, j] = sample[j, i] = change[place]
    return len(kept)
