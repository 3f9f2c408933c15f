"""The study of the ALTI paper (Ferrando et al. 2022): anisotropy, probability drop, faithfulness, robustness over seeds.

Functions on cases and on explanations; what comes out is plain data, which `report.plots` draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from whence.core.case import Attribution, Case
from whence.core.explanation import Explanation
from whence.core.flow import Numbers
from whence.errors import WhenceError
from whence.registry import check_options, find_method

SHARES = (0.05, 0.10, 0.20, 0.50)
VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "ALTI l1": ("alti", {"norm": "l1"}),
    "ALTI l2": ("alti", {"norm": "l2"}),
    "ALTI l1 LN2": ("alti", {"norm": "l1", "ln2": True}),
    "Norms": ("norms", {}),
    "GlobEnc": ("globenc", {}),
    "Rollout": ("attention_rollout", {}),
}


class Anisotropy(NamedTuple):
    """Mean cosine similarity of two of a kind, per layer."""

    outputs: Numbers  # of what two positions hold: y_i, y_k
    parts: Numbers  # of what two tokens brought to one position: T_i(x_j), T_i(x_k)


@torch.no_grad()
def anisotropy(cases: Iterable[Case]) -> Anisotropy:
    """As Figure 3. The mean over pairs is had from the sum of unit vectors: |sum|^2 = n + sum over pairs of two cosines each."""
    found = []
    for case in cases:
        layers = []
        for parts in case.parts():
            unit = torch.nn.functional.normalize(parts.output, dim=-1)
            sums, counts = parts.unit_sums()
            layers.append((_pairs(unit.sum(0)[None], torch.tensor([len(unit)])), _pairs(sums, counts)))
        found.append(layers)
    outputs, parts_ = np.moveaxis(np.asarray(found), -1, 0)  # (text, layer)
    return Anisotropy(np.nanmean(outputs, 0), np.nanmean(parts_, 0))


def _pairs(sums: Tensor, counts: Tensor) -> float:
    """The mean cosine of two different ones, over all groups that have two."""
    many = counts.to(sums.device) > 1
    n = counts.to(sums)[many]
    return ((sums[many].square().sum(-1) - n) / (n * (n - 1))).mean().item()


def scores_of(case: Case, method: str, **options: object) -> Tensor:
    """A method's scores, layers added up. (token,)"""
    row = find_method(method)
    given = row(case, **check_options(method, row.function, options))
    scores: Tensor = given.scores if isinstance(given, Attribution) else given
    return scores.sum(0) if scores.ndim == 2 else scores


def ranking(case: Case, scores: Tensor) -> list[int]:
    """The places of the tokens that may be removed, the most important first, the earlier first where two are equal.

    Special tokens stay, and so does what scores minus infinity, as [MASK] does where the decision is read there.
    """
    given = scores.tolist()
    places = [place for place, special in enumerate(case.encoding.special) if not special and given[place] > float("-inf")]
    return sorted(places, key=lambda place: -given[place])


def probability_drop(case: Case, scores: Tensor, *, fill: str | None = None) -> Numbers:
    """How far the target's probability has fallen when the k most important tokens are hidden, k = 0 ... all: as Figures 6 and 9."""
    order = ranking(case, scores)
    keep = torch.ones(len(order) + 1, len(case.encoding), dtype=torch.bool, device=case.model.device)
    for count in range(len(order)):
        keep[count + 1 :, order[count]] = False
    return _drops(case, keep, fill)


def mean_curve(curves: Sequence[Numbers], *, points: int = 21) -> tuple[Numbers, Numbers]:
    """Shares of the text removed, and the mean drop there, over texts of any length."""
    shares = np.linspace(0, 1, points)
    lines = [np.interp(shares, np.linspace(0, 1, len(curve)), curve) for curve in curves]
    return shares, np.mean(lines, 0)


class Faithfulness(NamedTuple):
    comprehensiveness: float  # how far the probability falls without the most important tokens: higher is better
    sufficiency: float  # how far it falls with these alone: lower is better


