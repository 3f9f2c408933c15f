"""Measures: each rewritten slowly from the paper's formula, one text at a time, without padding."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.func import jacrev

from sparse_study.toys import ENCODERS, make_classifier, make_texts
from wherefrom_studies.sparse.data import LabelledText, is_word
from wherefrom_studies.sparse.measures import (
    agreement,
    attention_over_words,
    gradient_importance,
    importance_for_intermediates,
    leave_one_out,
    normalised_entropy,
)
from wherefrom_studies.sparse.models import Alignment, Classifier, EncoderKind
from wherefrom_studies.sparse.training import answers

TEXTS = make_texts(4, 7, 5)
each_encoder = pytest.mark.parametrize(("encoder", "alignment"), ENCODERS)
each_projection = pytest.mark.parametrize("projection", ["softmax", "sparsemax"])


def parts(model: Classifier, text: LabelledText) -> tuple[Tensor, Tensor, Tensor]:
    ids = torch.tensor([text.ids])
    embeddings = model.embedding(ids).detach()
    return ids, embeddings, model.read(embeddings, ids).hidden.detach()


@each_encoder
@each_projection
def test_gradient_of_inputs(encoder: EncoderKind, alignment: Alignment, projection: str) -> None:
    model = make_classifier(encoder, alignment, projection)
    for text, found in zip(TEXTS, gradient_importance(model, TEXTS), strict=True):
        ids, embeddings, _ = parts(model, text)
        embeddings.requires_grad_()
        y = model.read(embeddings, ids).logit.sigmoid().sum()
        sizes = torch.autograd.grad(y, embeddings)[0][0, 1:-1].square().sum(-1).sqrt()
        torch.testing.assert_close(found, sizes / sizes.sum())


@each_encoder
@each_projection
def test_gradient_of_intermediates_lets_attention_move(
    encoder: EncoderKind, alignment: Alignment, projection: str
) -> None:
    model = make_classifier(encoder, alignment, projection)
    for text, found in zip(TEXTS, gradient_importance(model, TEXTS, of="intermediates"), strict=True):
        ids, _, hidden = parts(model, text)
        hidden.requires_grad_()
        attention = model.pooling(hidden, is_word(ids))
        y = model.decoder((attention[0][:, None] * hidden[0]).sum(0)).sigmoid()
        sizes = torch.autograd.grad(y.sum(), hidden)[0][0, 1:-1].norm(dim=-1)
        torch.testing.assert_close(found, sizes / sizes.sum())
        if projection == "softmax":  # held fixed, attention would be its own importance
            assert not torch.allclose(found, attention[0, 1:-1].detach(), atol=1e-3)


@each_encoder
def test_inputs_for_an_intermediate_by_its_norm(encoder: EncoderKind, alignment: Alignment) -> None:
    model = make_classifier(encoder, alignment)
    for text, found in zip(TEXTS, importance_for_intermediates(model, TEXTS), strict=True):
        ids, embeddings, _ = parts(model, text)
        for p in range(1, len(text) - 1):

            def size(e: Tensor, p: int = p, ids: Tensor = ids) -> Tensor:
                norm: Tensor = model.read(e, ids).hidden[0, p].norm()
                return norm

            leaf = embeddings.clone().requires_grad_()
            sizes = torch.autograd.grad(size(leaf), leaf)[0][0, 1:-1].norm(dim=-1)
            torch.testing.assert_close(found[p - 1], sizes / sizes.sum())


def test_inputs_for_an_intermediate_by_its_jacobian() -> None:
    model, text = make_classifier("transformer", "dot"), TEXTS[0]
    ids, embeddings, _ = parts(model, text)
    jacobian = jacrev(lambda e: model.read(e, ids).hidden[0])(embeddings)[:, :, 0]  # (representation, m, place, size)
    sizes = jacobian.square().sum((1, 3)).sqrt()[1:-1, 1:-1]
    wanted = sizes / sizes.sum(-1, keepdim=True)
    found = importance_for_intermediates(model, [text], definition="jacobian", probes=500)[0]
    torch.testing.assert_close(found, wanted, atol=0.02, rtol=0)
    by_norm = importance_for_intermediates(model, [text])[0]
    assert (by_norm - wanted).abs().max() > 0.05  # the two definitions do differ


@each_encoder
@each_projection
def test_leaving_out_inputs(encoder: EncoderKind, alignment: Alignment, projection: str) -> None:
    model = make_classifier(encoder, alignment, projection)
    for text, found in zip(TEXTS, leave_one_out(model, TEXTS), strict=True):
        whole = model(torch.tensor([text.ids])).logit.sigmoid()
        lost = []
        for place in range(1, len(text) - 1):
            left = [*text.ids[:place], *text.ids[place + 1 :]]
            lost.append((whole - model(torch.tensor([left])).logit.sigmoid()).abs().item())
        torch.testing.assert_close(found, torch.tensor(lost, dtype=torch.double) / sum(lost))


@each_encoder
@each_projection
def test_leaving_out_intermediates(encoder: EncoderKind, alignment: Alignment, projection: str) -> None:
    model = make_classifier(encoder, alignment, projection)
    for text, found in zip(TEXTS, leave_one_out(model, TEXTS, of="intermediates"), strict=True):
        _, _, hidden = parts(model, text)
        words = hidden[0, 1:-1]

        def decide(rows: Tensor) -> Tensor:
            alpha = model.pooling.projection(model.pooling.scores(rows[None])[0])
            return torch.sigmoid(model.decoder(alpha @ rows))

        lost = torch.cat(
            [(decide(words) - decide(torch.cat([words[:i], words[i + 1 :]]))).abs() for i in range(len(words))]
        )
        torch.testing.assert_close(found, lost / lost.sum())


@pytest.mark.parametrize("projection", ["sparsemax"])
def test_what_sparse_attention_drops_has_no_leave_one_out_importance(projection: str) -> None:
    model = make_classifier("bilstm", "additive", projection)
    attention = attention_over_words(answers(model, TEXTS)[1], TEXTS)
    assert any(bool((one == 0).any()) for one in attention)
    for own, lost in zip(attention, leave_one_out(model, TEXTS, of="intermediates"), strict=True):
        assert bool((lost[own == 0] < 1e-12).all())


def test_entropy_by_hand() -> None:
    shares = torch.tensor([[0.25] * 4, [1.0, 0, 0, 0], [0.5, 0.5, 0, 0]])
    torch.testing.assert_close(normalised_entropy(shares), torch.tensor([1.0, 0.0, 0.5]))
    assert normalised_entropy(torch.ones(1)).item() == 0.0


def test_agreement_by_hand() -> None:
    ranked = torch.tensor([0.1, 0.2, 0.3, 0.4])
    assert agreement(ranked, ranked * 2).tau == pytest.approx(1)
    assert agreement(ranked, -ranked).tau == pytest.approx(-1)
    # three of six pairs tie on one side, the others agree: 3 / sqrt(3 * 6)
    assert agreement(torch.tensor([0.0, 0, 0, 1]), ranked).tau == pytest.approx(3 / math.sqrt(18))
    assert agreement(ranked, ranked).p == pytest.approx(2 / 24)  # exact: two of the 4! orders are as extreme
    assert math.isnan(agreement(torch.ones(4), ranked).tau)
