"""Laws that hold for every method on every family, from one table."""

from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from tiny_models import CHEAP, FAMILIES, make_model, tiny
from tolerances import SINGLE_AGAINST_DOUBLE, STABLE, assert_close, assert_ranked_alike, tolerance_of
from torch import nn

from wherefrom.api import Model
from wherefrom.core.explanation import Explanation
from wherefrom.model.text_model import TextModel
from wherefrom.registry import all_methods

METHODS = [row.name for row in all_methods()]
TEXTS = [
    "the film was not bad, but dull!",
    "a great film",
    "never a good plot and the acting was very bad . a fine xyz",
    "dull",
]


def explain_all(
    model: TextModel, texts: list[Any], options: dict[str, dict[str, Any]] = CHEAP
) -> dict[str, list[Explanation]]:
    return {name: Model(model).explain(texts, name, **options.get(name, {})) for name in METHODS}


def chose_alike(one: Explanation, other: Explanation, *, tolerance: float) -> bool:
    """Whether methods that choose (`optimus`, `best`) chose the same. Where they did not, the two must tie: then either
    may be shown, and their scores have nothing in common.
    """
    alike = True
    for first, second in zip(one.selection, other.selection, strict=True):
        if first["chosen"] != second["chosen"]:
            alike = False
            assert_close(second["score"], first["score"], tolerance=tolerance, what=one.method)
    return alike


def assert_same(one: Explanation, other: Explanation, *, tolerance: float) -> None:
    assert one.tokens == other.tokens
    if chose_alike(one, other, tolerance=tolerance):
        assert_close(other.scores, one.scores, tolerance=tolerance, what=one.method)


@pytest.mark.parametrize("family", FAMILIES)
def test_batching_padding_and_order_change_nothing(family: str) -> None:
    model = tiny(family, torch.float64)
    tolerance = tolerance_of(model)
    alone = {name: [Model(model).explain(text, name, **CHEAP.get(name, {})) for text in TEXTS] for name in METHODS}
    together, backwards = explain_all(model, TEXTS), explain_all(model, TEXTS[::-1])
    for name in METHODS:
        for i in range(len(TEXTS)):
            assert_same(alone[name][i], together[name][i], tolerance=tolerance)
            assert_same(alone[name][i], backwards[name][-1 - i], tolerance=tolerance)


@pytest.mark.parametrize("family", FAMILIES)
def test_float32_and_float64_rank_alike(family: str) -> None:
    exact, single = (
        explain_all(tiny(family, dtype), TEXTS, CHEAP | STABLE) for dtype in (torch.float64, torch.float32)
    )
    for name in METHODS:
        for precise, rough in zip(exact[name], single[name], strict=True):
            if chose_alike(precise, rough, tolerance=SINGLE_AGAINST_DOUBLE):
                assert_ranked_alike(rough.scores, precise.scores, tolerance=SINGLE_AGAINST_DOUBLE, what=name)


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "t5"])
def test_threads_change_nothing(family: str) -> None:
    model = tiny(family, torch.float64)
    alone = explain_all(model, TEXTS[:2])
    ready = threading.Barrier(4)

    def work(_: int) -> dict[str, list[Explanation]]:
        ready.wait()
        return explain_all(model, TEXTS[:2])

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(work, range(4)):
            for name in METHODS:
                for one, other in zip(alone[name], found[name], strict=True):
                    assert_same(one, other, tolerance=tolerance_of(model))
    assert hooks_of(model.network.module) == 0


def hooks_of(network: nn.Module) -> int:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return sum(len(getattr(module, kind)) for module in network.modules() for kind in kinds)


def trace(model: TextModel) -> dict[str, Any]:
    """Everything a method might leave behind."""
    network = model.network.module
    return {
        "hooks": hooks_of(network),
        "config": copy.deepcopy(network.config.to_dict()),
        "implementation": network.config._attn_implementation,
        "requires_grad": [p.requires_grad for p in network.parameters()],
        "grad": [p.grad is None for p in network.parameters()],
        "training": [m.training for m in network.modules()],
        "dtype": [p.dtype for p in network.parameters()],
        "weights": [p.detach().clone().sum().item() for p in network.parameters()],
        "forward": ["forward" in vars(m) for m in network.modules()],
        "tokenizer": (
            len(model.reading.tokenizer),
            model.reading.tokenizer.padding_side,
            model.reading.tokenizer.truncation_side,
            repr(model.reading.tokenizer),
        ),
        "tokenizer state": model.reading.tokenizer.backend_tokenizer.to_str(),
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_is_left_as_found(family: str) -> None:
    model = make_model(family)
    next(iter(model.network.module.parameters())).requires_grad_(False)  # as found also means: not all alike
    before = trace(model)
    explain_all(model, TEXTS[:2])
    assert trace(model) == before


class Stumble(RuntimeError):
    pass


@pytest.mark.parametrize("family", ["bert", "albert", "deberta-v2", "gpt2", "llama", "t5", "bart"])
def test_also_after_an_exception_inside_the_pass(family: str) -> None:
    model = make_model(family)
    before = trace(model)
    inner = model.network.anatomy.blocks[-1].attention_out

    def stumble(*_: Any) -> None:
        raise Stumble

    handle = inner.register_forward_pre_hook(stumble)
    for name in METHODS:
        if name != "random":
            with pytest.raises(Stumble):
                Model(model).explain(TEXTS[0], name)
    with pytest.raises(Stumble):  # random only asks for the prediction, which stumbles too
        Model(model).explain(TEXTS[0], "random")
    handle.remove()
    assert trace(model) == before
    assert torch.overrides._get_current_function_mode() is None
    Model(model).explain(TEXTS[0])


@pytest.mark.parametrize("method", METHODS)
def test_every_token_has_a_score_and_special_ones_are_flagged(method: str) -> None:
    explanation = Model(tiny("bert")).explain(("a great film", "very dull"), method)
    assert explanation.tokens == ("[CLS]", "a", "great", "film", "[SEP]", "very", "dull", "[SEP]")
    assert explanation.special == (True, False, False, False, True, False, False, True)
    assert len(explanation.scores) == 8


@pytest.mark.parametrize("row", all_methods(), ids=METHODS)
def test_what_the_registry_says_of_signs_and_classes(row: Any) -> None:
    model = Model(tiny("bert", torch.float64))
    by_class = [model.explain(text, row.name, target=label).scores for text in TEXTS[:3] for label in (0, 1, 2)]
    assert row.signed == any(score < -1e-12 for scores in by_class for score in scores)
    assert row.per_class == (by_class[0] != pytest.approx(by_class[1], rel=tolerance_of(model.text_model)))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_callers_may_have_gradients_switched_off(mode: Any) -> None:
    model = Model(tiny("bert", torch.float64))
    with mode():
        inside = {name: model.explain(TEXTS[0], name) for name in METHODS}
    for name in METHODS:
        assert_same(model.explain(TEXTS[0], name), inside[name], tolerance=tolerance_of(model.text_model))
