"""LIME: what each token (word, sentence) adds in a linear model of the score, fitted to texts in which about half of
them are hidden.

b_i of argmin_b sum_s w_s (y(s) - b_0 - sum_i b_i s_i)^2 + ridge S |b|^2 over S samples s, where each unit is kept (s_i
= 1) with a chance of one half; w_s = exp(-d^2 / (2 width^2)), d the cosine distance of s from the whole text. Where
every combination fits into the budget, each is queried once and nothing is random.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from wherefrom.case.case import Attribution, Case
from wherefrom.errors import BadOption
from wherefrom.methods.occlusion import FillOption, hidden_by
from wherefrom.methods.surrogate import budget, every_part, hideable, left_of, too_few
from wherefrom.registry import method

NARROWEST = 0.05  # below, every sample's weight is as good as zero
WIDEST = 1e6  # above, all samples weigh alike, or all scores are zero


def asks(case: Case, options: Mapping[str, Any]) -> None:
    """The samples, which do not depend on what the model answers."""
    kept = samples_of(case, options["samples"], options["seed"])
    if kept.shape[1]:
        hide = hidden_by(case, options["fill"])
        case.announce_questions(left_of(case, kept), hide)


def samples_of(case: Case, samples: int | None, seed: int) -> Tensor:
    """Which of the units that can be hidden are left. (sample, unit) bool"""
    units = int(hideable(case).sum())
    most = budget("lime", samples, units)
    return every_part(units) if most >= 2**units else _drawn(units, most, seed)


@method(
    family="perturbation",
    signed=True,
    per_class=True,
    reads="answers",
    paper="Ribeiro et al. 2016, arXiv:1602.04938",
    scores_units=True,
    asks=asks,
    one_pass=True,
    slow=True,
    scale="logit",
)
def lime(
    case: Case,
    *,
    samples: int | None = None,
    seed: int = 0,
    fill: FillOption = "auto",
    width: float = 0.25,
    ridge: float = 0.0,
) -> Attribution:
    if not (NARROWEST <= width <= WIDEST and 0 <= ridge <= WIDEST):
        raise BadOption(
            f"lime takes a width from {NARROWEST} to {WIDEST:g} and a ridge from"
            f" 0 to {WIDEST:g}, not width={width} and ridge={ridge}."
        )
    hide, real = hidden_by(case, fill), hideable(case)
    kept = samples_of(case, samples, seed)
    scores, explained = torch.zeros(len(real), dtype=torch.float64), 1.0
    if kept.shape[1]:  # else there is only a mask, or nothing but special tokens
        answers = case.ask(left_of(case, kept), hide).double().cpu()  # (sample,)
        fitted, explained = fit_linear(kept.double(), answers, _nearness(kept, width), ridge * len(kept))
        scores[real.cpu()] = fitted
    note = f"The linear model tells {explained:.0%} of how the score varies between {len(kept)} samples."
    return Attribution(scores, params={"fill": hide, "samples": len(kept)}, notes=(note, *too_few(*kept.shape)))


def _nearness(kept: Tensor, width: float) -> Tensor:
    """The weight of each sample, by the cosine of its zeros and ones and those of the whole text. (sample,)"""
    distance = 1 - kept.double().mean(1).sqrt()
    return torch.exp(-(distance**2) / (2 * width**2))


def fit_linear(samples: Tensor, answers: Tensor, weights: Tensor, penalty: float) -> tuple[Tensor, float]:
    """The coefficients of a weighted ridge regression with an intercept, and its weighted R^2.

    samples: (sample, unit). answers, weights: (sample,). penalty: of the squared coefficients; with none, the smallest
        coefficients among those that fit best.
    """
    share = weights / weights.sum()
    x, y = samples - share @ samples, answers - share @ answers  # centred, so that the intercept drops out
    units = x.shape[1]
    rows = torch.cat([weights.sqrt()[:, None] * x, penalty**0.5 * torch.eye(units, dtype=x.dtype)])
    values = torch.cat([weights.sqrt() * y, y.new_zeros(units)])
    coefficients = torch.linalg.lstsq(rows, values[:, None], driver="gelsd").solution[:, 0]
    spread, missed = share @ y**2, share @ (y - x @ coefficients) ** 2
    constant = spread <= 1e-12 * (share @ answers**2)  # answers that differ by rounding alone
    return coefficients, 1.0 if constant else (1 - missed / spread).item()


def _drawn(units: int, samples: int, seed: int) -> Tensor:
    """(part, unit) bool"""
    return torch.rand(samples, units, generator=torch.Generator().manual_seed(seed)) < 0.5
