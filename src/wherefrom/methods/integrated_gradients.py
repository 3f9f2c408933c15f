"""Integrated gradients: what each token adds to the score on the straight way from a text of hidden tokens to this one.

(e - b) * integral of dy/de along b + a (e - b), a in [0, 1], by Gauss-Legendre quadrature. b are the embeddings of the
text with every token but the special ones hidden. The scores should add up to y(e) - y(b); what is missing is the gap.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from wherefrom.case.case import Attribution, Case
from wherefrom.errors import BadOption
from wherefrom.methods.input_x_gradient import Reduce, reduced
from wherefrom.registry import method

Baseline = Literal["auto", "mask", "pad", "unk", "eos", "zero"]


@method(
    family="gradient",
    signed=True,
    per_class=True,
    reads="path",
    paper="Sundararajan et al. 2017, arXiv:1703.01365",
)
def integrated_gradients(
    case: Case, *, steps: int = 50, baseline: Baseline = "auto", reduce: Reduce = "sum"
) -> Attribution:
    if steps < 1:
        raise BadOption(f"integrated_gradients takes at least one step, not {steps}.")
    hidden = case.model.usual_fill() if baseline == "auto" else baseline
    nothing = torch.zeros_like(case.embeddings[:1]) if hidden == "zero" else case.model.embedding_of(hidden)
    start = torch.where(case.special[:, None], case.embeddings, nothing)  # (token, size)
    way = case.embeddings - start
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    places = torch.from_numpy((nodes + 1) / 2).to(way)
    total = torch.zeros_like(way)
    for part in case.chunks(steps, with_graph=True):
        _, gradient = case.gradient_along(start + places[part, None, None] * way)
        total += torch.einsum("s,std->td", torch.from_numpy(weights[part] / 2).to(way), gradient)
    scores = way * total
    promised = case.target.score(case.logits[None]) - case.score_along(start[None])
    gap = (promised - scores.sum()).item()
    return Attribution(reduced(scores, reduce), gap=gap, signed=reduce == "sum", params={"baseline": hidden})
