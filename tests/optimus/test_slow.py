"""Operations, ranks and scores against slow rewrites straight from the paper, in double precision."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import make_model, tiny
from tolerances import assert_best, assert_close, tolerance_of
from torch import Tensor
from toys import case_of

from wherefrom.api import Model
from wherefrom.case.case import Case
from wherefrom.core.arrays import Numbers
from wherefrom.core.target import Target
from wherefrom.grading.grade import ConfiguredMetric
from wherefrom.metrics.rft import rft
from wherefrom.model.network import inputs_of
from wherefrom.model.text_model import TextModel
from wherefrom.optimus.combination import Combination, Raw, combinations
from wherefrom.optimus.operations import ROOM, all_weights, weights_of
from wherefrom.optimus.search import BITS, all_candidates, matrices, real_units, shared_answers

FAMILIES = ["bert", "distilbert", "roberta", "deberta", "deberta-v2", "modernbert", "gpt2", "llama"]
TEXT = "the film was not bad, but dull!"


def slow_weights(one: Combination, layers: list[Tensor], position: int) -> list[float]:
    """Algorithm 1 with loops and exact fractions, so that nothing underflows and nothing is rounded before the end."""
    size = len(layers[0][0])
    by_layer = []
    for layer in layers:
        heads = [[[Fraction(x) for x in row] for row in head] for head in layer.tolist()]
        by_layer.append(
            [[_reduced(one.head, [head[i][j] for head in heads]) for j in range(size)] for i in range(size)]
        )
    if one.layer == "multi":
        matrix = by_layer[0]
        for above in by_layer[1:]:
            matrix = [
                [sum((above[i][k] * matrix[k][j] for k in range(size)), Fraction(0)) for j in range(size)]
                for i in range(size)
            ]
    else:
        matrix = [[_reduced(one.layer, [layer[i][j] for layer in by_layer]) for j in range(size)] for i in range(size)]
    columns = [[matrix[i][j] for i in range(size)] for j in range(size)]
    picked = {
        "from": matrix[position],
        "to": columns[position],
        "mean_columns": [sum(column, Fraction(0)) / size for column in columns],
        "max_columns": [max(column) for column in columns],
    }[one.matrix]
    largest = max(map(abs, picked))
    return [float(x / largest) if largest else 0.0 for x in picked]


def _reduced(how: Any, numbers: list[Fraction]) -> Fraction:
    if how == "mean":
        return sum(numbers, Fraction(0)) / len(numbers)
    return math.prod(numbers, start=Fraction(1)) if how == "multi" else numbers[int(how)]


def scaled(weights: Tensor) -> Tensor:
    largest = weights.abs().max()
    return weights / largest if largest > 0 else weights


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("raw", ["A", "A*"])
def test_every_combination_on_every_family(family: str, raw: Raw) -> None:
    case = case_of(tiny(family, torch.float64), "a dull film")
    layers, position = matrices(case, raw), int(case.row_read.argmax())
    assert all(bool(layer.isfinite().all()) for layer in layers)
    found = all_weights(layers, case.row_read, raw)
    listed = combinations(raw, len(layers), len(layers[0]))
    assert len(found) == len(listed) == {"A": 6 * 5 * 4, "A*": 5 * 4 * 4}[raw]
    for one, weights in zip(listed, found, strict=True):
        expected = torch.tensor(slow_weights(one, layers, position), dtype=torch.float64)
        torch.testing.assert_close(scaled(weights), expected, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(weights, weights_of(one, layers, case.row_read), rtol=1e-12, atol=1e-300)


def test_heads_are_taken_in_groups_when_there_is_little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(tiny("bert", torch.float64), TEXT)
    whole = all_weights(matrices(case, "A"), case.row_read, "A")
    for room in (1, 8 * len(case.encoding) ** 2 * 3):
        monkeypatch.setattr("wherefrom.optimus.operations.ROOM", room)
        torch.testing.assert_close(all_weights(matrices(case, "A"), case.row_read, "A"), whole, rtol=1e-12, atol=0)
    assert room < ROOM


def test_products_of_many_heads_do_not_underflow() -> None:
    """Forty heads of 1e-12: their product is 1e-480, far below what a double can hold."""
    probs = torch.full((40, 3, 3), 1e-12, dtype=torch.float64)
    probs[:, 0, 1], probs[0, 0, 2] = 2e-12, 3e-12
    read = torch.tensor([1.0, 0, 0])
    found = weights_of(Combination("A", "multi", 1, "from"), [probs, probs], read)
    torch.testing.assert_close(found / found[0], torch.tensor([1.0, 2.0**40, 3.0]).double(), rtol=1e-9, atol=0)
    mixed = weights_of(Combination("A", "multi", "mean", "from"), [probs, probs], read)
    torch.testing.assert_close(mixed / mixed[0], found / found[0], rtol=1e-9, atol=0)
    chained = weights_of(Combination("A", "multi", "multi", "from"), [probs, probs], read)
    # Row 0 of B B with B = 1e-480 [[1, 2^40, 3], [1, 1, 1], [1, 1, 1]]
    expected = torch.tensor([1 + 2.0**40 + 3, 2.0**40 + 2.0**40 + 3, 3 + 2.0**40 + 3]).double()
    torch.testing.assert_close(chained / chained[0], expected / expected[0], rtol=1e-9, atol=0)


def test_heads_that_look_nowhere_in_common_multiply_to_zero() -> None:
    probs = torch.eye(3).double()[None].repeat(2, 1, 1)
    probs[1] = probs[1].roll(1, 0)
    read = torch.tensor([1.0, 0, 0])
    for layer in ("mean", "multi", 0):
        found = weights_of(Combination("A", "multi", layer, "max_columns"), [probs, probs], read)
        assert found.tolist() == [0, 0, 0]


def test_what_a_mask_forbids_counts_zero() -> None:
    """A decoder looks back only: without its mask, A* has no number for what it cannot see."""
    case = case_of(tiny("gpt2", torch.float64), TEXT)
    for layer in matrices(case, "A*"):
        seen = torch.ones_like(layer).tril().bool()
        assert torch.equal(layer != 0, seen)


def slow_rft(weights: list[float], fallen: list[float], normalise: bool = True, *, equal: float = 0.0) -> float:
    """Eqs. 2 and 3, word by word. Weights that differ by no more than the share `equal` of themselves are equal."""
    total = 0.0
    for weight, fall in zip(weights, fallen, strict=True):
        value = fall if weight > 0 else -fall if weight < 0 else -abs(fall)
        rank = sum(1 for other in weights if abs(other) >= abs(weight) * (1 - equal))  # equals share the worst
        total += value / rank
    return total / len(weights) if normalise else total


def test_rft_against_its_formula() -> None:
    generator = np.random.default_rng(0)
    weights = generator.integers(-3, 4, (200, 7)).astype(float)  # many ties and zeros
    fallen = generator.normal(size=7)
    fallen[0] = 0
    for normalise in (True, False):
        expected = [slow_rft(row.tolist(), fallen.tolist(), normalise) for row in weights]
        np.testing.assert_allclose(rft(weights, fallen, normalise=normalise), expected, rtol=1e-12, atol=1e-15)


def slow_drops(model: TextModel, case: Case, groups: list[list[int]], target: Target) -> list[float]:
    """One row at a time through the network itself, the ids replaced in place."""
    unknown = model.reading.tokenizer.unk_token_id
    whole = list(case.encoding.input_ids)

    def probability(ids: list[int]) -> float:
        inputs = inputs_of(model.network, [case.encoding])
        with torch.no_grad():
            out = model.network.module(**inputs | {"input_ids": torch.tensor([ids])})
        return float(target.probability(out.logits)[0])

    hidden = [[unknown if place in group else token for place, token in enumerate(whole)] for group in groups]
    return [probability(whole) - probability(ids) for ids in hidden]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("level", ["token", "word", "sentence"])
def test_prime_is_the_argmax_of_a_slow_search(family: str, level: Any) -> None:
    model = tiny(family, torch.float64)
    text = "the film xyz was bad. a good plot!"
    case = case_of(model, text, level=level)
    found = all_candidates(case, "both")
    groups = [list(group) for group in case.encoding.members(level) if not case.encoding.special[group[0]]]
    fallen = slow_drops(model, case, groups, case.target)
    (answers,) = shared_answers(case, [(case.target,)], ConfiguredMetric.read("rft"))
    assert_close(answers.drops, fallen, tolerance=tolerance_of(model))
    by_token = torch.cat([all_weights(matrices(case, raw), case.row_read, raw) for raw in ("A", "A*")])
    scores = []
    for weights in by_token.tolist():
        pooled = [sum(weights[i] for i in group) / (len(group) if level == "sentence" else 1) for group in groups]
        scores.append(slow_rft(pooled, fallen, equal=2.0**-BITS))  # the search ranks no finer either
    explanation = Model(model).explain(text, "optimus", level=level, raw="both")
    (selection,) = explanation.selection
    best = [str(one) for one in found.combinations].index(selection["chosen"])
    tolerance = tolerance_of(model)
    assert_best(best, scores, tolerance=tolerance)
    assert_close(selection["score"], scores[best], tolerance=tolerance)
    assert_close(selection["baseline_score"], scores[0], tolerance=tolerance)
    assert [unit.score for unit in explanation.units()] == pytest.approx(found.weights[best][real_units(case)].tolist())


def test_multi_label_prime_and_label() -> None:
    """Prime takes the mean over the predicted labels, Label each on its own; Prime is the same explanation for all of
    them.
    """
    model = make_model("bert", labels=5, problem_type="multi_label_classification", dtype=torch.float64, seed=4)
    case = case_of(model, TEXT)
    predicted = [label for label, logit in enumerate(case.logits.tolist()) if logit >= 0]
    others = [label for label in range(5) if label not in predicted]
    assert len(predicted) > 1
    assert others
    found, tolerance = all_candidates(case, "A"), tolerance_of(model)
    place = {str(one): number for number, one in enumerate(found.combinations)}
    real = found.weights[:, real_units(case)].numpy()
    groups = [[i] for i, special in enumerate(case.encoding.special) if not special]
    of_label = np.stack([[slow_rft(row.tolist(), fall) for row in real] for fall in _falls(model, case, groups)], -1)
    explain = Model(model).explain
    together = of_label[:, predicted].mean(-1)
    for label in predicted:
        prime = explain(TEXT, "optimus", target=label)
        assert prime.selection[0]["labels"] == [model.labels[one] for one in predicted]
        assert prime.selection[0]["score"] == pytest.approx(together.max(), rel=tolerance)
        assert_best(place[prime.selection[0]["chosen"]], together, tolerance=tolerance)
        alone = explain(TEXT, "optimus", target=label, select="label").selection[0]
        assert alone["labels"] == [model.labels[label]]
        assert_best(place[alone["chosen"]], of_label[:, label], tolerance=tolerance)
    other = explain(TEXT, "optimus", target=others[0]).selection[0]  # not predicted: searched for on its own
    assert other["labels"] == [model.labels[others[0]]]
    assert_best(place[other["chosen"]], of_label[:, others[0]], tolerance=tolerance)


def _falls(model: TextModel, case: Case, groups: list[list[int]]) -> Numbers:
    return np.array([slow_drops(model, case, groups, model.target(label)) for label in range(5)])
