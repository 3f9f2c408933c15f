from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest
from tiny_models import tiny

import wherefrom
from wherefrom import registry
from wherefrom.errors import BadOption, UnknownName
from wherefrom.registry import all_methods, check_options, find_method


def test_every_method_of_the_foundation_is_there() -> None:
    names = {row.name for row in all_methods()}
    attention = {
        "raw_attention",
        "attention_rollout",
        "attention_flow",
        "attention_gradients",
        "attention_x_gradient",
        "cam",
        "gradcam",
    }
    assert names >= attention | {
        "cat",
        "attcat",
        "saliency",
        "input_x_gradient",
        "integrated_gradients",
        "occlusion",
        "random",
    }
    assert all(row.summary.endswith(".") and row.paper for row in all_methods())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("integrated_gradient", "Did you mean 'integrated_gradients'"),
        ("AttCat", "Did you mean 'attcat'"),
        ("zzzz", "There are: attention_flow"),
        ("alti:norm=l2", "Here, options are apart from the name: 'alti', and norm=l2"),
    ],
)
def test_unknown_methods(name: str, message: str) -> None:
    with pytest.raises(UnknownName, match=message):
        find_method(name)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("integrated_gradients", {"step": 3}, "Did you mean 'steps'"),
        ("cam", {"steps": 3}, "takes no options"),
        ("integrated_gradients", {"steps": "many"}, "steps as int, not 'many'"),
        ("integrated_gradients", {"steps": 1.5}, "steps as int"),
        ("integrated_gradients", {"steps": True}, "steps as int"),
        ("integrated_gradients", {"steps": 0}, "1 to 1,000,000 steps"),
        ("saliency", {"norm": "l3"}, r"norm = l2 \| l1 \| mean, not 'l3'"),
        ("raw_attention", {"layer": 9}, "no layer 9: the model has 3"),
        ("raw_attention", {"head": 9}, "no head 9"),
        ("attention_x_gradient", {"relu": "maybe"}, "relu as bool"),
    ],
)
def test_options_that_do_not_fit(method: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises((UnknownName, BadOption), match=message):
        wherefrom.Model(tiny("bert")).explain("a film", method, **options)


def test_texts_from_the_command_line_are_read_by_type() -> None:
    assert check_options("ig", find_method("integrated_gradients").function, {"steps": "7"})["steps"] == 7
    raw = find_method("raw_attention").function
    assert check_options("raw", raw, {"head": "2", "layer": "-2"}) == {"head": 2, "layer": -2}
    assert check_options("raw", raw, {"head": "none"}) == {"head": None, "layer": -1}
    assert check_options("axg", find_method("attention_x_gradient").function, {"relu": "yes"}) == {"relu": True}


def test_a_name_is_taken_once() -> None:
    def attcat(case: Any) -> Any: ...

    declare = wherefrom.method(family="toy", signed=True, per_class=True, reads="nothing", paper="none")
    with pytest.raises(BadOption, match=r"called 'attcat', but wherefrom\.methods\.attcat has one already"):
        declare(attcat)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("input_x_gradient", {"reduce": "l2"}),
        ("integrated_gradients", {"reduce": "mean"}),
        ("attention_x_gradient", {"relu": True}),
    ],
)
def test_options_that_take_the_sign_away_say_so(method: str, options: dict[str, Any]) -> None:
    model = wherefrom.Model(tiny("bert"))
    assert model.explain("a film", method).signed
    unsigned = model.explain("a film", method, **options)
    assert not unsigned.signed
    assert min(unsigned.scores) >= 0


def test_wrong_levels() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'word'"):
        wherefrom.Model(tiny("bert")).explain("a film", level="words")  # type: ignore[call-overload]


def test_plug_ins_come_through_entry_points_and_a_broken_one_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    good = EntryPoint("plugged", "toy_plugin:plugged", "wherefrom.methods")
    bad = EntryPoint("broken", "no_such_module:thing", "wherefrom.methods")
    monkeypatch.setattr(registry, "entry_points", lambda group: [good, bad] if group == "wherefrom.methods" else [])
    before = dict(registry._known["method"])
    registry._load.cache_clear()
    try:
        with pytest.warns(UserWarning, match=r"plug-in 'broken' .* could not be loaded"):
            names = {row.name for row in all_methods()}
        assert "plugged" in names
        assert wherefrom.Model(tiny("bert")).explain("a film", "plugged").scores == (1.0, 1.0, 1.0, 1.0)
    finally:
        registry._known["method"] = before
