"""The study of Mask-LRP on toys: verdicts from numbers made by hand, and the whole study on a tiny model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from study_data import base, rows_of, sentences, write

from wherefrom.core.arrays import Numbers
from wherefrom.heads.head_map import HeadMap, Relation
from wherefrom.heads.trees import Tree, Word
from wherefrom_studies.bench import StudyBase, StudyBench, StudyModel, StudySize
from wherefrom_studies.claims import ClaimVerdict
from wherefrom_studies.mask_lrp import measuring
from wherefrom_studies.mask_lrp.judging import corrupted_table, judged, permuted
from wherefrom_studies.mask_lrp.measuring import MaskResult
from wherefrom_studies.mask_lrp.paper import BESIDE, CLAIMS, MASKS, PAPER
from wherefrom_studies.mask_lrp.study import STUDY
from wherefrom_studies.pages import as_plain, markdown_page
from wherefrom_studies.study import StudyRequest, run_study

TINY = StudySize(texts=6, tokens=40, quick=True, validation=4)


class MadeUp:
    """Runs whose means are given by method, the same by every metric but for the sign of log-odds; texts differ by the
    same for all methods.
    """

    def __init__(self, means: dict[str, float]) -> None:
        self.means = means

    def table(self, metric: str, methods: Sequence[str], detail: str = "") -> Numbers:
        sign = -1.0 if metric == "log_odds" else 1.0
        return np.array([[sign * self.means.get(one, 0.0) + shift for one in methods] for shift in (-0.1, 0.0, 0.1)])


METHODS = PAPER | BESIDE | {name: name for name in MASKS}


def heads(low: float, high: float, *, layers: int = 8) -> HeadMap:
    """Four heads a layer: how often a head looks at one distance goes from low to high with depth, and how often it
    finds the governor the other way.
    """
    steps = np.linspace(low, high, layers)
    table = tuple((float(one),) * 4 for one in steps)
    turned = tuple((float(one),) * 4 for one in steps[::-1])
    relation = Relation(turned, 0.3, 1, 10, ((1, 7), (2, 3)))
    offset = ((1,) * 4,) * layers
    return HeadMap("m", "f", 2, 9, offset, table, {"nsubj": relation})


def found_with(means: dict[str, float], heads_: HeadMap, ranks: list[float]) -> MaskResult:
    runs: Any = MadeUp(means)
    corrupted = {0.5: ["half"], 1.0: ["whole"]}
    model = StudyModel("toy", "toy", {}, 1, 0.0)
    return MaskResult(model, runs, heads_, METHODS, ["r1", "r2"], corrupted, runs, None, ranks, ["r1"])


def verdicts(text: MaskResult, answers: MaskResult) -> dict[str, ClaimVerdict]:
    found = judged({("sst2", "toy"): text, ("squad1", "toy"): answers})
    return {one.claim.name: one.verdict for one in found}


RIGHT = dict.fromkeys(PAPER.values(), 0.1) | {
    "Ours": 0.5,
    "Ours, bare=skip": 0.5,
    "without positional": 0.501,
    "without syntactic": 0.499,
    "r1": 0.3,
    "r2": 0.4,
    "transatt": 0.2,
    "alti": 0.1,
    "half": 0.4,
    "whole": 0.2,
}


def test_every_claim_can_be_confirmed() -> None:
    one = found_with(RIGHT, heads(0.95, 0.05), [0.001, 0.002, 0.003])
    assert verdicts(one, one) == dict.fromkeys(CLAIMS, "confirmed")


def test_every_claim_can_be_refuted() -> None:
    wrong = dict.fromkeys(PAPER.values(), 0.9) | {
        "Ours": 0.2,
        "without positional": 0.5,
        "without syntactic": 0.1,
        "r1": 0.3,
        "r2": 0.4,
        "transatt": 0.6,
        "alti": 0.5,
        "half": 0.4,
        "whole": 0.5,
    }
    one = found_with(wrong, heads(0.05, 0.95), [0.5, 0.6, 0.7])
    assert verdicts(one, one) == dict.fromkeys(CLAIMS, "refuted")


def test_estimates_by_hand() -> None:
    one = found_with(RIGHT, heads(0.95, 0.05), [0.001, 0.003])
    values = {claim.claim.name: claim.estimate.value for claim in judged({("sst2", "toy"): one}) if claim.estimate}
    assert values["M1 AOPC"] == pytest.approx(0.4)
    assert values["M2"] == pytest.approx(0.5 - 0.35)
    assert values["M3"] == pytest.approx(0.35 - 0.2)
    # .5, .4, .2 at 0, .5, 1: least squares gives (.2 - .5) / 1
    assert values["M4"] == pytest.approx(0.3)
    assert values["M9"] == pytest.approx(0.002)
    assert values["M5 scores"] == pytest.approx(2.0)  # the two tables are each other's mirror
    assert "M7" not in values  # no questions were measured
    table = corrupted_table(one)
    assert table is not None
    assert table[0] == [0.0, 0.5, 1.0]


def test_without_heads_nothing_is_said() -> None:
    nobody = replace(
        found_with(RIGHT, heads(0.1, 0.1), []),
        methods=PAPER | BESIDE,
        randoms=[],
        same_depth=[],
        corrupted=None,
        corrupted_runs=None,
    )
    found = {one.claim.name: one for one in judged({("sst2", "toy"): nobody})}
    assert {one.verdict for one in found.values()} == {"open"}
    assert found["M1 AOPC"].estimate is None


def test_a_mask_of_one_kind_says_nothing_about_the_other() -> None:
    """All chosen heads are positional: the mask without syntactic heads is the whole one."""
    both = heads(0.95, 0.05)
    one = found_with(RIGHT, replace(both, relations={}), [0.001, 0.003])
    found = {claim.claim.name: claim for claim in judged({("sst2", "toy"): one})}
    assert found["M6 syntactic"].estimate is None
    assert found["M6 syntactic"].verdict == "open"


def test_chance_is_taken_away() -> None:
    """Two heads of four, of which one is positional: 1 and -1 come as often, so that nothing is left of 1."""

    def apart(layer: Numbers, positional: Numbers, syntactic: Numbers) -> float:
        return float(layer @ syntactic - layer @ positional)

    one = (np.array([0.0, 1.0]), np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    found = permuted({("a", "M6"): one, ("b", "M6"): one}, apart).estimate  # one base: exchanged in the same way
    assert found is not None
    assert (found.value, found.low, found.high) == (1.0, 0.0, 2.0)
    assert permuted({}, apart).estimate is None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data and a base for the whole study."""
    root = tmp_path_factory.mktemp("mask-lrp")
    write(root / "data", "sst2_train", [{**row, "text": f"it is , {row['text']}"} for row in rows_of("train", 60)])
    write(root / "data", "sst2_dev", rows_of("dev", 12))
    write(root / "data", "imdb", rows_of("test", 4))
    write(root / "data", "jw_imdb_train", [{"text": f"but {text}", "label": label} for text, label in sentences(8)])
    base(root / "base")
    return root


