"""What a run will cost, in words."""

from __future__ import annotations

from wherefrom.benchmark.estimate import CostEstimate


def test_the_estimate_in_words_claims_two_digits() -> None:
    assert str(CostEstimate(800, 22, 17, 412_345.6)) == (
        "800 examples x 22 methods x 17 metrics: about 410,000 forward passes, by one example of middling length"
    )
    assert str(CostEstimate(8, 1, 1, 90)).startswith("8 examples x 1 method x 1 metric: about 90 forward passes")
    assert str(CostEstimate(1784, 22, 17, 38.4, 740.0)) == (
        "by the first part: about 38 forward passes and 12 min for the other 1,784 examples"
    )
