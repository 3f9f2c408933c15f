"""Paired comparisons by hand, and the procedure itself by simulation: how often its verdicts are wrong, and how often
its intervals contain the true value. `python test_comparisons.py` prints the rates of many simulations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from wherefrom.typing import Numbers
from wherefrom_studies.claims import Claim, Estimate, JudgedClaim, corrected, holm, mean_of, student
from wherefrom_studies.comparisons import (
    ascend,
    compared,
    difference,
    leads,
    ordered,
    pseudo_values,
    trail,
)

FIRST = Claim("X1", "it is the best", "it less each of the others")
NAMES = [f"method {number}" for number in range(8)]


def simulated(chance: np.random.Generator, lead: float = 0.0, apart: float = 0.0) -> JudgedClaim:
    """Six data sets of 25 texts and eight methods, whose scores share the text's level and have skewed noise. The first
    method leads by `lead`; methods differ between data sets by `apart`, with zero mean.
    """
    tables = {}
    for number in range(6):
        level, noise = chance.normal(0.3, 0.2, (25, 1)), chance.gamma(2.0, 0.05, (25, 8))
        table = level + noise + chance.normal(0.0, apart, (1, 8))
        table[:, 0] += lead
        tables[f"set {number}", "M6"] = table
    return FIRST.judged(*ordered(tables, NAMES, leads(NAMES[0], NAMES[1:])))


def rates(count: int, lead: float = 0.0, apart: float = 0.0) -> dict[str, float]:
    chance = np.random.default_rng(1)
    verdicts = Counter(simulated(chance, lead, apart).verdict for _ in range(count))
    return {str(verdict): number / count for verdict, number in verdicts.items()}


def coverage(draw: Callable[[np.random.Generator, int], Numbers], mean: float, count: int) -> tuple[float, float]:
    """How often the intervals of a table's mean, and Student's of a claim, contain the mean of 25 texts."""
    chance, hits = np.random.default_rng(2), [0, 0]
    for _ in range(count):
        values = draw(chance, 25)
        for place, found in enumerate((mean_of(values.tolist()), student(values, 25))):
            assert found is not None
            assert found.low is not None
            assert found.high is not None
            hits[place] += found.low <= mean <= found.high
    return hits[0] / count, hits[1] / count


SHAPES: dict[str, tuple[Callable[[np.random.Generator, int], Numbers], float]] = {
    "normal": (lambda chance, count: chance.normal(size=count), 0.0),
    "skewed, as a metric's values": (lambda chance, count: chance.beta(0.5, 2.0, count), 0.2),
    "a difference of two such": (lambda chance, count: chance.beta(0.5, 2, count) - chance.beta(0.5, 2, count), 0.0),
    "exponential": (lambda chance, count: chance.exponential(size=count), 1.0),
}


@pytest.mark.parametrize("apart", [0.0, 0.02])
def test_methods_that_tie_are_not_told_apart(apart: float) -> None:
    """Subtracting the best rival's mean called 97% of such cases refuted."""
    found = rates(100, apart=apart)
    assert found.get("refuted", 0.0) + found.get("confirmed", 0.0) <= 0.05


def test_a_small_true_lead_is_not_refuted() -> None:
    assert rates(100, lead=0.005).get("refuted", 0.0) <= 0.025


def test_a_clear_lead_is_confirmed() -> None:
    assert rates(50, lead=0.1).get("confirmed", 0.0) > 0.9


def test_intervals_cover_as_often_as_they_say() -> None:
    """Measured with more simulations: see docs/appendix/studies/index.md."""
    for draw, mean in SHAPES.values():
        table, claim = coverage(draw, mean, 300)
        assert 0.89 <= table <= 0.99
        assert 0.88 <= claim <= 0.99


def set_of(*rows: list[float]) -> Numbers:
    return np.array(rows)


def test_one_data_set_is_judged_over_its_texts() -> None:
    """Differences 1, 2, 3: mean 2, standard error 1/sqrt(3), and t of two degrees of freedom is 4.303."""
    found = compared({("a", "M6"): set_of([2, 1], [4, 2], [6, 3])}, ["own", "other"], difference(0, 1))
    assert found.estimate is not None
    assert found.estimate.value == pytest.approx(2.0)
    assert found.estimate.low == pytest.approx(2.0 - 4.3027 / 3**0.5, abs=1e-3)
    assert (found.estimate.unit, found.estimate.texts, list(found.by_set)) == ("texts", 3, ["a M6"])