def test_the_whole_study_on_a_tiny_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser is replaced by one that lets every word depend on the next; the thresholds are lowered, because a
    random model's heads look nowhere.
    """

    def parsed(trees: Sequence[Tree]) -> list[Tree]:
        found = []
        for one in trees:
            place, words = 0, []
            for number, word in enumerate(one.text.split()):
                start = one.text.index(word, place)
                place = start + len(word)
                words.append(Word(start, place, number + 1, "nsubj"))
            words[-1] = replace(words[-1], head=-1, relation="root")
            found.append(replace(one, words=tuple(words)))
        return found

    monkeypatch.setattr(measuring, "parse", parsed)
    monkeypatch.setattr(measuring, "OWN", (0.25, -0.95))
    monkeypatch.setattr(measuring, "THRESHOLDS", ((0.25, -0.95), (0.2, -0.99)))
    bench = StudyBench(folder / "data", folder / "out", TINY)
    toy = StudyBase("toy", str(folder / "base"))
    page = run_study(STUDY, bench, StudyRequest([toy], ["sst2"], 2))
    rows = dict(next(one for one in page.tables if one.title.endswith("AOPC")).rows)
    for name in (*PAPER, *BESIDE, "Random mask", "Ours", "Ours, bare=skip"):
        estimate = rows[name][0].estimate
        assert estimate is not None, name
        assert estimate.texts == 6
    assert rows["Ours"][0].paper == ".438"
    assert list((folder / "out" / "heads").glob("*-0.2--0.99.json"))  # the maps of other thresholds
    titles = " ".join(table.title for table in page.tables)
    for wanted in ("Figure 4", "Figure 5", "Heads kept by other thresholds", "Thresholds: sst2 toy"):
        assert wanted in titles
    assert (folder / "out" / "mask-lrp-figure1-sst2-toy.png").is_file()
    assert any("ud_en_ewt" in one for one in page.missing)
    judged_ones = {one.claim.name: one for one in page.claims}
    assert judged_ones["M4"].estimate is not None
    assert judged_ones["M9"].estimate is not None
    text = markdown_page(page)
    assert markdown_page(run_study(STUDY, bench, StudyRequest([toy], ["sst2"], 2))) == text  # nothing is measured twice
    json.dumps(as_plain(page), allow_nan=False)
    small, model = replace(bench, size=TINY._replace(texts=2)), bench.model("sst2", toy)
    measured_on = {row["id"] for row in small.texts("sst2", model, 9)}
    others = {row["id"] for row in small.texts("sst2", model, 4, skip=2)}
    assert (len(measured_on), len(others)) == (2, 4)  # what is measured on does not limit the others
    assert not measured_on & others
