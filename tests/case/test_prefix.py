"""Rows that begin alike share what a causal model computes of their beginning, and get the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import FAMILIES, make_model, tiny, tokenizer
from tolerances import TOLERANCE, assert_close, tolerance_of
from torch import Tensor
from transformers import BertConfig, BertLMHeadModel

from wherefrom.api import Model
from wherefrom.case.asking import Asker
from wherefrom.model.hiding import fill_token
from wherefrom.model.network import embedding_table, inputs_of, padded_inputs
from wherefrom.model.tasks import find_task
from wherefrom.model.text_model import PassCount, TextModel

TEXT = "the film was not bad , but the plot is dull and the acting was never very fine !"
# Of every family that gives a cache, one or more; the others are built like one of these.
CAUSAL = [
    *("gpt2", "llama", "mistral", "qwen3", "gemma2", "gpt_neox", "gemma3_text", "phi", "stablelm", "cohere2", "glm"),
    *("opt", "gpt_neo", "gptj", "bloom", "falcon", "mpt", "mixtral", "qwen3_moe", "gpt_oss"),
]


@contextmanager
def tokens_computed(model: TextModel) -> Iterator[list[int]]:
    """How many tokens, with padding, go through the first block."""
    seen: list[int] = []

    def note(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = args[0] if args else kwargs["hidden_states"]
        seen.append(given.shape[0] * given.shape[1])

    handle = model.network.anatomy.blocks[0].module.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield seen
    finally:
        handle.remove()


def one_hidden(model: TextModel) -> tuple[Any, np.ndarray[Any, Any]]:
    encoding = model.encode(TEXT)
    return encoding, ~np.eye(len(encoding), dtype=np.bool_)


def asked(model: TextModel, fill: str) -> tuple[Tensor, Asker]:
    asker, (encoding, keep) = Asker(model), one_hidden(model)
    found = asker.note(encoding, keep, fill)
    asker.run()
    return found.logits, asker


@torch.no_grad()
def alone(model: TextModel, fill: str) -> Tensor:
    """Every row by itself and from its start."""
    encoding, keep = one_hidden(model)
    answers = []
    for row in keep | np.asarray(encoding.special):
        if fill == "delete":
            ids = [token for token, stays in zip(encoding.input_ids, row, strict=True) if stays]
            answers.append(model.run(padded_inputs(model.network, [ids], [None]), PassCount(), whole=True)[0])
        else:
            inputs = inputs_of(model.network, [encoding])
            words = torch.where(torch.tensor(row), inputs["input_ids"], fill_token(model, fill))
            answers.append(model.run(inputs, PassCount(), model.network.embed(words), whole=True)[0])
    return torch.stack(answers)


@pytest.mark.parametrize("family", CAUSAL)
def test_answers_are_those_of_rows_from_the_start(family: str) -> None:
    model = tiny(family, torch.float64) if family in FAMILIES else make_model(family, dtype=torch.float64)
    assert model.shares_prefixes
    for fill in ("unk", "delete"):
        with tokens_computed(model) as seen:
            found, asker = asked(model, fill)
        assert_close(found, alone(model, fill), tolerance=tolerance_of(model))
        if (family, fill) != ("mpt", "delete"):  # rows of different lengths are not padded, and share no beginning
            assert sum(seen) < 0.9 * asker.distinct * len(one_hidden(model)[0])


@pytest.mark.parametrize("window", [3, 64])
def test_a_sliding_window_still_sees_what_it_saw(window: int) -> None:
    model = make_model("mistral", dtype=torch.float64, sliding_window=window)
    assert model.shares_prefixes
    assert_close(asked(model, "unk")[0], alone(model, "unk"), tolerance=tolerance_of(model))


def test_a_model_that_is_not_causal_runs_from_the_start() -> None:
    """It takes a cache and reads its last token, but its first tokens see those behind them."""
    sizes: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    words = tokenizer(0, "none")
    torch.manual_seed(0)
    network = BertLMHeadModel(BertConfig(**sizes, intermediate_size=48, vocab_size=len(words), is_decoder=False))
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.35)
    model = TextModel.of(network.double().eval(), words, task=find_task("causal_lm"))
    assert not model.shares_prefixes
    assert_close(asked(model, "unk")[0], alone(model, "unk"), tolerance=tolerance_of(model))


def test_an_encoder_is_not_even_tried() -> None:
    model = tiny("bert", torch.float64)
    with tokens_computed(model) as seen:
        found, _ = asked(model, "unk")
    assert not model.shares_prefixes
    # rows that hide [CLS] or [SEP] are the text itself, which is asked once
    assert sum(seen) == (len(found) - 1) * len(one_hidden(model)[0])


def test_rows_that_leave_the_text_early_are_asked_as_they_are() -> None:
    model = tiny("gpt2", torch.float64)
    encoding, _ = one_hidden(model)
    keep = np.random.default_rng(0).random((12, len(encoding))) < 0.5
    keep[:, 0] = False
    asker = Asker(model)
    asker.note(encoding, keep, "unk")
    asker.run()
    assert asker.rows == asker.distinct  # no pass of the text alone


def test_a_model_without_padding_shares_too() -> None:
    padded = make_model("gpt2", dtype=torch.float64)
    padded.network.module.config.pad_token_id = None
    model = TextModel.of(padded.network.module, padded.reading.tokenizer)
    assert not model.network.facts.takes_batches
    assert model.shares_prefixes
    assert_close(asked(model, "unk")[0], alone(model, "unk"), tolerance=tolerance_of(model))


def test_a_text_that_ends_with_padding_is_read_before_it() -> None:
    """A classifier of this kind reads the last token that is no padding, which stands before what is hidden last."""
    model = make_model("gpt2", dtype=torch.float64)
    encoding = model.encode(f"{TEXT} [PAD] [PAD]")
    keep = ~np.eye(len(encoding), dtype=np.bool_)
    asker, inputs = Asker(model), inputs_of(model.network, [encoding])
    found = asker.note(encoding, keep, "unk")
    asker.run()
    for answer, row in zip(found.logits, keep | np.asarray(encoding.special), strict=True):
        words = torch.where(torch.tensor(row), inputs["input_ids"], fill_token(model, "unk"))
        with torch.no_grad():
            expected = model.run(inputs, PassCount(), model.network.embed(words), whole=True)[0]
        assert_close(answer, expected, tolerance=tolerance_of(model))


@pytest.mark.parametrize("fill", ["unk", "delete"])
def test_the_tokens_of_a_continuation_share_it(fill: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def explained() -> Tensor:
        model = Model(make_model("gpt2", task="causal_lm", dtype=torch.float64))
        found = model.generate_and_explain(TEXT, "occlusion", continuation="it is good", fill=fill)
        scores = [score for step in range(3) for score in found.step(step).scores]
        return torch.tensor(scores, dtype=torch.float64)

    shared = explained()
    monkeypatch.setattr(TextModel, "shares_prefixes", False)
    assert_close(shared, explained(), tolerance=TOLERANCE[torch.float64])


def test_the_model_is_left_as_it_was() -> None:
    model = make_model("llama")
    before = (
        deepcopy(model.network.module.config.to_dict()),
        {n: p.clone() for n, p in model.network.module.named_parameters()},
    )
    asked(model, "unk")
    assert model.network.module.config.to_dict() == before[0]
    assert all(torch.equal(before[1][name], one) for name, one in model.network.module.named_parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.network.module.modules())


def test_an_answer_that_is_none_is_told_apart() -> None:
    """A row that the model answers with NaN behind a shared beginning costs only whoever asked it."""
    model = make_model("gpt2", dtype=torch.float64)
    with torch.no_grad():
        embedding_table(model.network)[fill_token(model, "unk")] = torch.nan
    asker, (encoding, keep) = Asker(model), one_hidden(model)
    asker.note(encoding, keep, "unk")
    good = asker.note(encoding, np.ones((1, len(encoding)), dtype=np.bool_), "unk")
    asker.run()
    assert good.logits.isfinite().all()
    assert len(asker.unanswered) == asker.distinct - 1
