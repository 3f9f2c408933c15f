"""Kernel SHAP: each token's (word's, sentence's) Shapley value, what it adds to the score on average over all orders of
showing the units.

b_i of argmin_b sum_s w_s (y(s) - b_0 - sum_i b_i s_i)^2 over parts s of the n units; w_s = (n - 1) / (C(n, k) k (n -
k)) for k units, and so much for none and for all that the scores add up to y(text) - y(nothing); what is missing is the
gap. Where every part fits into the budget the values are exact; else parts are drawn by that weight, each with its
opposite.
"""

from __future__ import annotations

from math import comb

import torch
from torch import Tensor

from wherefrom.case.case import Attribution, Case
from wherefrom.methods.occlusion import FillOption
from wherefrom.methods.surrogate import budget, every_part, fit_surrogate, hideable, needed
from wherefrom.registry import method

BOUND = 1e6  # the weight of nothing and of all, beside all others together: infinite on paper


@method(
    family="perturbation",
    signed=True,
    per_class=True,
    reads="answers",
    paper="Lundberg & Lee 2017, arXiv:1705.07874",
    scores_units=True,
)
def kernel_shap(case: Case, *, samples: int | None = None, seed: int = 0, fill: FillOption = "auto") -> Attribution:
    captum, linear_models = needed("kernel_shap")
    hide = case.model.usual_fill() if fill == "auto" else fill
    units = int(hideable(case).sum())
    most = budget("kernel_shap", samples, units)
    exact = most >= 2**units
    kept = every_part(units) if exact else _drawn(units, most, seed)

    def weight(_whole: Tensor, _part: Tensor, part: Tensor, **_: object) -> float:
        size = int(part.sum())
        if size in (0, units):
            return BOUND
        return 1 / (comb(units, size) * size * (units - size)) if exact else 1 / len(kept)

    found = fit_surrogate(case, hide, kept, weight, linear_models.SkLearnLinearRegression(), captum)
    ends = torch.stack([torch.ones_like(case.special), torch.zeros_like(case.special)])
    whole, nothing = case.ask(ends, hide).double().tolist()
    gap = whole - nothing - found.scores.sum().item()
    return Attribution(found.scores, gap=gap, params={"fill": hide, "samples": len(kept)}, notes=found.notes)


def _drawn(units: int, samples: int, seed: int) -> Tensor:
    """Nothing, everything, and parts drawn by the weight of their size, each with its opposite. (part, unit) bool"""
    generator = torch.Generator().manual_seed(seed)
    pairs, sizes = (samples - 1) // 2, torch.arange(1, units)
    size = 1 + torch.multinomial(1 / (sizes * (units - sizes)), pairs, replacement=True, generator=generator)  # (pair,)
    place = torch.rand(pairs, units, generator=generator).argsort(-1).argsort(-1)
    drawn = place < size[:, None]
    return torch.cat([torch.zeros(1, units).bool(), torch.ones(1, units).bool(), drawn, ~drawn])[:samples]
