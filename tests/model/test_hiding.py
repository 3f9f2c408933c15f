"""Hiding a word is replacing its id: whatever the module is that turns ids into vectors, and however it sees them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import FAMILIES, tiny, tokenizer
from toys import case_of
from transformers import (
    LongformerConfig,
    LongformerForSequenceClassification,
    PreTrainedModel,
    XLNetConfig,
    XLNetForSequenceClassification,
)

from wherefrom.api import Model
from wherefrom.errors import NotSeen
from wherefrom.model.hiding import fill_token
from wherefrom.model.network import inputs_of
from wherefrom.model.text_model import PassCount, TextModel

TEXTS = ["the film was not bad, but dull!", "a great film"]
METHODS = ("occlusion", "saliency", "integrated_gradients", "kernel_shap")


def lively(network: PreTrainedModel) -> PreTrainedModel:
    """Weights so large that hiding a word moves the answer by far more than rounding."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    network.double().eval()
    return network


def xlnet() -> TextModel:
    """Its embedding layer sees tokens in front of rows."""
    sizes: dict[str, Any] = {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}
    sizes |= {"vocab_size": len(tokenizer()), "pad_token_id": 0, "num_labels": 3}
    config = XLNetConfig(**sizes)
    return TextModel.of(lively(XLNetForSequenceClassification(config)), tokenizer())


def longformer() -> TextModel:
    """Its embedding layer sees texts padded to a window."""
    sizes: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 48, "max_position_embeddings": 66, "attention_window": 8}
    sizes |= {"vocab_size": len(tokenizer(1)), "pad_token_id": 1, "num_labels": 3}
    config = LongformerConfig(**sizes)
    return TextModel.of(lively(LongformerForSequenceClassification(config)), tokenizer(1))


def low_rank() -> TextModel:
    """A table of words with a LoRA adapter around it, which looks the ids up a second time."""
    peft = pytest.importorskip("peft", reason="peft is not installed, so no adapter can be put on a model")
    network = lively(tiny("bert", torch.float64).network.module.__class__(tiny("bert").network.module.config))
    config = peft.LoraConfig(target_modules=["word_embeddings", "query"], r=4, init_lora_weights=False)
    adapted = peft.get_peft_model(network, config).double().eval()
    return TextModel.of(adapted.get_base_model(), tokenizer())


def models() -> dict[str, Any]:
    known = {family: (lambda family=family: tiny(family, torch.float64)) for family in FAMILIES}
    return known | {"xlnet": xlnet, "longformer": longformer, "LoRA": low_rank}


@pytest.mark.parametrize("name", list(models()))
def test_hiding_equals_replacing_the_id(name: str) -> None:
    model = models()[name]()
    encodings = [model.encode(text) for text in TEXTS[: 1 + model.network.facts.takes_batches]]
    inputs, filler = (
        inputs_of(model.network, encodings),
        fill_token(model, "unk"),
    )  # which moves no position, as a padding id might
    replaced = inputs["input_ids"].clone()
    replaced[:, 2] = filler
    with torch.no_grad():
        expected = model.run({**inputs, "input_ids": replaced}, PassCount(), whole=True)
        found = model.run(inputs, PassCount(), model.network.embed(replaced), whole=True)
        plain = model.run(inputs, PassCount(), whole=True)
    scale = expected.abs().max()
    assert (expected - plain).abs().max() > 1e-6 * scale  # hiding does something
    # Families that compute in single precision inside differ by its rounding; a word that is not hidden, by far more.
    assert (found - expected).abs().max() <= 1e-5 * scale
    if name not in ("gemma2",):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["xlnet", "longformer", "LoRA"])
def test_methods_measure_what_hiding_does(name: str) -> None:
    model = models()[name]()
    case = case_of(model, TEXTS[0])
    for method in METHODS:
        options: dict[str, Any] = {"samples": 64} if method == "kernel_shap" else {}
        explanation = Model(model).explain(TEXTS[0], method, **options)
        assert max(map(abs, explanation.scores)) > 1e-4, method
    occlusion = Model(model).explain(TEXTS[0], "occlusion", target=0, fill="unk")
    inputs, place = inputs_of(model.network, [case.encoding]), 3
    changed = inputs["input_ids"].clone()
    changed[0, place] = fill_token(model, "unk")
    with torch.no_grad():
        logits = [
            model.network.module(**{**inputs, "input_ids": ids}).logits[0, 0] for ids in (inputs["input_ids"], changed)
        ]
    assert occlusion.scores[place] == pytest.approx(float(logits[0] - logits[1]), rel=1e-8)


def test_words_that_do_not_arrive_are_an_error() -> None:
    """A model that turns its ids about in a way nobody knows must not be explained as if words had been hidden."""
    model = tiny("bert")
    inner = model.network.module.get_input_embeddings()

    def turned(module: torch.nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (args[0].flip(1),) if args[0].ndim == 2 else args

    model = TextModel.of(model.network.module, tokenizer())
    handle = inner.register_forward_pre_hook(turned)
    try:
        with pytest.raises(NotSeen, match="hidden words would not be hidden"):
            Model(model).explain(TEXTS[0], "occlusion")
        assert Model(model).explain(TEXTS[0], "random").prediction
    finally:
        handle.remove()
