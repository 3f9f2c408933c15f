"""What is measured on a classifier: how important inputs and intermediate representations are, how spread out that is,
and whether attention agrees with it.

Importances are non-negative and sum to one over the words of a text:

- gradient (Eq. 4): g_y(x_i) = ||dy/de_i||, and the same at the intermediate representations h_i; attention is not held
  fixed.
- for one representation (Eq. 5): g_h(x_i) = ||d||h_p||/de_i||, or by the Jacobian, ||dh_p/de_i|| (Frobenius), as under
  a layer norm ||h_p|| hardly changes.
- leave-one-out (Eq. 6): D_y(x_i) = |y - y without token i|, encoded again; for h_i: taken out of the pool, and
  projected again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from scipy.stats import kendalltau
from torch import Tensor

from wherefrom_studies.progress import Watch, unwatched, watched
from wherefrom_studies.sparse.data import LabelledText, by_length, is_word, padded
from wherefrom_studies.sparse.models import Classifier
from wherefrom_studies.sparse.training import BATCH_TOKENS

ImportanceSubject = Literal["inputs", "intermediates"]
ImportanceDefinition = Literal["norm", "jacobian"]


class RankCorrelation(NamedTuple):
    """Kendall's tau-b of one text, and the chance of it if there were no relation. NaN where one side is constant."""

    tau: float
    p: float


def agreement(a: Tensor, b: Tensor) -> RankCorrelation:
    if bool((a == a[0]).all()) or bool((b == b[0]).all()):
        return RankCorrelation(math.nan, math.nan)
    correlation = kendalltau(a.numpy(), b.numpy())  # b is scipy's default variant
    return RankCorrelation(float(correlation.statistic), float(correlation.pvalue))


def normalised_entropy(shares: Tensor) -> Tensor:
    """-sum p log p / log n: 1 where all n matter alike, 0 where one does. (..., n) -> (...)"""
    size = shares.shape[-1]
    return -torch.xlogy(shares, shares).sum(-1) / math.log(size) if size > 1 else shares.new_zeros(shares.shape[:-1])


def _shares(sizes: Tensor) -> Tensor:
    """Sizes that sum to one; all alike where nothing has a size."""
    total = sizes.sum(-1, keepdim=True)
    return torch.where(total > 0, sizes / total.clamp(min=torch.finfo(sizes.dtype).tiny), 1 / sizes.shape[-1])


def gradient_importance(
    model: Classifier, texts: Sequence[LabelledText], *, of: ImportanceSubject = "inputs"
) -> list[Tensor]:
    """g_y of every word of every text. [(word,)]"""

    def sizes(ids: Tensor) -> Tensor:
        leaf = model.embedding(ids).detach().requires_grad_()
        if of == "inputs":
            logit = model.read(leaf, ids).logit
        else:
            leaf = model.read(leaf, ids).hidden.detach().requires_grad_()
            logit = model.decide(model.pooling(leaf, is_word(ids)), leaf)
        # Of the logit: the sigmoid's slope is the same factor for all words and falls out, but could underflow.
        gradient: Tensor = torch.autograd.grad(logit.sum(), leaf)[0]
        size: Tensor = gradient.norm(dim=-1)
        return size

    return _by_text(texts, sizes)


def _by_text(texts: Sequence[LabelledText], sizes: Callable[[Tensor], Tensor]) -> list[Tensor]:
    by_text = [torch.empty(0)] * len(texts)
    for rows in by_length([len(text) for text in texts], tokens=BATCH_TOKENS):
        ids = padded([texts[i].ids for i in rows])
        words = is_word(ids)
        for i, row, mask in zip(rows, sizes(ids), words, strict=True):
            by_text[i] = _shares(row[mask].double())
    return by_text


