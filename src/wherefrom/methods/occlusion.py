"""Occlusion: what the score loses when one token (word, sentence) is hidden."""

from __future__ import annotations

from typing import Literal

import torch

from wherefrom.case.case import Attribution, Case
from wherefrom.registry import method

FillOption = Literal["auto", "mask", "unk", "pad", "eos", "delete"]


@method(
    family="perturbation",
    signed=True,
    per_class=True,
    reads="answers",
    paper="Zeiler & Fergus 2014, arXiv:1311.2901",
    scores_units=True,
)
def occlusion(case: Case, *, fill: FillOption = "auto") -> Attribution:
    hide = case.model.usual_fill() if fill == "auto" else fill
    everything = torch.ones_like(case.units[:1])
    lost = case.ask(everything, hide) - case.ask(~case.units, hide)  # (unit,)
    return Attribution(lost, params={"fill": hide})
