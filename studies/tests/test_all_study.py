"""The page over all studies: numbers by hand, and a folder of two studies that share texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from study_data import base, rows_of, sentences, write

from wherefrom.errors import BadFile
from wherefrom_studies.bench import SIZES, StudyBase, StudyBench, StudyModel, StudySize
from wherefrom_studies.overview import collecting, ranking
from wherefrom_studies.overview.collecting import BLOCK, SetScores, plain_method, plain_metric
from wherefrom_studies.overview.ranking import (
    best_of,
    costs,
    diagnosticity,
    drawings,
    mean_places,
    metric_agreement,
    placed,
    places,
    ranks,
)
from wherefrom_studies.overview.study import BEGIN, END, overview, write_into
from wherefrom_studies.pages import StudyPage, StudyTable, markdown_page
from wherefrom_studies.study import StudyRequest, run_study


def test_variants_of_one_paper_stay_on_its_page() -> None:
    assert plain_method("attcat") == "attcat"
    assert plain_method("attcat:layers=last") is None
    assert plain_method("integrated_gradients:steps=100") == "integrated_gradients"
    assert plain_method("integrated_gradients:steps=100:reduce=l2") is None
    assert plain_method("lime:samples=200") == "lime"
    assert plain_method("mask_lrp:heads=/a/sst2-M6-0123456789.json") == "mask_lrp"
    assert plain_method("mask_lrp:heads=/a/sst2-M6-0123456789.json:bare=skip") == "mask_lrp:bare=skip"
    assert plain_method("mask_lrp:heads=/a/sst2-M6-0123456789.json:random=1") is None
    assert plain_method("mask_lrp:heads=/a/sst2-M6-0123456789-0.3--0.2.json:bare=skip") is None
    assert plain_metric("aopc") == "aopc"
    assert plain_metric("aopc:variant=published") is None
    assert plain_metric("precision_at_k:k=20") == "precision_at_k"
    assert plain_metric("precision_at_k:k=5") is None


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("sst2-M6-000-0123456789", ("sst2", "M6", None, None)),
        ("qqp_duplicates-deberta-v3-000-0123456789", ("qqp_duplicates", "deberta-v3", None, None)),
        ("sst2-M6-seed3-001-0123456789", ("sst2", "M6", "3", None)),
        ("ais-M6-sentence-000-0123456789", ("ais", "M6", None, "sentence")),
    ],
)
def test_the_names_of_blocks(name: str, found: tuple[str | None, ...]) -> None:
    match = BLOCK.match(name)
    assert match is not None
    assert (match["set"], match["base"], match["seed"], match["level"]) == found


def test_places_by_hand() -> None:
    assert places(np.array([0.5, 0.9, np.nan, 0.1]), 1.0) == pytest.approx([0.5, 0.0, np.nan, 1.0], nan_ok=True)
    assert places(np.array([0.5, 0.9, 0.1]), -1.0) == pytest.approx([0.5, 1.0, 0.0])
    assert places(np.array([0.5, 0.5, 0.1]), 1.0) == pytest.approx([0.25, 0.25, 1.0])
    assert np.isnan(places(np.array([0.5, np.nan]), 1.0)).all()


def scores(**metrics: dict[str, list[float]]) -> SetScores:
    """metric -> method -> one number a text."""
    return SetScores(
        {name: (tuple(one), np.array(list(one.values())).T) for name, one in metrics.items()},
        {"a": 1.0, "b": 4.0, "random": 2.0},
        {"a": 1.0, "b": 10.0, "random": 0.0},
    )


FIRST = scores(
    aopc={"a": [0.9, 0.8], "b": [0.5, 0.6], "c": [0.3, 0.3], "random": [0.1, 0.2]},
    log_odds={"a": [-0.9, -0.8], "b": [-1.5, -1.6], "c": [-0.3, -0.3], "random": [-0.1, -0.2]},
)
SECOND = scores(aopc={"b": [0.9], "c": [0.4], "random": [0.5]})


def test_mean_places_by_hand() -> None:
    found = mean_places({("s", "M"): FIRST, ("t", "M"): SECOND}, "erasure")
    # a: first by AOPC, second of four by log-odds (lower is better); b the other way round, and first in the second set
    assert found["a"][0] == pytest.approx((0 + 1 / 3) / 2)
    assert found["b"][0] == pytest.approx(((1 / 3 + 0) / 2 + 0) / 2)
    assert found["c"][0] == pytest.approx((2 / 3 + 1) / 2)
    assert found["random"][0] == pytest.approx((1 + 0.5) / 2)
    best, ranked = best_of({("s", "M"): FIRST, ("t", "M"): SECOND}, "erasure")
    assert best[0] == "b"
    assert ranked["b"].value == pytest.approx(found["b"][0])
    assert "random" not in best


def test_a_method_has_no_place_by_the_metric_that_chooses_its_scores() -> None:
    one = scores(
        rft={"optimus": [0.9], "a": [0.5], "b": [0.4]}, faithfulness={"optimus": [0.1], "a": [0.5], "b": [0.4]}
    )
    found = mean_places({("s", "M"): one}, "one at a time")
    assert {name: values[0] for name, values in found.items()} == {"optimus": 1.0, "a": 0.0, "b": pytest.approx(0.75)}


def test_agreement_of_metrics_by_hand() -> None:
    found = metric_agreement({("s", "M"): FIRST})
    # AOPC orders a b c random, log-odds b a c random: one pair of neighbours is exchanged, so rho = 1 - 6 * 2 / 60
    assert list(found) == [("aopc", "log_odds")]
    assert found["aopc", "log_odds"][0] == pytest.approx(0.8)


def test_texts_are_drawn_together_for_all_metrics() -> None:
    """Of two metrics that say the same, the second adds nothing to what is known of a method."""
    values = {name: list(np.random.default_rng(seed).random(12)) for seed, name in enumerate(("a", "b", "random"))}
    once = {("s", "M"): scores(aopc=values)}
    both = {("s", "M"): scores(aopc=values, comprehensiveness=values)}
    assert placed(once, "erasure") == placed(both, "erasure")


def test_values_that_differ_in_their_last_bits_alone_are_equal() -> None:
    """As a matrix product gives them that sums two equal columns in another order."""
    assert 0.1 + 0.2 != 0.3
    assert ranks(np.array([0.1 + 0.2, 0.3, 1.0, np.nan])) == pytest.approx([1.5, 1.5, 3.0, np.nan], nan_ok=True)


def test_a_round_is_what_its_texts_say() -> None:
    """The same by a plain loop over rounds, with a text that one metric lacks."""
    chance = np.random.default_rng(1)
    tables = {metric: chance.random((6, 5)) for metric in ("aopc", "comprehensiveness", "sufficiency")}
    tables["aopc"][2] = np.nan
    names = ("a", "b", "c", "d", "random")
    sets = {("s", "M"): SetScores({metric: (names, table) for metric, table in tables.items()})}
    ((_, weights),) = drawings(sets)
    by_method, agreement = mean_places(sets, "erasure"), metric_agreement(sets)
    for number in (0, 1, 7):
        texts = np.repeat(np.arange(6), weights[number].astype(int))
        means = {metric: pandas.DataFrame(table[texts], columns=names).mean() for metric, table in tables.items()}
        orders = {metric: one.rank(ascending=metric == "sufficiency") for metric, one in means.items()}
        expected = sum((order - 1) / 4 for order in orders.values()) / 3
        assert {name: values[number] for name, values in by_method.items()} == pytest.approx(expected.to_dict())
        for (a, b), values in agreement.items():
            assert values[number] == pytest.approx(orders[a].corr(orders[b])), (a, b, number)


def test_diagnosticity_by_hand() -> None:
    table = np.array([[0.9, 0.5, 0.2], [0.1, 0.5, 0.5], [np.nan, np.nan, 0.1]])
    assert diagnosticity(table, ["a", "b", "random"], 1.0) == pytest.approx([1.0, 0.25, np.nan], nan_ok=True)
    assert diagnosticity(table, ["a", "b", "random"], -1.0) == pytest.approx([0.0, 0.75, np.nan], nan_ok=True)


def test_costs_are_beside_the_median() -> None:
    assert costs({("s", "M"): FIRST}) == {
        "a": pytest.approx((0.5, 1.0)),
        "b": pytest.approx((2.0, 10.0)),
        "random": pytest.approx((1.0, 0.0)),
    }


def test_tables_are_written_between_the_marks(tmp_path: Path) -> None:
    path = tmp_path / "index.md"
    path.write_text(f"# Studies\n\n{BEGIN}\nold\n{END}\n\nbelow\n")
    page = StudyPage("all", "t", "a", ["a fact"], [StudyTable("One", "", ["x"], [])], [])
    write_into(page, path)
    text = path.read_text()
    assert text.startswith("# Studies")
    assert text.endswith("below\n")
    assert "old" not in text
    assert "### One" in text
    write_into(page, path)
    assert path.read_text() == text
    path.write_text("nothing")
    with pytest.raises(BadFile, match="no place for the tables"):
        write_into(page, path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one model on the same texts with other methods, as two studies make them, and their claims."""
    root = tmp_path_factory.mktemp("all")
    write(root / "data", "sst2_train", [{**row, "text": f"it is , {row['text']}"} for row in rows_of("train", 40)])
    write(root / "data", "sst2_dev", rows_of("dev", 12))
    write(root / "data", "imdb", rows_of("test", 4))
    write(root / "data", "jw_imdb_train", [{"text": f"but {text}", "label": label} for text, label in sentences(8)])
    base(root / "base")
    bench = StudyBench(root / "data", root / "out", StudySize(5, 40, quick=True, validation=4))
    trained = bench.model("sst2", StudyBase("toy", str(root / "base")))
    model = StudyModel("toy", trained.source, {}, 1, 0.0)
    bench.run("sst2", model, ["attcat", "random", "saliency", "attcat:layers=last"], ["aopc", "faithfulness"])
    bench.run("sst2", model, ["alti", "random", "saliency"], ["aopc", "comprehensiveness"])
    bench.run("sst2", model, ["gae", "random"], ["aopc"], target="label")  # another question
    claim: dict[str, Any] = {"name": "C1", "words": "w", "verdict": "open", "corrected": "open", "found": None}
    judged = {"value": 0.5, "low": 0.1, "high": 0.9, "texts": 5}
    pages = [claim, {**claim, "name": "C2", "verdict": "confirmed", "found": judged}]
    (root / "out" / "attcat.json").write_text(json.dumps({"claims": pages}))
    (root / "out" / "runs" / "sst2-toy-999-0123456789").mkdir()  # a run that has not begun
    return root / "out"


