"""Kernel SHAP: each token's (word's, sentence's) Shapley value, what it adds to the score on average over all orders of
showing the units.

argmin_b sum_s w_s (y(s) - y(nothing) - sum_i b_i s_i)^2 over coalitions s of the n units, with w_s = (n - 1) / (C(n, k)
k (n - k)) for k units and the scores bound to add up to y(text) - y(nothing). Where every coalition fits into the
budget the values are exact; else some are drawn (see `coalitions`), and each score has a standard error.
"""

from __future__ import annotations

import torch

from wherefrom.case.case import Attribution, Case
from wherefrom.methods.coalitions import draw_pairs, fit_pairs
from wherefrom.methods.occlusion import FillOption
from wherefrom.methods.surrogate import budget, hideable, too_few
from wherefrom.registry import method


@method(
    family="perturbation",
    signed=True,
    per_class=True,
    reads="answers",
    paper="Lundberg & Lee 2017, arXiv:1705.07874",
    scores_units=True,
)
def kernel_shap(case: Case, *, samples: int | None = None, seed: int = 0, fill: FillOption = "auto") -> Attribution:
    hide = case.model.usual_fill() if fill == "auto" else fill
    real = hideable(case)
    units = int(real.sum())
    pairs = draw_pairs(units, budget("kernel_shap", samples, units), seed)
    ends = torch.tensor([[True], [False]][: 1 + (units > 0)]).expand(-1, units)  # without units both are the same text
    kept = torch.cat([ends, pairs.chosen, ~pairs.chosen]).to(case.model.device)
    tokens = case.units[real].float()  # (unit, token)
    answers = case.ask(kept.to(tokens) @ tokens > 0, hide).double().cpu()  # (coalition,)
    total = (answers[0] - answers[len(ends) - 1]).item()
    chosen, complement = answers[len(ends) :].chunk(2) if len(pairs.chosen) else (answers[:0], answers[:0])
    scores, errors = torch.zeros(2, len(real), dtype=torch.float64)
    scores[real.cpu()], spread = fit_pairs(pairs, (chosen - complement) / 2, total)
    if spread is not None:
        errors[real.cpu()] = spread
    return Attribution(
        scores,
        gap=total - scores.sum().item(),
        standard_errors=None if spread is None else errors,
        params={"fill": hide, "samples": len(kept)},
        notes=too_few(len(kept), units),
    )
