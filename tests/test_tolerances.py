"""The judges of floats themselves: each must be able to fail, and must let a tie pass."""

from __future__ import annotations

import pytest
import torch
from tiny_models import tiny
from tolerances import TOLERANCE, assert_best, assert_close, assert_ranked_alike, assert_sorted, precision_of


@pytest.mark.parametrize(
    ("family", "dtype", "really"),
    [
        ("bert", torch.float64, torch.float64),
        ("gpt_neox", torch.float64, torch.float64),  # its rotary angles alone are in single precision
        ("llama", torch.float64, torch.float32),  # its norms
        ("gemma2", torch.float64, torch.float32),  # its norms and its softmax
        ("bert", torch.float32, torch.float32),
    ],
)
def test_the_precision_is_the_narrowest_on_the_way(family: str, dtype: torch.dtype, really: torch.dtype) -> None:
    assert precision_of(tiny(family, dtype)) is really
    assert really in TOLERANCE


def test_closeness_is_measured_by_the_largest() -> None:
    assert_close([1.0, 1e-7], [1.0, 0.0], tolerance=1e-6)
    assert_close([float("-inf"), 1.0], [float("-inf"), 1.0], tolerance=1e-9)
    assert_close([], [], tolerance=1e-9)
    for found, expected in (([1.0, 1e-5], [1.0, 0.0]), ([1e-5], [0.0]), ([float("nan")], [1.0])):
        with pytest.raises(AssertionError):
            assert_close(found, expected, tolerance=1e-6)
    with pytest.raises(AssertionError):
        assert_close((1.0 + 1e-8,), (1.0,), tolerance=1e-9)  # told apart in double precision only


def test_only_a_tie_may_be_turned_around() -> None:
    assert_ranked_alike([3.0, 1.0, 1.0001], [3.0, 1.0001, 1.0], tolerance=1e-3)
    with pytest.raises(AssertionError, match="ranked otherwise"):
        assert_ranked_alike([3.0, 1.0, 1.1], [3.0, 1.1, 1.0], tolerance=1e-3)
    with pytest.raises(AssertionError, match="ranked otherwise"):
        assert_ranked_alike([1.0, 1.0], [2.0, 1.0], tolerance=1e-3)  # what is apart must not become equal
    assert_sorted([3.0, 2.0, 2.0 + 1e-9], tolerance=1e-6)
    with pytest.raises(AssertionError, match="not sorted"):
        assert_sorted([3.0, 2.0, 2.1], tolerance=1e-6)


def test_the_best_may_tie() -> None:
    assert_best(1, [1.0, 1.0 - 1e-9, 0.0], tolerance=1e-6)
    with pytest.raises(AssertionError, match="below 0"):
        assert_best(1, [1.0, 0.9, 0.0], tolerance=1e-6)
