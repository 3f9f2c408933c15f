"""Results shown inside of a notebook, of which a stand-in is enough: what matters is who is asked to display what."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tiny_models import make_model

from report.sentences import film, pair
from wherefrom.api import Model
from wherefrom.core.explanation import ExplanationList


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a notebook was asked to show."""
    shown: list[Any] = []
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    display.display = shown.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def test_show_is_html_in_a_notebook(displayed: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    film().show()
    both = ExplanationList([film(), pair()])
    both.show()
    assert displayed == [film(), both]
    assert capsys.readouterr().out == ""


def test_show_prints_where_there_is_no_kernel(
    displayed: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: SimpleNamespace())  # IPython in a terminal
    ExplanationList([film(), pair()]).show()
    assert displayed == []
    told = capsys.readouterr().out
    assert "A  fine film." in told
    assert "Two men." in told


def test_a_list_has_a_view_of_its_own() -> None:
    shown = ExplanationList([film(), pair()])._repr_html_()
    assert shown.count('class="wherefrom fragment') == 2
    assert "<p>and 3 more</p>" in ExplanationList([film()] * 23)._repr_html_()
    assert ExplanationList([film(), pair()]).to_html().count('<article class="card">') == 2


def test_one_text_is_checked_where_its_view_is_looked_at(displayed: list[Any]) -> None:
    model = Model(make_model("bert"))
    assert model.explain("a fine film", "random").check is not None
    assert model.explain("a fine film", "random", check=False).check is None
    assert all(one.check is None for one in model.explain(["a fine film", "a plot"], "random"))
    assert displayed == []


def test_nobody_looks_outside_of_a_notebook() -> None:
    assert Model(make_model("bert")).explain("a fine film", "random").check is None
