"""Laws that hold for every method: `wherefrom.testing.check_method` over families, precision and threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
import torch
from tiny_models import CHEAP, FAMILIES, make_model, tiny
from tolerances import SINGLE_AGAINST_DOUBLE, STABLE, assert_close, assert_ranked_alike, tolerance_of

from wherefrom.api import Model
from wherefrom.core.explanation import Explanation
from wherefrom.model.tasks import TargetSpec
from wherefrom.registry import Method, all_methods
from wherefrom.testing import TEXTS, check_method, model_state

METHODS = [row.name for row in all_methods()]
# Every method on an encoder, a decoder, an encoder with a decoder, and an encoder with relative positions. On the other
# families, which share these methods' code, one method for each kind of need.
EVERY_METHOD = ("bert", "gpt2", "t5", "deberta-v2")
NEEDS = sorted({need for row in all_methods() for need in row.needs()})
ONE_FOR_EACH_NEED = sorted(
    {
        min((row for row in all_methods() if need in row.needs()), key=lambda row: len(row.needs())).name
        for need in NEEDS
    }
)
SETTINGS = [
    (family, name) for family in FAMILIES for name in (METHODS if family in EVERY_METHOD else ONE_FOR_EACH_NEED)
]


@cache
def partly_frozen(family: str) -> tuple[Model, float]:
    """A model of which not all weights require gradients, so that it is noticed if that is changed; its tolerance."""
    model = make_model(family, dtype=torch.float64)
    next(iter(model.network.module.parameters())).requires_grad_(False)
    return Model(model), tolerance_of(model)


@pytest.mark.parametrize(("family", "name"), SETTINGS)
def test_the_laws_of_methods(family: str, name: str) -> None:
    model, tolerance = partly_frozen(family)
    check_method(name, model, options=CHEAP.get(name), tolerance=tolerance)


@pytest.mark.parametrize("method", all_methods(), ids=METHODS)
def test_signed_methods_have_negative_scores(method: Method) -> None:
    model, classes = Model(tiny("bert", torch.float64)), list[TargetSpec](range(3))
    explanations = [row for text in TEXTS[:3] for row in model.explain(text, method.name, target=classes)]
    assert method.signed == any(score < -1e-12 for row in explanations for score in row.scores)


def chosen(explanation: Explanation) -> list[object]:
    return [row["chosen"] for row in explanation.selection]


@pytest.mark.parametrize(("family", "name"), SETTINGS)
def test_float32_and_float64_rank_alike(family: str, name: str) -> None:
    options = (CHEAP | STABLE).get(name, {})
    exact, single = (
        Model(tiny(family, dtype)).explain(list(TEXTS), name, **options) for dtype in (torch.float64, torch.float32)
    )
    for precise, rough in zip(exact, single, strict=True):
        if chosen(precise) == chosen(rough):
            assert_ranked_alike(rough.scores, precise.scores, tolerance=SINGLE_AGAINST_DOUBLE, what=name)
        for choice, other in zip(precise.selection, rough.selection, strict=True):  # different choices tie
            assert_close(other["score"], choice["score"], tolerance=SINGLE_AGAINST_DOUBLE, what=name)


@pytest.mark.parametrize("family", EVERY_METHOD)
def test_threads_change_nothing(family: str) -> None:
    model = Model(tiny(family, torch.float64))
    before, ready = model_state(model), threading.Barrier(4)

    def explain_all() -> list[Explanation]:
        return [row for name in METHODS for row in model.explain(list(TEXTS[:2]), name, **CHEAP.get(name, {}))]

    def work(_: int) -> Sequence[Explanation]:
        ready.wait()
        return explain_all()

    alone = explain_all()
    with ThreadPoolExecutor(4) as pool:
        for explanations in pool.map(work, range(4)):
            for expected, explanation in zip(alone, explanations, strict=True):
                if chosen(explanation) == chosen(expected):
                    tolerance = tolerance_of(model.text_model)
                    assert_close(explanation.scores, expected.scores, tolerance=tolerance, what=expected.method)
    assert model_state(model) == before


@pytest.mark.parametrize("method", METHODS)
def test_every_token_has_a_score_and_special_ones_are_flagged(method: str) -> None:
    explanation = Model(tiny("bert")).explain(("a great film", "very dull"), method)
    assert explanation.tokens == ("[CLS]", "a", "great", "film", "[SEP]", "very", "dull", "[SEP]")
    assert explanation.special == (True, False, False, False, True, False, False, True)
    assert len(explanation.scores) == 8
