"""Statistics of an audit: by hand, and against scipy's own functions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, fisher_exact, t

from wherefrom.audit.estimates import Mean, adjusted, alike, beside_alike, enriched, more_than, share
from wherefrom.core.audit import Estimate


def test_a_share_has_wilsons_interval() -> None:
    found = share(8, 10)
    assert found.value == 0.8
    assert (found.low, found.high) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    slow = binomtest(8, 10).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((slow.low, slow.high), abs=1e-6)


def test_no_share_at_all_and_every_one_have_intervals_too() -> None:
    assert share(0, 20).low == 0.0
    assert 0.1 < (share(0, 20).high or 0) < 0.2
    assert share(20, 20).high == 1.0
    assert 0.8 < (share(20, 20).low or 0) < 0.9


def test_no_number_for_fewer_than_five_texts() -> None:
    assert share(4, 4) == Estimate(texts=4)
    mean = Mean()
    for _ in range(4):
        mean.add(1.0)
    assert mean.estimate() == Estimate(texts=4)


def test_a_mean_has_students_interval() -> None:
    values = np.random.default_rng(0).normal(2, 3, 17)
    mean = Mean()
    for value in values:
        mean.add(float(value))
    low, high = t.interval(0.95, 16, values.mean(), values.std(ddof=1) / np.sqrt(17))
    found = mean.estimate()
    assert (found.value, found.low, found.high) == pytest.approx((values.mean(), low, high), abs=1e-9)


def test_p_values_are_corrected_by_hand() -> None:
    assert adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert adjusted([0.9, 0.8]) == pytest.approx([0.9, 0.9])
    assert adjusted([]) == []


def test_errors_with_a_word_are_tested_by_fishers_exact_test() -> None:
    count, of, total, everything = 7, 12, 15, 60
    table = [[count, of - count], [total - count, everything - of - total + count]]
    z, p = enriched(count, of, total, everything)
    assert p == pytest.approx(fisher_exact(table, alternative="greater")[1], rel=1e-6)
    assert z == pytest.approx((7 - 3) / np.sqrt(12 * 0.25 * 0.75 * 48 / 59))
    assert enriched(3, 12, 15, 60) == pytest.approx((0.0, fisher_exact([[3, 9], [12, 36]], alternative="greater")[1]))


def test_flips_are_tested_by_the_binomial_distribution() -> None:
    z, p = more_than(6, 20, 0.1)
    assert p == pytest.approx(binomtest(6, 20, 0.1, alternative="greater").pvalue)
    assert z == pytest.approx((6 - 2) / np.sqrt(20 * 0.1 * 0.9))


def test_words_are_compared_with_those_of_like_frequency() -> None:
    counts = list(range(10, 110))
    near = alike(counts)
    assert all(len(places) == 40 for places in near)
    assert set(near[50]) == set(range(30, 71)) - {50}
    assert set(near[0]) == set(range(1, 41))


def test_a_word_that_stands_out_among_its_like() -> None:
    means = [Mean(texts=9, mean=0.01 * (place % 5)) for place in range(30)]
    means[7] = Mean(texts=9, mean=1.0)
    z = beside_alike(means, [5] * 30)
    assert (z[7] or 0) > 20
    assert all(abs(value or 0) < 3 for place, value in enumerate(z) if place != 7)
    assert beside_alike(means[:8], [5] * 8) == [None] * 8  # too few to compare with
