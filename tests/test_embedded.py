"""The model inside the package."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
import torch

import wherefrom

FOLDER = Path(str(resources.files("wherefrom"))) / "model" / "builtin" / "sentiment"


@pytest.fixture(scope="module")
def model() -> wherefrom.Model:
    return wherefrom.load("embedded")


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("A gorgeous, witty and moving film.", "POSITIVE"),
        ("Dull, predictable and far too long.", "NEGATIVE"),
        ("The acting was not bad at all!", "POSITIVE"),
        ("I want those two hours of my life back.", "NEGATIVE"),
    ],
)
def test_it_tells_good_from_bad(model: wherefrom.Model, text: str, label: str) -> None:
    assert model.explain(text, "random").prediction == label


def test_its_explanation_points_at_the_words_that_say_so(model: wherefrom.Model) -> None:
    for method in ("attcat", "integrated_gradients", "occlusion"):
        words = {
            unit.text: unit.score
            for unit in model.explain("a wonderful film with a terrible ending", method, target="POSITIVE").words()
        }
        assert max(words, key=words.__getitem__) == "wonderful", method
        assert min(words, key=words.__getitem__) == "terrible", method


def test_it_is_cast_to_single_precision_and_small(model: wherefrom.Model) -> None:
    assert model.text_model.network.module.dtype == torch.float32
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 16_000_000
    assert model.labels == ["NEGATIVE", "POSITIVE"]


def test_no_english_word_is_unknown_to_it(model: wherefrom.Model) -> None:
    words = "Antidisestablishmentarianism zyzzyva's $3.50 naïve café 100% rock'n'roll"
    assert "[UNK]" not in model.text_model.encode(words).tokens


def test_the_shortcut() -> None:
    assert wherefrom.explain("A fine film.", method="saliency").method == "saliency"
