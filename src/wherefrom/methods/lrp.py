"""LRP: how much of the target's logit each token carries where the blocks begin, if every operation hands on the
relevance it is given.

Relevance starts as one at the logit and goes back by the z+ rules (docs/methods/relevance.md). At the encoder's input
it adds up to one; at the words, positions and token types take their share, which is reported as unassigned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch

from wherefrom.case.case import Attribution, Case
from wherefrom.registry import Reads, method

# Of the forward pass; see docs/methods/relevance.md on why single precision is not enough.
PassPrecision = Literal["double", "model"]


def relevance_reads(options: Mapping[str, Any]) -> set[Reads]:
    """Which forward pass relevance goes back through, by the option `precision`."""
    return {"relevance_double" if options["precision"] == "double" else "relevance"}


@method(
    family="relevance",
    signed=True,
    per_class=True,
    reads=relevance_reads,
    paper="Bach et al. 2015; rules of Chefer et al. 2021, arXiv:2012.09838",
    one_pass=True,
    scale="logit",
)
def lrp(case: Case, *, at: Literal["encoder", "words"] = "encoder", precision: PassPrecision = "double") -> Attribution:
    place: Literal["blocks", "words"] = "blocks" if at == "encoder" else "words"
    scores = case.relevance("zplus", place, double=precision == "double")[0].sum(-1)
    return Attribution(scores, unassigned=started(case) - scores.sum().item())


def started(case: Case) -> float:
    """The relevance that is put in: one for a logit, nothing for the difference of two."""
    return case.target.score(torch.ones_like(case.logits[None])).item()