def faithfulness(case: Case, scores: Tensor, *, fill: str | None = None, shares: Sequence[float] = SHARES) -> Faithfulness:
    """Equations 12 and 13. The paper's B = {0, 5, 10, 20, 50}% has an empty bin, which adds nothing, and it divides by |B| + 1."""
    order = ranking(case, scores)
    keep = torch.ones(2 * len(shares), len(case.encoding), dtype=torch.bool, device=case.model.device)
    for number, share in enumerate(shares):
        top = ceil(share * len(order))
        keep[number, order[:top]] = False
        keep[len(shares) + number, order[top:]] = False
    drops = _drops(case, keep, fill)
    return Faithfulness(*(float(half.sum()) / (len(shares) + 2) for half in np.split(drops, 2)))


def _drops(case: Case, keep: Tensor, fill: str | None) -> Numbers:
    hide = fill or case.model.usual_fill()
    whole = case.target.probability(case.logits[None])
    drops: Numbers = (whole - case.target.probability(case.answers(keep, hide))).cpu().numpy()
    return drops


def compared(
    cases: Sequence[Case], *, variants: dict[str, tuple[str, dict[str, object]]] | None = None, fill: str | None = None
) -> dict[str, Faithfulness]:
    """Mean faithfulness of each variant over the cases: l1 against l2 against norms (Tables 4 and 5), LN2 on and off."""
    table = {}
    for name, (method, options) in (variants or VARIANTS).items():
        rows = [faithfulness(case, scores_of(case, method, **options), fill=fill) for case in cases]
        table[name] = Faithfulness(*np.mean(np.asarray(rows), 0).tolist())
    return table


@dataclass(frozen=True, eq=False)
class Robustness:
    """How alike the explanations of models are that differ only in their seed. (pair of models, text)"""

    jaccard: Numbers
    spearman: Numbers  # nan where all scores of a text are equal
    texts: int  # on which all models agree
    left_out: int  # on which they do not


def robustness(explanations: Sequence[Sequence[Explanation]], *, share: float = 0.25) -> Robustness:
    """One row of explanations a model, all by one method on the same texts; as Figures 7 and 8. Only texts on which all models agree."""
    if len(explanations) < 2:
        raise WhenceError("Robustness compares models: give the explanations of two or more.")
    by_text = list(zip(*explanations, strict=True))
    for text in by_text:
        if len({(one.text, one.pair, one.tokens) for one in text}) > 1:
            raise WhenceError("Robustness compares explanations of the same texts, in the same order and by the same tokenizer.")
    agreed = [text for text in by_text if len({one.prediction for one in text}) == 1]
    pairs = list(combinations(range(len(explanations)), 2))

    def table(alike: Callable[[Numbers, Numbers], float]) -> Numbers:
        rows = [[alike(_plain(text[a]), _plain(text[b])) for text in agreed] for a, b in pairs]
        return np.asarray(rows, dtype=np.float64).reshape(len(pairs), len(agreed))

    return Robustness(table(lambda a, b: jaccard(a, b, share=share)), table(spearman), len(agreed), len(by_text) - len(agreed))


def _plain(explanation: Explanation) -> Numbers:
    """Scores of what is not special."""
    return np.asarray([unit.score for unit in explanation.units()])


def jaccard(a: Numbers, b: Numbers, *, share: float = 0.25) -> float:
    """Of the tokens among the top share of either, the part that is among the top of both."""
    count = ceil(share * len(a))
    tops = [set(np.argsort(-scores, kind="stable")[:count].tolist()) for scores in (a, b)]
    return len(tops[0] & tops[1]) / len(tops[0] | tops[1])


def spearman(a: Numbers, b: Numbers) -> float:
    """Correlation of ranks, equal scores sharing their mean rank."""
    ranks = np.stack([rankdata(a), rankdata(b)])
    spread = ranks.std(1)
    if not spread.all():
        return float("nan")
    return float(((ranks - ranks.mean(1, keepdims=True)).prod(0)).mean() / spread.prod())
