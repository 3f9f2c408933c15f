"""Integrated gradients: what each token adds to the score on the straight way from a text of hidden tokens to this one.

(e - b) * integral of dy/de along b + a (e - b), a in [0, 1], by Gauss-Legendre quadrature. b are the embeddings of the
text with every token but the special ones hidden. The scores should add up to y(e) - y(b); what is missing is the gap.

steps: how many gradients are taken; unless given, as many as it takes, doubled from 50 up to 800, until the gap is
    below 5% of what the scores move.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from wherefrom.case.case import Attribution, Case
from wherefrom.core.arrays import Numbers
from wherefrom.errors import BadOption
from wherefrom.methods.input_x_gradient import Reduce, reduced
from wherefrom.model.hiding import fill_vector
from wherefrom.registry import method

DOUBLED = (50, 100, 200, 400, 800)
LARGEST_RULE = 200  # nodes of one Gauss-Legendre rule
MOST_STEPS = 1_000_000
CLOSE_ENOUGH = 0.05  # a gap below this share of what the scores move is not worth more steps
PathBaseline = Literal["auto", "mask", "pad", "unk", "eos", "zero"]


@method(
    family="gradient",
    signed=True,
    per_class=True,
    reads="path",
    paper="Sundararajan et al. 2017, arXiv:1703.01365",
    one_pass=True,
    scale="logit",
    sets={"auto": 2, "compare": 3, "candidates": 3, "light": 2},
)
def integrated_gradients(
    case: Case, *, steps: int | None = None, baseline: PathBaseline = "auto", reduce: Reduce = "sum"
) -> Attribution:
    if steps is not None and not 1 <= steps <= MOST_STEPS:
        raise BadOption(f"integrated_gradients takes 1 to {MOST_STEPS:,} steps, not {steps}.")
    hidden = case.model.hiding.usual_fill() if baseline == "auto" else baseline
    # Every way to reduce a token's numbers to one reads the same path, which is gone once.
    key = (case.row, case.target, "integrated_gradients", hidden, steps)
    path = case.passes.once(key, lambda: _path(case, hidden, steps))
    notes = () if abs(path.gap) <= CLOSE_ENOUGH * path.moved else (_too_large(path),)
    params: dict[str, object] = {"baseline": hidden, "steps": path.steps}
    return Attribution(reduced(path.parts, reduce), gap=path.gap, signed=reduce == "sum", params=params, notes=notes)


class IntegratedPath(NamedTuple):
    """What was found on the way from the hidden text to this one."""

    parts: Tensor  # (token, size): they should add up to what the score moves
    gap: float
    moved: float
    steps: int


def _path(case: Case, hidden: str, steps: int | None) -> IntegratedPath:
    nothing = torch.zeros_like(case.embeddings[:1]) if hidden == "zero" else fill_vector(case.model, hidden)
    start = torch.where(case.special[:, None], case.embeddings, nothing)  # (token, size)
    promised = (case.target.score(case.logits[None]) - case.score_along(start[None])).item()
    for taken in (steps,) if steps is not None else DOUBLED:
        parts = _integrated(case, start, taken)
        gap = promised - parts.sum().item()
        moved = max(abs(promised), parts.sum(-1).abs().sum().item())
        if abs(gap) <= CLOSE_ENOUGH * moved:
            break
    return IntegratedPath(parts, gap, moved, taken)


def _integrated(case: Case, start: Tensor, steps: int) -> Tensor:
    """(e - b) times the integral of the gradient. (token, size)"""
    way = case.embeddings - start
    places, weights = quadrature(steps)
    total = torch.zeros_like(way)
    for part in case.chunks(steps, with_graph=True):
        along = torch.from_numpy(places[part]).to(way)
        _, gradient = case.gradient_along(start + along[:, None, None] * way)
        total += torch.einsum("s,std->td", torch.from_numpy(weights[part]).to(way), gradient)
    return way * total


def quadrature(steps: int) -> tuple[Numbers, Numbers]:
    """Places in [0, 1] and their weights. Beyond a size the interval is cut into panels of equal rules: finding the
    nodes of one rule is a problem of steps x steps numbers. (step,) each
    """
    panels = -(-steps // LARGEST_RULE)
    sizes = [steps // panels + (panel < steps % panels) for panel in range(panels)]
    rules = {size: np.polynomial.legendre.leggauss(size) for size in set(sizes)}
    places = [(panel + (rules[size][0] + 1) / 2) / panels for panel, size in enumerate(sizes)]
    weights = [rules[size][1] / (2 * panels) for size in sizes]
    return np.concatenate(places), np.concatenate(weights)


def _too_large(path: IntegratedPath) -> str:
    return (
        f"The scores miss {abs(path.gap):.3g} of what they should add up to, beside {path.moved:.3g} that they move,"
        f" after {path.steps} steps: do not rely on them. Take more steps, another baseline or another method."
    )
