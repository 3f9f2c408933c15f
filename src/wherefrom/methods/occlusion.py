"""Occlusion: what the score loses when one token (word, sentence) is hidden."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch

from wherefrom.case.case import Attribution, Case
from wherefrom.registry import method

FillOption = Literal["auto", "mask", "unk", "pad", "eos", "delete", "sample"]


def asks(case: Case, options: Mapping[str, Any]) -> None:
    """One unit hidden at a time."""
    case.announce_questions(~case.units, hidden_by(case, options["fill"]))


def hidden_by(case: Case, fill: FillOption) -> str:
    """The fill that was asked for. "auto" deletes what is hidden from a language model, which was measured to be right
    (docs/methods/perturbation.md); for other models it is the best token that the tokenizer has.
    """
    if fill != "auto":
        return fill
    return "delete" if case.model.task.deletes else case.model.hiding.usual_fill()


@method(
    family="perturbation",
    signed=True,
    per_class=True,
    reads="answers",
    paper="Zeiler & Fergus 2014, arXiv:1311.2901",
    scores_units=True,
    asks=asks,
    one_pass=True,
    scale="logit",
    sets={"auto": 3, "auto:seq2seq": 2, "compare": 7, "candidates": 8, "light": 4, "flip": 1},
)
def occlusion(case: Case, *, fill: FillOption = "auto") -> Attribution:
    hide = hidden_by(case, fill)
    everything = torch.ones_like(case.units[:1])
    lost = case.ask(everything, hide) - case.ask(~case.units, hide)  # (unit,)
    return Attribution(lost, params={"fill": hide})
