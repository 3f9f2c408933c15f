"""What the ALTI paper (Ferrando et al. 2022) measures beside metrics: anisotropy, and robustness over seeds.

Functions on cases and on explanations; what comes out is plain data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from wherefrom import Case, Explanation
from wherefrom.errors import WherefromError
from wherefrom.statistics import jaccard, spearman
from wherefrom.typing import Numbers


class Anisotropy(NamedTuple):
    """Mean cosine similarity of two of a kind, per layer."""

    outputs: Numbers  # of what two positions hold: y_i, y_k
    parts: Numbers  # of what two tokens brought to one position: T_i(x_j), T_i(x_k)


@torch.no_grad()
def anisotropy(cases: Iterable[Case]) -> Anisotropy:
    """As Figure 3. The mean over pairs is had from the sum of unit vectors: |sum|^2 = n + sum over pairs of two cosines
    each.
    """
    similarities = []
    for case in cases:
        layers = []
        for parts in case.parts():
            unit = torch.nn.functional.normalize(parts.output, dim=-1)
            sums, counts = parts.unit_sums()
            layers.append((_pairs(unit.sum(0)[None], torch.tensor([len(unit)])), _pairs(sums, counts)))
        similarities.append(layers)
    outputs, parts_ = np.moveaxis(np.asarray(similarities), -1, 0)  # (text, layer)
    return Anisotropy(np.nanmean(outputs, 0), np.nanmean(parts_, 0))


def _pairs(sums: Tensor, counts: Tensor) -> float:
    """The mean cosine of two different ones, over all groups that have two."""
    many = counts.to(sums.device) > 1
    n = counts.to(sums)[many]
    return ((sums[many].square().sum(-1) - n) / (n * (n - 1))).mean().item()


@dataclass(frozen=True, eq=False)
class Robustness:
    """How alike the explanations of models are that differ only in their seed. (pair of models, text)"""

    jaccard: Numbers
    spearman: Numbers  # nan where all scores of a text are equal
    texts: int  # on which all models agree
    left_out: int  # on which they do not


def robustness(explanations: Sequence[Sequence[Explanation]], *, share: float = 0.25) -> Robustness:
    """One row of explanations a model, all by one method on the same texts; as Figures 7 and 8. Only texts on which all
    models agree.
    """
    if len(explanations) < 2:
        raise WherefromError("Robustness compares models: give the explanations of two or more.")
    by_text = list(zip(*explanations, strict=True))
    for text in by_text:
        if len({(explanation.text, explanation.pair, explanation.tokens) for explanation in text}) > 1:
            raise WherefromError(
                "Robustness compares explanations of the same texts, in the same order and by the same tokenizer."
            )
    agreed = [text for text in by_text if len({explanation.prediction for explanation in text}) == 1]
    pairs = list(combinations(range(len(explanations)), 2))

    def table(alike: Callable[[Numbers, Numbers], float]) -> Numbers:
        rows = [[alike(_plain(text[a]), _plain(text[b])) for text in agreed] for a, b in pairs]
        return np.asarray(rows, dtype=np.float64).reshape(len(pairs), len(agreed))

    return Robustness(
        table(lambda a, b: jaccard(a, b, share=share)), table(spearman), len(agreed), len(by_text) - len(agreed)
    )


def _plain(explanation: Explanation) -> Numbers:
    """Scores of what is not special."""
    return np.asarray([unit.score for unit in explanation.units()])
