"""Several texts that are read together are read as each is alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tiny_models import make_model

import wherefrom
from wherefrom.errors import EmptyText, WherefromError
from wherefrom.model.reading import TokenizerReading

TEXTS: list[tuple[str, str | None]] = [
    ("a fine film", None),
    ("the film was not bad , but dull ! " * 20, None),  # longer than the model reads
    ("na\u00efve \u65e5\u672c \U0001f642", None),
    ("?", None),
    ("a fine film", "the plot is dull"),
    ("film", "the film was not bad , but dull ! " * 20),
]


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "xlnet", "llama"])
def test_with_and_without_pairs(family: str) -> None:
    model = make_model(family)
    model = replace(model, reading=TokenizerReading(model.reading.tokenizer, limit=24))
    for texts in (TEXTS[:4], TEXTS[4:], TEXTS, TEXTS[:1]):
        assert model.encode_all(texts) == [model.encode(*both) for both in texts]
    assert any(encoding.cut for encoding in model.encode_all(TEXTS))


def test_with_real_tokens() -> None:
    model = wherefrom.load("embedded").text_model
    assert model.encode_all(TEXTS[:4]) == [model.encode(*both) for both in TEXTS[:4]]


def test_by_a_function() -> None:
    model = wherefrom.load(lambda texts: [[0.25, 0.75] for _ in texts]).text_model
    assert model.encode_all(TEXTS) == [model.encode(*both) for both in TEXTS]


@pytest.mark.parametrize("bad", ["", " \n", "\ud800", "\0"])
def test_one_that_cannot_be_read(bad: str) -> None:
    model = make_model("bert")
    with pytest.raises((EmptyText, WherefromError)):
        model.encode_all([("a film", None), (bad, None)])
