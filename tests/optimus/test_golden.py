"""Numbers from the public code of the Optimus paper, on a real six-layer BERT."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from tolerances import TOLERANCE, assert_best

from optimus.golden import GOLDEN, combination, golden_case, golden_model
from wherefrom.case.case import Case
from wherefrom.core.arrays import Numbers
from wherefrom.grading.grade import ConfiguredMetric
from wherefrom.metrics.rft import rft
from wherefrom.optimus.combination import Combination, Raw
from wherefrom.optimus.operations import weights_of
from wherefrom.optimus.search import TargetComponents, all_candidates, matrices, searched, shared_answers

CLOSE = 4e-6  # what single precision, in which the public code ran, can tell apart among the weights of one vector


def configurations(raw: Raw) -> list[Combination]:
    """Those of the public code, in its order; A* has no products there either."""
    listed = [one for one in GOLDEN["configurations"] if raw == "A" or one[0] != "Multi"]
    return [combination(raw, *one) for one in listed]


def weights(case: Case, raw: Raw) -> Numbers:
    found = all_candidates(case, raw)
    place = {one: number for number, one in enumerate(found.combinations)}
    return found.weights[[place[one] for one in configurations(raw)]][:, 1:-1].numpy()


def effects(case: Case, targets: list[TargetComponents]) -> Numbers:
    """How far each aim's probability falls when one token is replaced by [UNK]. (aim, token)"""
    return np.stack([answers.drops for answers in shared_answers(case, targets, ConfiguredMetric.read("rft"))])


def assert_wins(theirs: Combination, scores: Numbers) -> None:
    """What the public code chose, in single precision, has the largest score of ours, or ties with it."""
    assert_best(configurations(theirs.raw).index(theirs), scores, tolerance=TOLERANCE[torch.float32])


def told_apart(weights: Numbers) -> Any:
    """Where no two weights are so close that single precision, and scaling into 0..1, may turn their order around."""
    size = np.sort(np.abs(weights), -1)
    nearest = np.diff(size, axis=-1).min(-1) if weights.shape[-1] > 1 else np.ones(len(weights))
    return nearest > CLOSE * size[:, -1]


def sums(weights: Numbers, fallen: Numbers) -> Numbers:
    """(combination, label)"""
    return np.stack([rft(weights, one, normalise=False) for one in fallen], -1)


def assert_equal_sums(found: Numbers, fallen: Numbers, expected: Numbers) -> Numbers:
    """All sums equal those of the public code, where it agrees with itself.

    It scales weights to 0..1 in single precision, and the least one sometimes becomes an exact zero by rounding, to
    which it then gives the rule for zeros. Sums are compared with ours, or with ours in which that happened.
    """
    scores = sums(found, fallen)
    rounded = found.copy()
    np.put_along_axis(rounded, np.abs(found).argmin(-1)[:, None], 0, -1)
    sure = told_apart(found)
    ours, theirs = (np.abs(one - expected).max(-1) < 1e-6 for one in (scores, sums(rounded, fallen)))
    assert sure.mean() > 0.9
    assert (ours | theirs)[sure].all()
    assert ours[sure].mean() > 0.85
    return scores


@pytest.mark.parametrize("golden", GOLDEN["operations"], ids=lambda golden: golden["tokens"][1])
def test_operations_equal_the_public_code(golden: dict[str, Any]) -> None:
    case = golden_case(golden_model("K2"), golden["tokens"])
    for name, expected in golden["values"].items():
        raw, *rest = name.split("|")
        one = combination(raw, *rest)
        found = weights_of(one, matrices(case, one.raw), case.row_read)[1:-1]
        torch.testing.assert_close(
            found, torch.tensor(expected).double(), rtol=1e-6, atol=4e-6 if raw == "A*" else 1e-6
        )


@pytest.mark.parametrize(("raw", "number"), [(raw, i) for raw in ("A", "A*") for i in range(len(GOLDEN["prime"][raw]))])
def test_every_sum_and_the_best_combination_of_prime(raw: Raw, number: int) -> None:
    golden = GOLDEN["prime"][raw][number]
    case = golden_case(golden_model("K2"), golden["tokens"])
    label = golden["predicted"]
    assert searched(case, "prime") == [(case.model.target(label),)]
    found, expected = weights(case, raw), np.array(golden["rft"])
    fallen = (golden["probability"][label] - np.array(golden["perturbed"])[:, label])[
        None
    ]  # given its own perturbed probabilities
    scores = assert_equal_sums(found, fallen, expected[:, None])[:, 0]
    assert_wins(combination(raw, *golden["best"]), scores)
    if golden["same_length"]:  # its text was read back as the same tokens, so the questions are the same, too
        ours = effects(case, searched(case, "prime"))
        np.testing.assert_allclose(ours, fallen, rtol=0, atol=2e-6)
        assert_wins(combination(raw, *golden["best"]), rft(found, ours[0]))


@pytest.mark.parametrize("golden", GOLDEN["label"], ids=lambda golden: golden["tokens"][1])
def test_every_sum_and_the_best_combination_of_label(golden: dict[str, Any]) -> None:
    case = golden_case(golden_model("K4"), golden["tokens"])
    labels = [case.model.target(label) for label in range(4)]
    assert searched(case, "prime") == [(labels[label],) for label in golden["predicted"]]
    found, expected = weights(case, "A"), np.array(golden["rft"])
    fallen = (np.array(golden["probability"]) - np.array(golden["perturbed"])).T
    scores = assert_equal_sums(found, fallen, expected)  # (combination, label)
    assert_wins(combination("A", *golden["best"]), scores[:, golden["predicted"]].mean(-1))
    for label in golden["predicted"]:
        assert_wins(combination("A", *golden["best_of_label"][label]), scores[:, label])
    np.testing.assert_allclose(effects(case, [(label,) for label in labels]), fallen, rtol=0, atol=2e-6)


def test_batch_chooses_what_the_public_code_chooses() -> None:
    """The best mean over the five texts, with the sums of the public code and with the paper's 1/S."""
    every = []
    for golden in GOLDEN["prime"]["A"]:
        case, label = golden_case(golden_model("K2"), golden["tokens"]), golden["predicted"]
        fallen = (golden["probability"][label] - np.array(golden["perturbed"])[:, label])[None]
        every.append(rft(weights(case, "A"), fallen[0], normalise=False))
    mean, sizes = np.mean(every, 0), [len(golden["tokens"]) - 2 for golden in GOLDEN["prime"]["A"]]
    golden = GOLDEN["batch"]
    assert_wins(combination("A", *golden["sum"]["conf"]), mean)
    shared = np.mean([scores / size for scores, size in zip(every, sizes, strict=True)], 0)
    assert_wins(combination("A", *golden["mean"]), shared)


def test_sentences() -> None:
    """A sentence's weight is the mean of its tokens'. The public code deletes sentences; given its probabilities the
    sums are the same.
    """
    (golden,) = GOLDEN["sentence"]
    case = golden_case(golden_model("K2"), golden["tokens"])
    edges = np.cumsum([0, *golden["sizes"]])
    found = np.stack([weights(case, "A")[:, a:b].mean(-1) for a, b in itertools.pairwise(edges)], -1)
    fallen = (golden["probability"][1] - np.array(golden["perturbed"])[:, 1])[None]
    scores = assert_equal_sums(found, fallen, np.array(golden["rft"])[:, None])[:, 0]
    assert_wins(combination("A", *golden["best"]), scores)
