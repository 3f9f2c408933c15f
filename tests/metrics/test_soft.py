"""Soft metrics on toys: by hand where every share is 0 or 1, and against a plain loop over elements elsewhere."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import make_model
from toys import additive_model

import wherefrom
from wherefrom.api import Model
from wherefrom.case.asking import Asker, InputRow, kept_elements
from wherefrom.model.network import embedding_table

NAMES = ("comprehensiveness", "sufficiency")


def s(logit: float) -> float:
    return 1 / (1 + exp(-logit))


def test_by_hand_where_units_keep_all_or_nothing() -> None:
    model = Model(additive_model(good=2.0, fine=1.0))
    (grades,) = model.compare(
        "good fine", ["input_x_gradient"],
        [f"soft_{name}{options}" for options in ("", ":draws=3:normalise=true") for name in NAMES], target=1,
    ).grades  # fmt: skip
    everything = s(3.0) - s(0.0)
    assert [grade.value for grade in grades] == pytest.approx(
        [
            s(3.0) - s(1.0),
            1 - (s(3.0) - s(2.0)),
            (s(3.0) - s(1.0)) / everything,
            1 - (s(3.0) - s(2.0)) / everything,
        ]
    )
    assert grades[0].fill is None
    assert [len(grade.details["draws"]) for grade in grades] == [8, 8, 3, 3]


def test_where_hiding_everything_costs_nothing_there_is_no_scale() -> None:
    model = Model(additive_model(good=-1.0, film=-2.0))
    names = [f"soft_{name}:normalise=true" for name in NAMES]
    (grades,) = model.compare("good film", ["input_x_gradient"], names, target=1).grades
    assert [grade.value for grade in grades] == [None, None]
    assert "does not fall" in grades[0].why


def test_elements_against_a_plain_loop() -> None:
    """The toy's logit is the sum of the elements, so what a draw keeps can be added up."""
    weights = {"good": 2.0, "film": 1.5, "fine": 1.0}
    reader = additive_model(**weights)
    model = Model(reader)
    (grades,) = model.compare("good film fine", ["input_x_gradient"], ["soft_comprehensiveness"], target=1).grades
    encoding = reader.encode("good film fine")
    shares = (1.0, 0.0, 0.5, 1.0, 1.0)  # kept of [CLS], good, film, fine, [SEP]
    table = embedding_table(reader.network).detach()
    found = []
    for draw in range(1, 9):  # the first row keeps nothing
        kept = kept_elements(InputRow(encoding.input_ids, encoding.input_ids, None, encoding, 0, shares, draw), 2)
        total = 0.0
        for place, token in enumerate(encoding.input_ids):
            for element in range(2):
                if kept[place, element]:
                    total += float(table[token, element])
        found.append(max(0.0, s(4.5) - s(total)))
    assert len(set(found)) > 1
    assert grades[0].details["draws"] == pytest.approx(found)
    assert grades[0].value == pytest.approx(np.mean(found))


def test_as_large_a_share_of_elements_is_kept_as_was_asked_for() -> None:
    encoding = additive_model().encode("good film fine")
    row = InputRow(encoding.input_ids, encoding.input_ids, None, encoding, 0, (1.0, 0.25, 0.0, 0.8, 1.0), 1)
    kept = kept_elements(row, 4000).double().mean(1)
    assert kept.tolist() == pytest.approx([1.0, 0.25, 0.0, 0.8, 1.0], abs=0.03)


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "t5"])
def test_whole_shares_are_the_text_itself_and_nothing_is_left_on_the_model(family: str) -> None:
    model = make_model(family, dtype=torch.float64)
    encoding = model.encode("the film was not bad and the plot was good")
    asker = Asker(model)
    shares = np.ones((3, len(encoding)))
    shares[1:, 3:] = 0.5
    soft = asker.note_soft(encoding, shares)
    plain = asker.note(encoding, shares > 0, "delete")
    asker.run()
    torch.testing.assert_close(soft.logits[0], plain.logits[0])
    assert not torch.allclose(soft.logits[1], soft.logits[2])  # another draw
    again = Asker(model)
    alone = again.note_soft(encoding, shares[:2])
    again.run()
    torch.testing.assert_close(alone.logits[1], soft.logits[1])  # whatever it is batched with


def test_a_function_of_texts_has_no_word_vectors() -> None:
    def answer(texts: list[str]) -> Any:
        return np.array([[0.4, 0.6] for _ in texts])

    model = wherefrom.load(answer, labels=["bad", "good"])
    (grades,) = model.compare("a good film it is", ["random"], ["soft_comprehensiveness"]).grades
    assert grades[0].value is None
    assert "no word vectors" in grades[0].why


def test_no_draws_are_refused() -> None:
    with pytest.raises(wherefrom.WherefromError, match="At least one draw"):
        Model(additive_model(good=1.0)).compare("good film", ["random"], ["soft_sufficiency:draws=0"])
