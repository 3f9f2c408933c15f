"""The bootstrap beside a plain loop, scipy's, and what theory says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from wherefrom.core.statistics import bootstrap, draw_counts, in_blocks, interval_of, weighted_means


def test_the_same_as_a_plain_loop() -> None:
    """Every round draws examples with replacement, and takes the mean of those that have a value."""
    values = np.random.default_rng(1).normal(size=(7, 3))
    values[2, 1] = values[5, 1] = np.nan
    drawn = draw_counts(7, 250, np.random.default_rng(5))  # more rounds than are in memory at once
    assert (drawn.sum(1) == 7).all()
    means = np.full((250, 3), np.nan)
    for number, counts in enumerate(drawn):
        for column in range(3):
            sample = [values[row, column] for row in range(7) for _ in range(int(counts[row]))]
            known = [value for value in sample if not np.isnan(value)]
            means[number, column] = sum(known) / len(known) if known else np.nan
    np.testing.assert_allclose(weighted_means(values, drawn), means)
    np.testing.assert_allclose(weighted_means(values), np.nanmean(values, axis=0))
    for column, interval in enumerate(bootstrap(values, seed=5, rounds=250)):
        known_means = np.sort(means[~np.isnan(means[:, column]), column])
        assert interval == pytest.approx(tuple(np.quantile(known_means, [0.025, 0.975])))
        assert interval == pytest.approx(interval_of(means[:, column]))


def test_intervals_are_those_of_scipy() -> None:
    values = np.random.default_rng(5).gamma(2.0, size=(60, 2))
    for column, interval in enumerate(bootstrap(values, rounds=20_000)):
        known = stats.bootstrap(
            (values[:, column],), np.mean, n_resamples=20_000, method="percentile", random_state=1
        ).confidence_interval
        assert interval is not None
        assert interval == pytest.approx((known.low, known.high), abs=0.03 * (known.high - known.low))


def test_coverage_is_nominal() -> None:
    """A percentile interval of 40 values covers the true mean a little less often than 95%."""
    generator = np.random.default_rng(0)
    intervals = bootstrap(generator.normal(3.0, 1.0, size=(40, 400)), rounds=400)
    covered = sum(interval is not None and interval.low <= 3.0 <= interval.high for interval in intervals)
    assert abs(covered - 0.94 * 400) < 4 * (400 * 0.94 * 0.06) ** 0.5


def test_missing_values_change_nothing_but_the_count() -> None:
    column = np.arange(10.0)
    with_gaps = np.concatenate([column, [np.nan] * 5])[:, None]
    (interval,) = bootstrap(with_gaps, rounds=4000)
    (plain,) = bootstrap(column[:, None], rounds=4000)
    assert interval is not None
    assert plain is not None
    assert interval == pytest.approx(plain, abs=0.35)
    assert bootstrap(np.full((3, 1), np.nan)) == [None]
    assert bootstrap(np.zeros((0, 2))) == [None, None]


def test_very_many_examples_are_drawn_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums stay what they are, and the interval is as wide as that of a mean is by theory."""
    monkeypatch.setattr("wherefrom.core.statistics.BLOCKS", 1000)
    values = np.random.default_rng(3).normal(size=(20_003, 2)) * [1.0, 5.0] + [0.0, 2.0]
    values[::3, 1] = np.nan
    np.testing.assert_array_equal(in_blocks(values[:1000], 0), values[:1000])
    blocks = in_blocks(values, 0)
    assert blocks.shape == (1000, 2)
    np.testing.assert_allclose(blocks[:, 0].sum(), values[:, 0].sum())
    np.testing.assert_allclose(in_blocks(np.ones((20_003, 1)), 0).sum(), 20_003)
    for column, interval in enumerate(bootstrap(values)):
        known = values[~np.isnan(values[:, column]), column]
        assert interval is not None
        middle, reach = (interval.low + interval.high) / 2, (interval.high - interval.low) / 2
        error = known.std(ddof=1) / np.sqrt(len(known))
        assert middle == pytest.approx(known.mean(), abs=0.3 * error)
        assert reach == pytest.approx(1.96 * error, rel=0.15)
