"""Every family with every method: works, or says why not; blocks are rebuilt, words are really hidden, and no score is
rounding. The laws in their full length run over fewer families (test_laws.py).
"""

from __future__ import annotations

import pytest
import torch
from family_table import METHODS, PAGE, TEXT, family_case, family_model, read_page, row_of
from tiny_models import CHEAPLY_TESTED, CONFIGS, FAMILIES
from tolerances import assert_close, tolerance_of

from wherefrom.errors import NotSeen
from wherefrom.model.families import known_types
from wherefrom.model.text_model import PassCount


@pytest.mark.parametrize("family", list(CONFIGS))
def test_the_table_says_what_works_and_no_score_is_rounding(family: str) -> None:
    assert read_page()[family] == row_of(family), f"{PAGE.name} is not up to date: make families"


def test_the_table_has_every_family_and_every_method() -> None:
    rows = read_page()
    assert sorted(rows) == sorted(CONFIGS) == known_types()
    assert all(list(row.reasons) == METHODS for row in rows.values())
    assert len(rows) >= 53
    assert not set(FAMILIES) & set(CHEAPLY_TESTED)


@pytest.mark.parametrize("family", CHEAPLY_TESTED)
def test_attention_is_seen_and_words_are_hidden(family: str) -> None:
    model, case = family_model(family), family_case(family)
    tolerance = tolerance_of(model)
    try:
        layers = case.capture.attention
    except NotSeen:
        layers = []
    for layer in layers:
        assert layer.probs.shape[1:] == (len(case.encoding), len(case.encoding))
        assert_close(layer.probs.sum(-1), torch.ones_like(layer.probs[..., 0]), tolerance=tolerance)
        assert_close(layer.scores.softmax(-1), layer.probs, tolerance=tolerance)
    encodings = [model.encode(text) for text in (TEXT, "a great film")[: 1 + model.takes_batches]]
    inputs, replaced = model.batch(encodings), model.batch(encodings)["input_ids"].clone()
    replaced[:, 2] = model.filler("unk")  # which moves no position, as a padding id might
    with torch.no_grad():
        expected = model.logits({**inputs, "input_ids": replaced}, PassCount(), whole=True)
        found = model.logits(inputs, PassCount(), model.embed(replaced), whole=True)
        plain = model.logits(inputs, PassCount(), whole=True)
        alone = torch.cat([model.logits(model.batch([one]), PassCount(), whole=True) for one in encodings])
        short = model.logits(inputs, PassCount())
    assert (expected - plain).abs().max() > 1e-4 * expected.abs().max()  # hiding does something
    assert_close(found, expected, tolerance=tolerance, what="hidden")
    assert_close(plain, alone, tolerance=tolerance, what="in a batch")
    assert_close(short, plain, tolerance=tolerance, what="without what is not read")
