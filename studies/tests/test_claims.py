"""Estimates, verdicts and the template of a page, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wherefrom.errors import BadOption
from wherefrom_studies.claims import Claim, Estimate, corrected, estimate, figure, mean_of
from wherefrom_studies.pages import (
    StudyCell,
    StudyPage,
    StudyTable,
    as_plain,
    cell,
    claims_table,
    markdown_page,
    markdown_tables,
    shortened,
)

NAN = float("nan")


def test_a_mean_leaves_out_what_is_not_there() -> None:
    found = mean_of([1.0, None, 3.0, NAN])
    assert found is not None
    assert (found.value, found.texts) == (2.0, 2)
    assert found.low is not None
    assert found.high is not None
    assert 1.0 <= found.low <= 2.0 <= found.high <= 3.0
    assert mean_of([None]) is None
    assert mean_of([2.0]) == Estimate(2.0, None, None, 1)


def test_an_interval_covers_as_often_as_it_says() -> None:
    chance = np.random.default_rng(0)
    hits = 0
    for round_number in range(100):
        found = estimate([chance.normal(0.0, 1.0, (40, 1))], lambda m: float(m[0][0]), rounds=200, seed=round_number)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 0 <= found.high
    assert 85 <= hits <= 100


def test_what_is_not_defined_has_no_estimate() -> None:
    assert estimate([], lambda _: 1.0) is None
    assert estimate([np.array([[NAN], [NAN]])], lambda means: float(means[0][0])) is None


@pytest.mark.parametrize(
    ("low", "high", "side", "margin", "verdict"),
    [
        (0.1, 0.3, "above", None, "confirmed"),
        (-0.3, -0.1, "above", None, "refuted"),
        (-0.1, 0.3, "above", None, "open"),
        (-0.3, -0.1, "below", None, "confirmed"),
        (0.1, 0.3, "below", None, "refuted"),
        (-0.01, 0.01, None, 0.02, "confirmed"),
        (-0.01, 0.03, None, 0.02, "open"),
        (0.03, 0.05, None, 0.02, "refuted"),
        (-0.05, -0.03, None, 0.02, "refuted"),
        (None, None, "above", None, "open"),
    ],
)
def test_verdicts(low: float | None, high: float | None, side: str | None, margin: float | None, verdict: str) -> None:
    claim = Claim("X1", "it is so", "a number", side=side, margin=margin)  # type: ignore[arg-type]
    assert claim.judged(Estimate(0.0, low, high, 5)).verdict == verdict


def test_a_claim_has_a_side_or_a_margin() -> None:
    with pytest.raises(BadOption, match="X1 needs a side or a margin"):
        Claim("X1", "it is so", "a number", side=None)
    with pytest.raises(BadOption, match="not both"):
        Claim("X1", "it is so", "a number", margin=0.1)


def test_numbers_as_they_are_shown() -> None:
    assert figure(-0.0001) == "-0.0001"
    assert str(Estimate(0.25, 0.1, 0.4)) == "0.250 [0.100, 0.400]"
    assert (shortened(0.371), shortened(-1.319), shortened(-0.5)) == (".371", "-1.319", "-.500")
    assert cell(Estimate(0.25), 0.3) == StudyCell("0.250", ".300", Estimate(0.25))
    assert cell(None).measured == "–"


def test_the_page() -> None:
    claim = Claim("X1", "it is so", "a number")
    page = StudyPage(
        name="toy",
        title="A toy",
        about="About it.",
        facts=["Trained on nothing."],
        tables=[
            StudyTable("Table 1", "Higher is better.", ["one"], [("row", [cell(Estimate(0.25, 0.1, 0.4, 3), 0.3)])])
        ],
        claims=corrected([claim.judged(Estimate(0.25, 0.1, 0.4, 3)), claim.judged(None, "no data")]),
        missing=["The rest."],
    )
    text = markdown_page(page)
    assert "| row | 0.250 [0.100, 0.400] (.300) |" in text
    assert "| X1 | it is so | a number; above 0 | 0.250 [0.100, 0.400] | **confirmed** | confirmed |" in text
    assert "| X1 | it is so | a number; above 0 | no data | **open** | open |" in claims_table(page.claims)
    assert "1 confirmed, 0 refuted, 1 open" in text
    assert "- The rest." in text
    plain = as_plain(page)
    assert plain["tables"][0]["rows"][0]["cells"] == [
        {"paper": ".300", "value": 0.25, "low": 0.1, "high": 0.4, "texts": 3}
    ]
    assert [one["verdict"] for one in plain["claims"]] == ["confirmed", "open"]
    assert markdown_tables(page.tables) in text + "\n"
    assert "in round brackets the paper's number" in text
    ours = replace(page, tables=[StudyTable("Table 1", "", ["one"], [("row", [cell(Estimate(0.25, 0.1, 0.4, 3))])])])
    assert "round brackets" not in markdown_page(ours)  # there is no paper that it could be set beside


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.00022, "-0.0002"),
        (0.0004, "0.0004"),
        (-0.1024, "-0.102"),
        (0.0, "0.000"),
        (-1e-12, "0.000"),
        (2.0, "2.000"),
    ],
)
def test_an_edge_of_an_interval_shows_on_which_side_of_zero_it_is(value: float, text: str) -> None:
    assert figure(value) == text
