"""Pairwise Shapley interactions: by hand, by brute force, and beside shapiq where it is installed."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise, permutations
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny

import wherefrom
from wherefrom.api import Model
from wherefrom.case.interactions import Game, by_orders, exactly, neighbouring_orders
from wherefrom.core.interactions import Interactions
from wherefrom.errors import BadOption, EmptyText, UnknownName

TEXT = "the film is not bad"


def planted(texts: list[Any]) -> np.ndarray:
    """What the word `film` adds is 1, `bad` takes 2 away, and `not bad` together add 3."""
    words = [set(str(text).split()) for text in texts]
    scores = [("film" in one) - 2.0 * ("bad" in one) + 3.0 * ({"not", "bad"} <= one) for one in words]
    return np.array([[0.0, score] for score in scores])


@pytest.fixture(scope="module")
def model() -> Model:
    return wherefrom.load(planted, labels=["NEGATIVE", "POSITIVE"], outputs="logits")


class Table(Game):
    """A game whose values are random numbers."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(count)
        object.__setattr__(self, "numbers", torch.randn(2**count, dtype=torch.float64, generator=generator))

    def values(self, kept: torch.Tensor) -> torch.Tensor:
        numbers: torch.Tensor = self.numbers  # type: ignore[attr-defined]
        return numbers[(kept.long() << torch.arange(kept.shape[1])).sum(1)]


def brute_force(game: Table, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The definitions, set by set."""

    def value(units: tuple[int, ...]) -> float:
        kept = torch.zeros(1, count, dtype=torch.bool)
        kept[0, list(units)] = True
        return float(game.values(kept)[0])

    both, single = np.zeros((count, count)), np.zeros(count)
    for i in range(count):
        for j in range(i + 1, count):
            rest = [unit for unit in range(count) if unit not in (i, j)]
            for size in range(count - 1):
                weight = factorial(count - size - 2) * factorial(size) / factorial(count - 1)
                for t in combinations(rest, size):
                    both[i, j] += weight * (value((*t, i, j)) - value((*t, i)) - value((*t, j)) + value(t))
            both[j, i] = both[i, j]
    for order in permutations(range(count)):
        for place, unit in enumerate(order):
            single[unit] += (value(order[: place + 1]) - value(order[:place])) / factorial(count)
    return both, single


@pytest.mark.parametrize("count", [2, 3, 5])
def test_exact_values_by_brute_force(count: int) -> None:
    found, (both, single) = exactly(Table(count), count), brute_force(Table(count), count)
    np.testing.assert_allclose(found.both.numpy(), both, atol=1e-12)
    np.testing.assert_allclose(found.single.numpy(), single, atol=1e-12)
    assert found.queries == 2**count


def test_beside_shapiq() -> None:
    shapiq = pytest.importorskip("shapiq")
    game, count = Table(8), 8
    computer = shapiq.ExactComputer(lambda kept: game.values(torch.as_tensor(kept)).numpy(), n_players=count)
    theirs = computer("SII", order=2)
    found = exactly(game, count)
    for i, j in combinations(range(count), 2):
        assert found.both[i, j].item() == pytest.approx(theirs[(i, j)], abs=1e-9)


@pytest.mark.parametrize("count", [2, 4, 6, 12])
def test_every_two_are_neighbours_once(count: int) -> None:
    orders = neighbouring_orders(count)
    assert all(sorted(order) == list(range(count)) for order in orders)
    met = Counter(frozenset(two) for order in orders for two in pairwise(order))
    assert met == Counter(map(frozenset, combinations(range(count), 2)))


@pytest.mark.parametrize("count", [5, 6])
def test_drawn_orders_come_to_the_exact_values(count: int) -> None:
    """Within five standard errors, of which nearly all should be within three."""
    game, rounds = Table(count), 2000
    exact, drawn = exactly(game, count), by_orders(game, count, rounds, seed=0)
    upper = torch.triu_indices(count, count, 1).unbind()
    off = ((drawn.both - exact.both)[upper] / drawn.errors[upper]).abs()
    assert off.max() < 5
    assert (off < 3).float().mean() > 0.9
    assert (drawn.single - exact.single).abs().max() < 0.2
    assert drawn.queries == rounds * (count + count % 2) // 2 * 2 * count


def test_a_pair_that_was_planted(model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = model.interactions(TEXT, "POSITIVE")
    assert found.exact
    assert [unit.text for unit in found.units] == TEXT.split()
    assert found.between(4, 3).score == pytest.approx(3.0)
    assert all(pair.score == pytest.approx(0.0) for pair in found.pairs if (pair.first, pair.second) != (3, 4))
    assert found.scores == pytest.approx([0, 1, 0, 1.5, -0.5])  # the pair's three shared between the two
    found.save(tmp_path / "pairs.json")
    assert Interactions.load(tmp_path / "pairs.json") == found
    found.show()
    shown = capsys.readouterr().out
    assert "not" in shown
    assert "+3.000" in shown
    page = found.to_html()
    assert page.count("<path") == 1
    assert "not + bad: +3.000" in page


def test_longer_texts_have_standard_errors(model: Model) -> None:
    """All interactions are planted, and of two, so that drawn orders have no error at all."""
    found = model.interactions(f"{TEXT} and it was a very good plot", "POSITIVE", samples=400)
    assert not found.exact
    assert found.between(3, 4).score == pytest.approx(3.0)
    assert found.between(3, 4).error == pytest.approx(0.0)
    assert sum(pair.score for pair in found.pairs) == pytest.approx(3.0)


def test_a_network_and_its_levels() -> None:
    model = Model(tiny("bert"))
    found = model.interactions("the film was not bad")
    case_score = sum(found.scores)
    ask = model.explain("the film was not bad", "kernel_shap", level="word")
    assert case_score == pytest.approx(sum(ask.units()[place].score for place in range(5)), abs=1e-5)
    assert found.scores == pytest.approx([unit.score for unit in ask.units()], abs=1e-4)
    assert found.fill == "mask"
    spans = model.interactions("the film was not bad", units=[(0, 8), (13, 20)])
    assert [unit.text for unit in spans.units] == ["the film", "was", "not bad"]


def test_mistakes(model: Model) -> None:
    with pytest.raises(EmptyText, match="one word"):
        model.interactions("film")
    with pytest.raises(BadOption, match="at most 60"):
        model.interactions("film " * 61)
    with pytest.raises(BadOption, match="no pair of units 0 and 9"):
        model.interactions(TEXT).between(0, 9)
    with pytest.raises(UnknownName, match="fill"):
        model.interactions(TEXT, fill="nothing")
    with pytest.raises(BadOption, match="at least 4 samples"):
        model.interactions(TEXT, samples=1)
