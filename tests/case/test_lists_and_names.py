"""Lists of texts, and one name for one token."""

from __future__ import annotations

import pytest
import torch
from tiny_models import make_model, tiny

from wherefrom.api import Model
from wherefrom.core.explanation import ExplanationList
from wherefrom.core.units import words
from wherefrom.errors import EmptyText
from wherefrom.report.wording import predicted


def test_an_empty_text_of_a_list_is_named_by_its_place() -> None:
    model = Model(tiny("bert"))
    with pytest.raises(EmptyText, match=r"Text number 1 of the list \(counted from 0\) is empty or blank"):
        model.explain(["a fine film", "  ", "dull"])
    with pytest.raises(EmptyText, match="There is no text to explain"):
        model.explain(" ")


def test_lists_of_texts_and_of_targets_can_be_looked_at() -> None:
    model = Model(tiny("bert"))
    assert isinstance(model.explain(["a fine film", "dull"]), ExplanationList)
    assert isinstance(model.explain("a fine film", target=list(model.labels)), ExplanationList)


@pytest.mark.parametrize("asked", ["bad", " bad"])
def test_a_token_has_one_name_however_it_was_asked_for(asked: str) -> None:
    model = Model(make_model("gpt2", task="causal_lm", dtype=torch.float64))
    found = model.explain("the film was not", "saliency", asked)
    assert found.target == "bad"
    same = model.explain("the film was not", "saliency", f" {found.prediction}")
    assert same.target == same.prediction
    assert predicted(same) is None  # nothing says that the model predicts something else


def test_joined_emoji_are_one_word() -> None:
    text = "so 👩\u200d👩\u200d👧 nice❤\ufe0f"
    assert [text[start:end] for start, end in words(text)] == ["so", "👩\u200d👩\u200d👧", "nice", "❤\ufe0f"]
