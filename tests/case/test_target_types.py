"""A target means the same whichever library its number is from; what is no name and no number is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import make_model

from wherefrom.api import Model
from wherefrom.errors import BadOption, WherefromError

TEXTS: dict[str, Any] = {
    "classification": "a fine film",
    "masked_lm": "a fine [MASK]",
    "causal_lm": "a fine film",
    "multiple_choice": ("a fine film", "not bad\nvery good"),
}


@pytest.fixture(scope="module", params=TEXTS)
def asked(request: pytest.FixtureRequest) -> tuple[Model, Any]:
    task: str = request.param
    return Model(make_model("gpt2" if task == "causal_lm" else "bert", task=task)), TEXTS[task]


@pytest.mark.parametrize("number", [np.int64(1), np.int32(1), np.array(1), torch.tensor(1)])
def test_whole_numbers_of_every_library(asked: tuple[Model, Any], number: Any) -> None:
    model, text = asked
    expected = model.explain(text, "saliency", 1)
    found = model.explain(text, "saliency", number)
    assert (found.target, found.scores) == (expected.target, expected.scores)
    (first, second) = model.explain(text, "saliency", [number, 0])
    assert (first.target, second.target) == (expected.target, model.explain(text, "saliency", 0).target)
    pair = model.explain(text, "saliency", (number, 0))
    assert pair.target == f"{first.target} rather than {second.target}"
    graded = model.compare(text, ["random"], ["entropy"], number, check=False)
    assert graded.explanations[0].target == expected.target


@pytest.mark.parametrize(
    "spec",
    [
        *(True, 1.0, 1j, np.float32(1), np.bool_(True), np.array([0, 1]), torch.tensor(1.0), torch.tensor(True)),
        *(torch.tensor([0]), b"a", {}, object(), (0, 1.0), (True, 0), (0, None), (0,), (0, 1, 2), "\ud800"),
    ],
)
def test_what_is_no_target(asked: tuple[Model, Any], spec: Any) -> None:
    model, text = asked
    for verb in (
        lambda: model.explain(text, "saliency", spec),
        lambda: model.explain(text, "saliency", [0, spec]),
        lambda: model.compare(text, ["random"], ["entropy"], spec, check=False),
        lambda: model.flip(text, spec),
    ):
        with pytest.raises(BadOption) as problem:
            verb()
        assert "\n" not in str(problem.value)


@pytest.mark.parametrize("digits", ["9" * 5000, "#" + "9" * 5000, "a#" + "9" * 5000])
def test_numbers_of_thousands_of_digits(asked: tuple[Model, Any], digits: str) -> None:
    """Python refuses to read them; a language model may know them as a text."""
    model, text = asked
    with suppress(WherefromError):
        model.explain(text, "saliency", digits)
    with pytest.raises(WherefromError):
        Model(make_model("bert", task="token_classification")).explain("a fine film", "saliency", digits)
