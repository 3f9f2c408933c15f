"""Which coalitions of units Kernel SHAP asks about, and what their answers say about each unit.

A coalition of k of n units weighs 1 / (C(n, k) k (n - k)), so all of one size together weigh 1 / (k (n - k)). Every
coalition is asked with its complement: then only y(s) - y(complement) tells about the scores, and all that is even in s
drops out before it can do harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import torch
from torch import Tensor

MANY = 60  # of so many units and more there are at least 2^60 coalitions, more than anybody could ask about


@dataclass(frozen=True)
class Pairs:
    """Coalitions that stand for themselves and their complements."""

    chosen: Tensor  # (pair, unit) bool, the smaller one of both
    weight: Tensor  # (pair,), such that the pairs of one size stand for all of that size
    left_out: Tensor  # (pair,), the share of the pairs of that size that was not drawn; zero where all were asked


def draw_pairs(units: int, samples: int, seed: int) -> Pairs:
    """Distinct pairs, so many that they, the whole text and nothing are at most `samples` questions.

    Sizes share the pairs in proportion to their weight. A size that would get more than there are is asked whole, and
    the others share what is left; these are always the smallest sizes (and their complements, the largest).
    """
    generator = torch.Generator().manual_seed(seed)
    sizes = list(range(1, units // 2 + 1))
    middle = {size: 0.5 if 2 * size == units else 1.0 for size in sizes}  # there a complement has the same size
    weight = {size: middle[size] / (size * (units - size)) for size in sizes}
    count = {size: int(comb(units, min(size, MANY)) * middle[size]) if size < MANY else 2**MANY for size in sizes}
    left, rest = min((samples - 2) // 2, sum(count.values())), sum(weight.values())
    taken: list[tuple[int, int, float, float]] = []  # size, how many, the weight of each, the share left out
    while sizes and left * weight[sizes[0]] / rest >= count[sizes[0]] * (1 - 1e-9):
        size = sizes.pop(0)
        taken.append((size, count[size], weight[size] / count[size], 0.0))
        left, rest = left - count[size], rest - weight[size]
    upto, drawn = torch.rand(1, generator=generator, dtype=torch.float64).item(), 0
    for size in sizes:  # systematic sampling: each size gets its share, rounded up or down by chance
        share = left * weight[size] / rest
        upto += share
        number = (left if size == sizes[-1] else int(upto)) - drawn
        drawn += number
        taken.append((size, number, rest / left if left else 0.0, 1 - share / count[size]))
    chosen = [choose(units, size, number, generator) for size, number, _, _ in taken]
    each = [torch.tensor([row[2:]], dtype=torch.float64).expand(row[1], 2) for row in taken]
    table = torch.cat([torch.zeros(0, 2, dtype=torch.float64), *each])
    return Pairs(torch.cat([torch.zeros(0, units, dtype=torch.bool), *chosen]), table[:, 0], table[:, 1])


def choose(units: int, size: int, number: int, generator: torch.Generator) -> Tensor:
    """Distinct coalitions of a size, drawn without replacement. (number, unit) bool

    Of half of the units, only those with the first unit: their complements are the others.
    """
    half = 2 * size == units
    free, places = (units - 1, size - 1) if half else (units, size)  # the first unit is in every half, and not drawn
    coalitions: dict[tuple[int, ...], None] = {}
    if comb(free, min(places, MANY)) <= 4 * number:  # nearly all: drawing one by one would meet the same ones again
        every = list(combinations(range(free), places))
        order = torch.randperm(len(every), generator=generator).tolist() if number < len(every) else range(number)
        coalitions = dict.fromkeys(every[place] for place in order[:number])
    while len(coalitions) < number:
        coalitions[tuple(sorted(torch.randperm(free, generator=generator)[:places].tolist()))] = None
    kept = torch.zeros(number, units, dtype=torch.bool)
    for row, members in zip(kept, coalitions, strict=True):
        row[[member + half for member in members] + [0] * half] = True
    return kept


def fit_pairs(pairs: Pairs, odd: Tensor, total: float) -> tuple[Tensor, Tensor | None]:
    """Each unit's score by weighted least squares, the sum of all bound to `total`; and its standard error.

    odd: (y(s) - y(complement)) / 2 of every pair. The standard error is that of a weighted regression on a sample drawn
    without replacement: squared residuals, each raised by its own leverage, of the pairs that stand for others too.
    None where there are no more answers than unknowns, so that nothing is left to judge by.
    """
    units = pairs.chosen.shape[1]
    share = pairs.chosen.double().mean(-1, keepdim=True)  # (pair, 1)
    table = pairs.chosen.double() - share  # (pair, unit): what is left for the deviations from the mean score
    remainder = odd - total * (share[:, 0] - 0.5)
    weighted = table * pairs.weight[:, None]
    inverse = torch.linalg.pinv(table.T @ weighted, hermitian=True, rtol=1e-12)  # the sum's direction is not in it
    deviation = inverse @ (weighted.T @ remainder)  # (unit,), of the least norm, so it adds up to zero
    scores = total / units + deviation
    if not bool(pairs.left_out.any()):
        return scores, torch.zeros_like(scores)
    if len(table) < units:
        return scores, None
    leverage = (weighted @ inverse * table).sum(-1).clamp(max=1 - 1e-9)
    variance = (remainder - table @ deviation) ** 2 / (1 - leverage) * pairs.left_out
    return scores, ((weighted @ inverse) ** 2 * variance[:, None]).sum(0).sqrt()