def test_methods_are_held_against_each_other_on_the_same_texts() -> None:
    """Two were measured on two texts, the third on one of them; a value that is not defined counts as measured."""
    values = {"a": (0.1, 0.9), "random": (0.2, None), "b": (0.3,), "c": (0.4,)}
    rows = [
        {"example": f"t{place}", "target": "x", "method": method, "metric": "aopc", "value": value}
        for method, own in values.items()
        for place, value in enumerate(own)
    ]
    alone = [{"method": "a", "seconds": 1.0, "forwards": 1, "backwards": 1}]
    found = collecting._of_set(pandas.DataFrame(rows), pandas.DataFrame(alone))
    methods, table = found.tables["aopc"]
    assert dict(zip(methods, table[0].tolist(), strict=True)) == {"a": 0.1, "b": 0.3, "c": 0.4, "random": 0.2}
    assert len(table) == 1
    assert found.rows == {"a": 2.0}


def test_claims_of_a_page_that_is_in_two_folders_count_once(folder: Path, tmp_path: Path) -> None:
    page = (folder / "attcat.json").read_text()
    (tmp_path / "attcat.json").write_text(page)
    assert len(collecting.collect([folder, tmp_path]).claims) == len(json.loads(page)["claims"])


def page_over(folder: Path, out: Path) -> StudyPage:
    return run_study(overview([folder]), StudyBench(out, out, SIZES["quick"]), StudyRequest())


def test_the_whole_page(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "ROUNDS", 20)
    page = page_over(folder, tmp_path)
    shown = {table.title: table for table in page.tables}
    assert [cell.measured for _, cells in shown["What holds of each paper"].rows for cell in cells] == [
        *("1", "0", "1"),
        *("0", "0", "2"),  # after Holm's correction
    ]
    assert [cells[2].measured for _, cells in shown["All claims"].rows] == ["not measured", "0.500 [0.100, 0.900]"]
    together = dict(shown["`aopc`"].rows)
    assert set(together) == {"`attcat`", "`alti`", "`saliency`", "`random`"}  # of both runs, each once
    assert "5." in shown["`aopc`"].note
    assert any("explains 'label' instead of 'predicted'" in one for one in page.missing)
    assert "Which method for which task" in shown
    assert (tmp_path / "all-cost.png").is_file()
    assert any("sst2-toy-999" in one for one in page.missing)
    assert "The study optimus: no page in these folders." in page.missing
    assert markdown_page(page_over(folder, tmp_path)) == markdown_page(page)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadFile, match="no finished run of a study"):
        page_over(tmp_path / "empty", tmp_path)
