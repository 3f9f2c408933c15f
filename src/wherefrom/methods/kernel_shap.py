"""Kernel SHAP: each token's (word's, sentence's) Shapley value, what it adds to the score on average over all orders of
showing the units.

argmin_b sum_s w_s (y(s) - y(nothing) - sum_i b_i s_i)^2 over coalitions s of the n units, with w_s = (n - 1) / (C(n, k)
k (n - k)) for k units and the scores bound to add up to y(text) - y(nothing). Where every coalition fits into the
budget the values are exact; else some are drawn (see `coalitions`), and each score has a standard error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from wherefrom.case.case import Attribution, Case
from wherefrom.methods.coalitions import Pairs, draw_pairs, fit_pairs
from wherefrom.methods.occlusion import FillOption, hidden_by
from wherefrom.methods.surrogate import budget, hideable, too_few
from wherefrom.registry import method


def asks(case: Case, options: Mapping[str, Any]) -> None:
    """The coalitions, which do not depend on what the model answers."""
    _, kept = coalitions(case, options["samples"], options["seed"])
    case.announce_questions(kept, hidden_by(case, options["fill"]))


def coalitions(case: Case, samples: int | None, seed: int) -> tuple[Pairs, Tensor]:
    """The pairs, and the tokens that are left of the whole text, of nothing, and of both parts of every pair.
    (coalition, token) bool
    """
    real = hideable(case)
    units, tokens = int(real.sum()), case.units[real].float()  # (unit, token)

    def drawn() -> tuple[Pairs, Tensor]:
        pairs = draw_pairs(units, budget("kernel_shap", samples, units), seed)
        ends = torch.tensor([[True], [False]][: 1 + (units > 0)]).expand(-1, units)  # without units both are the same
        return pairs, torch.cat([ends, pairs.chosen, ~pairs.chosen]).to(tokens) @ tokens > 0

    return case.once_for_text(("kernel_shap", samples, seed), drawn)


@method(
    family="perturbation",
    signed=True,
    per_class=True,
    reads="answers",
    paper="Lundberg & Lee 2017, arXiv:1705.07874",
    scores_units=True,
    asks=asks,
    one_pass=True,
    slow=True,
    scale="logit",
)
def kernel_shap(case: Case, *, samples: int | None = None, seed: int = 0, fill: FillOption = "auto") -> Attribution:
    hide = hidden_by(case, fill)
    real = hideable(case)
    units = int(real.sum())
    pairs, kept = coalitions(case, samples, seed)
    ends = len(kept) - 2 * len(pairs.chosen)
    answers = case.ask(kept, hide).double().cpu()  # (coalition,)
    total = (answers[0] - answers[ends - 1]).item()
    chosen, complement = answers[ends:].chunk(2) if len(pairs.chosen) else (answers[:0], answers[:0])
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
