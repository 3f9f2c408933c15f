"""The words of many explanations, by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from wherefrom.benchmark.words import ENGLISH, SHOWN, WordChoice, list_words, summarise_words
from wherefrom.core.units import words
from wherefrom.report.words import words_view


def row(example: str, text: str, scores: list[float], target: str = "good") -> dict[str, Any]:
    """An explanation by words, between two special tokens."""
    spans = words(text)
    return {
        "example": example,
        "target": target,
        "method": "toy",
        "level": "word",
        "signed": True,
        "text": text,
        "pair": None,
        "segment": [-1, *[0] * len(spans), -1],
        "offsets": [[0, 0], *[list(span) for span in spans], [0, 0]],
        "scores": [99.0, *scores, 99.0],
    }


ROWS = [
    row("1", "A fine film", [0.0, 3.0, 1.0]),
    row("2", "fine, Fine film", [1.0, 0.0, 2.0, -1.0]),
    row("3", "a dull film", [0.5, -2.0, 1.0]),
    row("4", "dull", [2.0], target="bad"),
]


def test_totals_means_and_intervals_by_hand() -> None:
    found = {(one.target, one.word): one for one in summarise_words(ROWS, least=1)}
    fine = found["good", "fine"]
    assert (fine.occurrences, fine.texts, fine.total) == (3, 2, 6.0)
    assert fine.mean == pytest.approx((3.0 + 1.5) / 2)
    reach = 12.7062 * math.sqrt(((3 - 2.25) ** 2 + (1.5 - 2.25) ** 2) / 1 / 2)  # Student's t, one degree of freedom
    assert (fine.low, fine.high) == pytest.approx((2.25 - reach, 2.25 + reach), rel=1e-4)
    assert (fine.positive, fine.negative, fine.changes_sign) == (1.0, 0.0, False)
    film = found["good", "film"]
    assert film.changes_sign
    assert (film.positive, film.negative) == pytest.approx((2 / 3, 1 / 3))
    assert fine.examples[0] == "A fine film"  # where it weighs most
    assert found["bad", "dull"].total == 2.0
    assert found["bad", "dull"].low is None
    assert ("good", ",") not in found
    assert not any(one.total > 90 for one in found.values())  # special tokens are left out


def test_which_words_are_listed() -> None:
    assert [one.word for one in summarise_words(ROWS)] == ["fine", "film", "a"]  # in two texts of one class
    assert [one.word for one in summarise_words(ROWS, stop_words=["A", "film"])] == ["fine"]
    apart = {one.word for one in summarise_words(ROWS, fold_case=False, least=1)}
    assert {"A", "a", "fine", "Fine"} <= apart


def test_what_a_report_lists_by_hand() -> None:
    good, bad = list_words(ROWS, WordChoice(least=1))
    assert (good.target, good.texts, good.signed) == ("good", 3, True)
    assert [one.word for one in good.heaviest] == ["fine", "dull", "film", "a"]  # totals 6, -2, 1 and 0.5
    assert [one.word for one in good.changing] == ["film"]
    assert (bad.target, bad.texts, bad.changing) == ("bad", 1, ())
    unsigned = [one | {"signed": False} for one in ROWS]
    assert not any(one.changing for one in list_words(unsigned, WordChoice(least=1)))
    assert list_words(ROWS, WordChoice(least=4)) == []
    (left,) = list_words(ROWS, WordChoice(stop_words=ENGLISH))
    assert [one.word for one in left.heaviest] == ["fine", "film"]


def test_large_totals_and_large_means_are_both_listed() -> None:
    """A word of many texts has the largest total, one of two texts the largest mean; those between are left out."""
    often = [row(f"o{i}", f"often w{i}", [2.0, 0.01]) for i in range(2 * SHOWN)]
    rare = [row(f"r{i}", "rare", [7.0]) for i in range(2)]
    (found,) = list_words([*often, *rare], WordChoice(least=1))
    listed = [one.word for one in found.heaviest]
    assert listed[:2] == ["often", "rare"]
    assert SHOWN <= len(listed) <= 2 * SHOWN


def test_words_of_grammar_are_apart_and_do_not_fill_the_list() -> None:
    grammar = sorted(ENGLISH - {"it's", "that's"})[: 3 * SHOWN]
    text = " ".join([*grammar, "gorgeous"])
    rows = [row(f"t{i}", text, [*[5.0] * len(grammar), 1.0]) for i in range(3)]
    (listed,) = list_words(rows, WordChoice())
    assert "gorgeous" in [word.word for word in listed.heaviest]
    view = words_view(listed)
    assert [name for name, _ in view.heaviest.rows] == ["gorgeous"]
    assert view.grammar is not None
    assert SHOWN <= len(view.grammar.rows) <= 2 * SHOWN


def test_scores_of_whole_sentences_are_no_scores_of_words() -> None:
    sentence = row("1", "A fine film.", [0.0] * 4)
    sentence |= {"level": "sentence", "segment": [0], "offsets": [[0, 12]], "scores": [1.0]}
    assert summarise_words([sentence], least=1) == []


def test_tokens_of_a_word_are_added_up() -> None:
    pieces = row("1", "unfilmed", [0.0])
    pieces |= {"segment": [0, 0], "offsets": [[0, 2], [2, 8]], "scores": [1.0, 2.5]}
    (only,) = summarise_words([pieces], least=1)
    assert (only.word, only.occurrences, only.total) == ("unfilmed", 1, 3.5)


def test_of_a_run(tmp_path: Path) -> None:
    from wherefrom.benchmark.plan import RunPlan
    from wherefrom.benchmark.run import run
    from wherefrom.samples import sample_path

    plan = RunPlan(
        data=str(sample_path("reviews")), model="embedded", methods=("saliency",), metrics=("entropy",), limit=4
    )
    found = run(plan, tmp_path / "run")
    frame = found.words("saliency", least=1)
    assert len(frame) > 10
    stored = {(row["example"]) for row in found.rows("explanations")}
    assert frame["texts"].max() <= len(stored)
