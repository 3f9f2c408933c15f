"""Cases by `Model.cases`: one for each text, at its place, about what is asked."""

from __future__ import annotations

import torch
from tiny_models import tiny

from wherefrom import Model

TEXTS: list[str | tuple[str, str]] = ["a good film, not dull at all", "fine", ("the plot was bad", "never good")]


def test_every_text_has_its_case() -> None:
    model = Model(tiny("bert", torch.float64))
    cases = dict(model.cases(TEXTS, reads=["attention"]))
    assert sorted(cases) == [0, 1, 2]
    for place, text in enumerate(TEXTS):
        explanation = model.explain(text, "raw_attention")
        assert cases[place].encoding.tokens == explanation.tokens
        assert cases[place].capture.attention[0].probs.shape[-1] == len(explanation.tokens)
        alone = model.text_model.encode(*((text,) if isinstance(text, str) else text))
        ((_, case),) = model.cases([text])
        assert case.encoding == alone
        torch.testing.assert_close(cases[place].logits, case.logits)


def test_targets_and_units_are_those_asked_for() -> None:
    model = Model(tiny("bert"))
    targets = [model.text_model.target(0), model.text_model.target(1), None]
    cases = dict(model.cases(TEXTS, targets, level="word"))
    assert [cases[place].target for place in (0, 1)] == targets[:2]
    assert {case.level for case in cases.values()} == {"word"}
