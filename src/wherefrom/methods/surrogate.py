"""What LIME and Kernel SHAP share: which units can be hidden, and how many samples of a text they query."""

from __future__ import annotations

import torch
from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.errors import BadOption

USUAL_SAMPLES = 256


def hideable(case: Case) -> Tensor:
    """True for units that can be hidden: all but special tokens. (unit,)"""
    return ~(case.units & case.special).any(-1)


def left_of(case: Case, kept: Tensor) -> Tensor:
    """The tokens of the units that are left of those that can be hidden. (part, unit) bool -> (part, token) bool"""
    tokens = case.units[hideable(case)].float()  # (unit, token)
    return kept.to(tokens) @ tokens > 0


def budget(method: str, samples: int | None, units: int) -> int:
    """How many parts are asked about, at most."""
    if samples is None:
        return max(USUAL_SAMPLES, 4 * units)
    if samples < min(4, 2**units):
        raise BadOption(f"{method} takes at least 4 samples, not {samples}: fewer tell nothing.")
    return samples


def every_part(units: int) -> Tensor:
    """Every choice of units, from none to all. (part, unit) bool"""
    return torch.arange(2**units)[:, None].bitwise_right_shift(torch.arange(units)).bitwise_and(1).bool()


def too_few(samples: int, units: int) -> tuple[str, ...]:
    """What to say where the fit has hardly more answers than unknowns."""
    if samples >= min(2**units, 2 * (units + 1)):
        return ()
    return (f"{samples} samples are few for {units} units: another seed would give other scores. Raise samples.",)
