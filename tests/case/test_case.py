"""Encoding, targets, and how many passes a case makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from tiny_models import FAMILIES, make_model, tiny
from tolerances import assert_close, tolerance_of
from torch import nn
from toys import case_of

from wherefrom.api import Model
from wherefrom.case.case import make_cases
from wherefrom.case.kinds import KINDS
from wherefrom.core.target import resolve_target
from wherefrom.errors import MissingToken, UnknownName
from wherefrom.model.hiding import fill_token
from wherefrom.model.network import embedding_table, inputs_of
from wherefrom.model.text_model import PassCount
from wherefrom.registry import all_methods


@contextmanager
def counting(network: nn.Module) -> Iterator[dict[str, int]]:
    """Real forward calls of the model, and real backward passes through its first block."""
    seen = {"forward": 0, "backward": 0}

    def forward(*_: object) -> None:
        seen["forward"] += 1

    true_grad = torch.autograd.grad

    def grad(*args: Any, **kwargs: Any) -> Any:
        seen["backward"] += 1
        return true_grad(*args, **kwargs)

    handle = network.register_forward_hook(forward)
    torch.autograd.grad = grad
    try:
        yield seen
    finally:
        handle.remove()
        torch.autograd.grad = true_grad


def test_methods_that_read_the_capture_share_one_forward_and_one_backward() -> None:
    model = make_model("bert")
    # Optimus asks about hidden words, too, and relevance has a backward pass of its own.
    reading = [
        row
        for row in all_methods()
        if row.needs() <= KINDS["graph"].serves - {"answers", "path"} and row.family != "floor"
    ]
    assert len(reading) >= 10
    with counting(model.network.module) as seen:
        case = case_of(model, "the film was not bad", reads={need for row in reading for need in row.needs()})
        for row in reading:
            row(case)
    assert seen == {"forward": 1, "backward": 1}
    assert (case.passes.count.forwards, case.passes.count.backwards) == (1, 1)


@pytest.mark.parametrize(
    ("method", "forward", "backward"),
    [
        ("raw_attention", 1, 0),
        ("attcat", 1, 1),
        ("attention_gradients", 1, 1),
        ("saliency", 1, 1),
        ("random", 1, 0),
        ("occlusion", 1, 0),
        ("optimus", 1, 0),
        ("integrated_gradients", 3, 1),
    ],
)
def test_one_explanation_makes_no_pass_too_many(method: str, forward: int, backward: int) -> None:
    # occlusion, optimus: the text and its hidden tokens in one batch; integrated gradients: prediction, the way in one
    # batch, baseline
    model = make_model("bert")
    with counting(model.network.module) as seen:
        options: dict[str, Any] = {"steps": 5} if method == "integrated_gradients" else {}
        explanation = Model(model).explain("the film was not bad", method, **options)
    assert seen == {"forward": forward, "backward": backward}
    rows = {"occlusion": (1 + 5, 0), "optimus": (1 + 5, 0), "integrated_gradients": (1 + 5 + 1, 5)}
    assert (explanation.forwards, explanation.backwards) == rows.get(method, (forward, backward))


def test_a_list_is_one_batch() -> None:
    model = make_model("bert")
    with counting(model.network.module) as seen:
        explanations = Model(model).explain(["a film", "the film was not bad", "dull"], "attcat")
    assert seen == {"forward": 1, "backward": 1}
    assert [e.text for e in explanations] == ["a film", "the film was not bad", "dull"]


def test_a_long_list_is_cut_into_batches_that_fit() -> None:
    model = make_model("bert")
    object.__setattr__(model, "batch_tokens", 20)
    sizes = [
        (len(cases), max(len(c.encoding) for c in cases.values()))
        for cases in make_cases(model, [model.encode("a film")] * 11, [None] * 11)
    ]
    assert sizes == [(5, 4), (5, 4), (1, 4)]


def test_a_decoder_without_padding_answers_row_by_row() -> None:
    model = make_model("gpt2", pad_token_id=None)
    assert not model.network.facts.takes_batches
    with_padding = make_model("gpt2")
    for method in ("attcat", "occlusion", "integrated_gradients"):
        one, other = (Model(m).explain(["a film", "the film was dull"], method) for m in (model, with_padding))
        for a, b in zip(one, other, strict=True):
            assert a.scores == pytest.approx(b.scores, rel=1e-4, abs=1e-6)


def test_no_question_is_put_twice() -> None:
    case = case_of(make_model("bert"), "the film was not bad")
    hidden = ~torch.eye(7, dtype=torch.bool)[1:6]
    first = case.ask(hidden, "mask")
    asked = case.own_count.forwards
    torch.testing.assert_close(case.ask(hidden.flip(0), "mask").flip(0), first)
    assert case.own_count.forwards == asked == 5
    case.ask(hidden, "unk")
    assert case.own_count.forwards == 10


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet", "gpt2", "bart"])
def test_hidden_tokens_keep_all_positions(family: str) -> None:
    """Hiding by the padding token must not shift RoBERTa's positions or move a decoder's last token."""
    model = tiny(family, torch.float64)
    case = case_of(model, "the film was not bad")
    n = len(case.encoding)
    keep = torch.ones(1, n, dtype=torch.bool)
    keep[0, n - 2 if family != "gpt2" else n - 1] = False  # the last word
    table = embedding_table(model.network).data
    pad, word = fill_token(model, "pad"), case.encoding.input_ids[n - 2 if family != "gpt2" else n - 1]
    found = case.answers(keep, "pad")
    kept = table[word].clone()
    try:
        table[word] = table[pad]  # the same question put differently: the word itself looks like padding
        expected = model.run(inputs_of(model.network, [case.encoding]), case.own_count)
    finally:
        table[word] = kept
    assert_close(found, expected, tolerance=tolerance_of(model))


@pytest.mark.parametrize("family", FAMILIES)
def test_leaving_out_what_is_not_read_changes_no_answer(family: str) -> None:
    model = tiny(family, torch.float64)
    inputs = inputs_of(
        model.network, [model.encode(text) for text in ("the film was not bad", "a film", "dull and very bad!")]
    )
    with torch.no_grad():
        short, whole = (model.run(inputs, PassCount(), whole=whole) for whole in (False, True))
    assert_close(short, whole, tolerance=tolerance_of(model))


def test_a_missing_token_is_named() -> None:
    model = tiny("gpt2")
    with pytest.raises(MissingToken, match=r"no mask token.*unk, pad, eos"):
        Model(model).explain("a film", "occlusion", fill="mask")
    assert Model(model).explain("a film", "occlusion").params == {"fill": "unk"}


def test_other_targets_share_the_forward_pass() -> None:
    model = make_model("bert", dtype=torch.float64)
    with counting(model.network.module) as seen:
        case = case_of(model, "the film was not bad", target=0)
        other = case.toward(model.target(2))
        assert not torch.equal(case.gradients.embeddings, other.gradients.embeddings)
    assert seen == {"forward": 1, "backward": 2}
    alone = case_of(model, "the film was not bad", target=2)
    torch.testing.assert_close(other.gradients.embeddings, alone.gradients.embeddings)


def test_multi_label_models_give_every_label_its_own_probability() -> None:
    model = make_model("bert", problem_type="multi_label_classification")
    explanation = Model(model).explain("a film", target=1)
    logits = case_of(model, "a film").logits.double()
    assert explanation.probability == pytest.approx(logits.sigmoid()[1].item())
    assert list(explanation.probabilities.values()) == pytest.approx(logits.sigmoid().tolist())


def test_targets_by_name_and_number() -> None:
    labels = ["NEGATIVE", "POSITIVE", "7"]
    assert resolve_target("positive", labels, independent=False).index == 1
    assert resolve_target(-1, labels, independent=False).index == 2
    assert resolve_target("7", labels, independent=False).index == 2  # a name comes before a number
    assert resolve_target("0", labels, independent=False).index == 0
    with pytest.raises(UnknownName, match="Did you mean 'POSITIVE'"):
        resolve_target("positve", labels, independent=False)
    with pytest.raises(UnknownName, match="NEGATIVE, POSITIVE, 7"):
        resolve_target("zzz", labels, independent=False)
    with pytest.raises(UnknownName, match="the model has 3"):
        resolve_target(3, labels, independent=False)


def test_pairs_words_and_sentences() -> None:
    encoding = make_model("bert").encode("A great film. It was fine", "Not xyz!")
    assert encoding.tokens[-5:] == ("x", "##y", "##z", "!", "[SEP]")
    assert encoding.word_of[-5:] == (8, 8, 8, 9, -1)
    assert encoding.sentence_of == (-1, 0, 0, 0, 0, 1, 1, 1, -1, 2, 2, 2, 2, 2, -1)
    assert encoding.segment == (-1, *(0,) * 7, -1, *(1,) * 5, -1)
    assert [encoding.tokens[i] for i in encoding.members("word")[8]] == ["[SEP]"]