def importance_for_intermediates(
    model: Classifier,
    texts: Sequence[LabelledText],
    *,
    definition: ImportanceDefinition = "norm",
    probes: int = 2,
    seed: int = 0,
    watch: Watch = unwatched,
) -> list[Tensor]:
    """g_h of every word, for the representation of every word. [(representation, word)]

    The Jacobian's norm is estimated with random probes v: the mean of ||v'J||^2 is ||J||^2.
    """
    chance = torch.Generator().manual_seed(seed)
    importances = [torch.empty(0)] * len(texts)
    batches = by_length([len(text) for text in texts], tokens=BATCH_TOKENS)
    for rows in watched(batches, watch, f"inputs for intermediates, by {definition}"):
        ids = padded([texts[i].ids for i in rows])
        leaf = model.embedding(ids).detach().requires_grad_()
        hidden = model.read(leaf, ids).hidden  # (row, place, m)
        sizes = hidden.new_zeros(*ids.shape, ids.shape[1])  # (row, representation, place)
        for place in range(ids.shape[1]):
            state = hidden[:, place]
            if definition == "norm":
                sizes[:, place] = torch.autograd.grad(state.norm(dim=-1).sum(), leaf, retain_graph=True)[0].norm(dim=-1)
                continue
            for _ in range(probes):
                probe = torch.randn(state.shape, generator=chance)
                sizes[:, place] += (
                    torch.autograd.grad((state * probe).sum(), leaf, retain_graph=True)[0].square().sum(-1)
                )
            sizes[:, place] = (sizes[:, place] / probes).sqrt()
        words = is_word(ids)
        for i, table, mask in zip(rows, sizes.double(), words, strict=True):
            importances[i] = _shares(table[mask][:, mask])
    return importances


@torch.no_grad()
def leave_one_out(
    model: Classifier, texts: Sequence[LabelledText], *, of: ImportanceSubject = "inputs", watch: Watch = unwatched
) -> list[Tensor]:
    """D_y of every word of every text. [(word,)]"""
    return _without_inputs(model, texts, watch) if of == "inputs" else _without_intermediates(model, texts)


def _without_inputs(model: Classifier, texts: Sequence[LabelledText], watch: Watch) -> list[Tensor]:
    whole = torch.empty(len(texts), dtype=torch.double)
    left = [torch.empty(len(text) - 2, dtype=torch.double) for text in texts]
    # Row 0 is the whole text, row i the text without its i-th word (place 0 is START).
    places = [(number, place) for number, text in enumerate(texts) for place in range(len(text) - 1)]
    batches = by_length([len(texts[number]) for number, _ in places], tokens=BATCH_TOKENS)
    for batch in watched(batches, watch, "leave one out"):
        ids = padded([_without(texts[places[i][0]].ids, places[i][1]) for i in batch])
        for i, y in zip(batch, model(ids).logit.double().sigmoid(), strict=True):
            number, place = places[i]
            if place:
                left[number][place - 1] = y
            else:
                whole[number] = y
    return [_shares((y - without).abs()) for y, without in zip(whole, left, strict=True)]


def _without(ids: tuple[int, ...], place: int) -> tuple[int, ...]:
    return ids[:place] + ids[place + 1 :] if place else ids


def _without_intermediates(model: Classifier, texts: Sequence[LabelledText]) -> list[Tensor]:
    def sizes(ids: Tensor) -> Tensor:
        answer, words = model(ids), is_word(ids)
        scores = model.pooling.scores(answer.hidden)[:, None]  # (row, 1, place)
        others = words[:, None] & ~torch.eye(ids.shape[1], dtype=torch.bool)  # (row, left out, place)
        without = model.decide(model.pooling.projection(scores, mask=others), answer.hidden[:, None])  # (row, left out)
        lost: Tensor = answer.logit.double().sigmoid()[:, None] - without.double().sigmoid()
        return lost.abs()

    return _by_text(texts, sizes)


def attention_over_words(attention: Sequence[Tensor], texts: Sequence[LabelledText]) -> list[Tensor]:
    """Attention without START, END: they have none. [(word,)]"""
    return [row[1 : len(text) - 1].double() for row, text in zip(attention, texts, strict=True)]
