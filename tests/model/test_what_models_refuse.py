"""Texts that a model itself does not take, and gradients that it does not have, are errors written for the user."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import make_model, make_network, tokenizer
from transformers import RwkvConfig, RwkvForCausalLM

import wherefrom
from wherefrom.api import Model
from wherefrom.errors import EmptyText, ModelFailed, NotSeen


def test_a_model_that_overwrites_what_its_gradient_needs() -> None:
    """RWKV's attention writes in place. Its configuration has no padding, either."""
    reader = tokenizer(0, "none")
    sizes: dict[str, Any] = {
        "context_length": 16,
        "hidden_size": 16,
        "attention_hidden_size": 16,
        "intermediate_size": 24,
    }
    torch.manual_seed(0)
    network = RwkvForCausalLM(RwkvConfig(vocab_size=len(reader), **sizes)).eval()
    model = wherefrom.load((network, reader))
    for text in ("a fine film", "film " * 15):
        with pytest.raises(NotSeen, match="only queries it"):
            model.explain(text, "saliency")
        with pytest.raises(NotSeen, match="only queries it"):
            model.generate_and_explain(text, method="saliency", tokens=1)
        with pytest.raises(NotSeen, match="only queries it"):
            model.explain(text, "integrated_gradients")
        assert len(model.explain(text, "occlusion").scores) == len(text.split())
    with pytest.warns(wherefrom.TextWasCut, match="the model reads 16"):
        assert model.predicted("film " * 100)


def test_a_question_that_longformer_does_not_take() -> None:
    """It counts three separators, of which this tokenizer writes two; with its own it answers, and refuses a fourth."""
    network = make_network("longformer", task="question_answering")
    model = wherefrom.load((network, tokenizer(1, "both")))
    for method in ("saliency", "occlusion"):
        with pytest.raises(ModelFailed, match="exactly three separator tokens") as problem:
            model.explain(("a film", "not bad"), method)
        assert "\n" not in str(problem.value)
    usual = wherefrom.load((network, tokenizer(1, "two")))
    assert usual.explain(("a film", "not bad"), "occlusion").target
    with pytest.raises(ModelFailed, match="exactly three separator tokens"):
        usual.explain(("a [SEP] film", "not bad"), "occlusion")


@pytest.mark.parametrize("context", ["\x00\x01", "\x08", "\u200b\x02"])
def test_a_context_that_is_only_control_characters(context: str) -> None:
    model = Model(make_model("bert", task="question_answering"))
    with pytest.raises(EmptyText, match="nothing to read in the context"):
        model.predicted(("what is it ?", context))