def test_several_data_sets_are_the_units_and_bases_of_one_set_are_not() -> None:
    """Values 1 and 3 on two sets, the first of which two bases have: t of one degree of freedom is 12.706."""
    first, second, other = [[1.5, 1.0]] * 3, [[1.5, 0.0]] * 3, [[3.0, 0.0]] * 30
    tables = {("a", "M6"): set_of(*first), ("a", "M3"): set_of(*second), ("b", "M6"): set_of(*other)}
    found = compared(tables, ["own", "other"], difference(0, 1))
    assert found.estimate is not None
    assert found.estimate.value == pytest.approx(2.0)
    assert found.estimate.high == pytest.approx(2.0 + 12.706, abs=1e-2)
    assert (found.estimate.unit, found.estimate.freedom) == ("data sets", 1)
    assert {name: one.value for name, one in found.by_set.items()} == pytest.approx(
        {"a M6": 0.5, "a M3": 1.5, "b M6": 3}
    )


def test_pseudo_values_of_a_difference_are_the_texts_own() -> None:
    table = set_of([2, 1], [5, 2], [6, 3])
    assert pseudo_values(table, difference(0, 1)) == pytest.approx([1.0, 3.0, 3.0])
    assert pseudo_values(table, difference(0, 1, -1.0)) == pytest.approx([-1.0, -3.0, -3.0])


def test_orders() -> None:
    assert leads("a", "bc") == [("a", "b"), ("a", "c")]
    assert trail("a", "bc") == [("b", "a"), ("c", "a")]
    assert ascend("abc") == [("b", "a"), ("c", "b")]


def judged_order(means: list[float]) -> JudgedClaim:
    table = np.array([[mean + 0.01 * (text % (place + 2)) for place, mean in enumerate(means)] for text in range(12)])
    return FIRST.judged(*ordered({("a", "M6"): table}, NAMES[: len(means)], leads(NAMES[0], NAMES[1 : len(means)])))


def test_the_best_beats_every_rival_and_a_refuted_one_names_its_rival() -> None:
    assert judged_order([0.9, 0.5, 0.4]).verdict == "confirmed"
    lost = judged_order([0.5, 0.4, 0.9])
    assert (lost.verdict, lost.rival) == ("refuted", "method 0 – method 2")
    assert lost.estimate is not None
    assert lost.estimate.value < 0
    tied = judged_order([0.5, 0.5, 0.1])
    assert tied.rival == "method 0 – method 1"


def test_which_column_has_no_value_is_said() -> None:
    """The third column is read by nobody; the second failed on every text of one data set."""
    whole, failed = set_of([1, 2, np.nan], [2, 1, np.nan]), set_of([1, np.nan, 3], [2, np.nan, 1])
    names = ["own", "other", "third"]
    both = {("a", "M6"): whole, ("b", "M6"): failed}
    for pairs in (leads("own", ["other"]), trail(["own"], ["other"])):
        assert ordered({("a", "M6"): whole}, names, pairs).estimate is not None
        assert ordered(both, names, pairs)[:2] == (None, "other has no value for any text of b M6")
    assert ordered({}, names, leads("own", ["other"]))[:2] == (None, "no data set that it needs was measured")
    assert compared({("a", "M6"): whole[:0]}, names, difference(0, 1))[:2] == (None, "there are no texts of a M6")


def test_holm_by_hand() -> None:
    """Sorted .01, .02, .04: times 3, 2 and 1, never falling."""
    assert holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([]) == []


def test_claims_of_a_paper_are_corrected_together() -> None:
    """Two claims of p about .03 and .001: the second survives, and what was not measured does not count."""
    sure, unsure = Estimate(1.0, 0.4, 1.6, 25), Estimate(1.0, 0.1, 1.9, 25)
    claims = [FIRST.judged(sure), FIRST.judged(unsure), FIRST.judged(unsure), FIRST.judged(None, "no data")]
    assert [one.verdict for one in claims] == ["confirmed", "confirmed", "confirmed", "open"]
    assert corrected(claims)[0].corrected == "confirmed"
    weak = FIRST.judged(Estimate(1.0, 0.01, 1.99, 25))
    assert [one.corrected for one in corrected([weak, weak])] == ["open", "open"]
    assert [one.corrected for one in corrected([weak])] == ["confirmed"]


def test_an_open_claim_says_what_would_settle_it() -> None:
    """Half as large as its half-width: four times the texts."""
    found = FIRST.judged(Estimate(0.1, -0.1, 0.3, 25))
    assert found.outlook == "half-width 0.200; no difference larger than 0.300; about 100 texts would settle it"
    assert FIRST.judged(Estimate(0.2, 0.1, 0.3, 25)).outlook == ""
    equal = Claim("X2", "they are equal", "a number", side=None, margin=0.15)
    assert "about 400 texts would settle it" in equal.judged(Estimate(0.1, -0.1, 0.3, 25)).outlook


if __name__ == "__main__":
    for lead, apart in ((0.0, 0.0), (0.0, 0.02), (0.005, 0.0), (0.02, 0.0), (0.05, 0.0)):
        print(f"lead {lead}, data sets differ by {apart}:", rates(1000, lead, apart))
    for title, (draw, mean) in SHAPES.items():
        print(f"coverage at 25 texts, {title} (tables, claims):", coverage(draw, mean, 2000))
