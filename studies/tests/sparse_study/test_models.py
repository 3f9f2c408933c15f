"""Classifiers: rewritten slowly from the paper's formulae, and untouched by padding."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sparse_study.toys import ENCODERS, make_classifier, make_texts
from wherefrom_studies.sparse.data import padded
from wherefrom_studies.sparse.models import Alignment, BiLSTM, EncoderKind, Pooling, Transformer, positions
from wherefrom_studies.sparse.projections import sparsemax

TEXTS = make_texts(4, 7, 5)


@pytest.mark.parametrize(("encoder", "alignment"), [*ENCODERS, ("bilstm", "dot"), ("transformer", "additive")])
@pytest.mark.parametrize("projection", ["softmax", "sparsemax", "sparsegen:-2"])
def test_padding_and_batching_change_nothing(encoder: EncoderKind, alignment: Alignment, projection: str) -> None:
    model = make_classifier(encoder, alignment, projection)
    together = model(padded([text.ids for text in TEXTS]))
    for row, text in enumerate(TEXTS):
        alone = model(torch.tensor([text.ids]))
        torch.testing.assert_close(together.logit[row], alone.logit[0])
        torch.testing.assert_close(together.attention[row, : len(text)], alone.attention[0])
        torch.testing.assert_close(together.hidden[row, : len(text)], alone.hidden[0])
        assert bool((together.attention[row, len(text) :] == 0).all())


@pytest.mark.parametrize(("encoder", "alignment"), ENCODERS)
def test_only_words_are_attended_to(encoder: EncoderKind, alignment: Alignment) -> None:
    attention = make_classifier(encoder, alignment)(torch.tensor([TEXTS[0].ids])).attention[0]
    assert attention[0] == attention[-1] == 0
    assert bool((attention[1:-1] > 0).all())
    torch.testing.assert_close(attention.sum(), torch.tensor(1.0, dtype=torch.double))


def test_the_decision_by_the_formula() -> None:
    model = make_classifier("bilstm", "additive", "sparsemax")
    answer = model(torch.tensor([TEXTS[1].ids]))
    hidden, pool = answer.hidden[0], model.pooling
    assert isinstance(pool, Pooling)
    assert isinstance(pool.inner, torch.nn.Linear)
    scores = [pool.query.weight[0] @ torch.tanh(pool.inner.weight @ h + pool.inner.bias) for h in hidden[1:-1]]
    alpha = sparsemax(torch.stack(scores))
    torch.testing.assert_close(answer.attention[0, 1:-1], alpha)
    context = sum((a * h for a, h in zip(alpha, hidden[1:-1], strict=True)), torch.zeros_like(hidden[0]))
    torch.testing.assert_close(answer.logit[0], model.decoder.weight[0] @ context + model.decoder.bias[0])


def test_dot_alignment_is_scaled() -> None:
    model = make_classifier("transformer", "dot")
    hidden = model(torch.tensor([TEXTS[0].ids])).hidden
    wanted = (hidden @ model.pooling.query.weight[0]) / math.sqrt(hidden.shape[-1])
    torch.testing.assert_close(model.pooling.scores(hidden), wanted)


def test_the_transformer_is_torchs_own_where_the_projection_is_softmax() -> None:
    model = make_classifier("transformer", "dot")
    encoder = model.encoder
    assert isinstance(encoder, Transformer)
    ids = torch.tensor([TEXTS[1].ids])
    embedded = model.embedding(ids)
    x = embedded * math.sqrt(6) + positions(ids.shape[1], 6).double()
    for block in encoder.blocks:
        peer = torch.nn.TransformerEncoderLayer(6, 1, 6, dropout=0.0, batch_first=True).double().eval()
        layer: Any = block
        own = layer.attention
        with torch.no_grad():
            peer.self_attn.in_proj_weight.copy_(torch.cat([part.weight for part in (own.query, own.key, own.value)]))
            peer.self_attn.in_proj_bias.copy_(torch.cat([part.bias for part in (own.query, own.key, own.value)]))
            peer.self_attn.out_proj.load_state_dict(own.out.state_dict())
            peer.linear1.load_state_dict(layer.mlp[0].state_dict())
            peer.linear2.load_state_dict(layer.mlp[2].state_dict())
            peer.norm1.load_state_dict(layer.attention_norm.state_dict())
            peer.norm2.load_state_dict(layer.mlp_norm.state_dict())
        x = peer(x)
    torch.testing.assert_close(encoder(embedded, torch.ones_like(ids, dtype=torch.bool)), x)


def test_the_switch_decides_whether_self_attention_is_projected() -> None:
    ids = torch.tensor([TEXTS[1].ids])
    inside, outside, soft = (
        make_classifier("transformer", "dot", projection, inside=within)(ids)
        for projection, within in (("sparsemax", True), ("sparsemax", False), ("softmax", True))
    )
    torch.testing.assert_close(outside.hidden, soft.hidden)
    assert not torch.allclose(inside.hidden, soft.hidden)
    assert bool((outside.attention[0, 1:-1] == 0).any())


def test_the_bilstm_reads_both_ways() -> None:
    model = make_classifier("bilstm", "additive")
    assert isinstance(model.encoder, BiLSTM)
    ids = list(TEXTS[1].ids)
    before = model(torch.tensor([ids])).hidden[0]
    ids[-2] = 4 if ids[-2] != 4 else 5
    after = model(torch.tensor([ids])).hidden[0]
    torch.testing.assert_close(before[:-2, :6], after[:-2, :6])  # what is read forwards knows nothing of the end
    assert not torch.allclose(before[0, 6:], after[0, 6:])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_bilstm_is_torchs_own_on_packed_sequences_with_its_gradient(dtype: torch.dtype, training: bool) -> None:
    torch.manual_seed(0)
    encoder = BiLSTM(6).to(dtype).train(training)
    lengths = torch.tensor([4, 7, 1])
    read = torch.arange(7) < lengths[:, None]
    x = torch.randn(3, 7, 6, dtype=dtype, requires_grad=True)
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    wanted, _ = pad_packed_sequence(encoder.lstm(packed)[0], batch_first=True, total_length=7)
    found = encoder(x, read)
    torch.testing.assert_close(found, wanted)
    leaves, weight = [x, *encoder.lstm.parameters()], torch.randn_like(wanted)
    for place in (0, 3):  # twice through one graph, as importance for each representation asks
        once = torch.autograd.grad((found * weight)[:, place].sum(), leaves, retain_graph=True)
        torch.testing.assert_close(
            once,
            torch.autograd.grad((wanted * weight)[:, place].sum(), leaves, retain_graph=True),
            rtol=1e-4,
            atol=1e-6,
        )
