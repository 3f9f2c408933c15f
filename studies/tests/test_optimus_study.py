"""The study of Optimus on toys: verdicts from numbers made by hand, and the whole study on a tiny model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from study_data import base, rows_of, write

from wherefrom.benchmark.store import Run
from wherefrom.core.arrays import Numbers
from wherefrom.optimus.combination import BASELINE
from wherefrom_studies.bench import StudyBase, StudyBench, StudyModel, StudySize
from wherefrom_studies.optimus import judging, measuring, tables
from wherefrom_studies.optimus.analyses import CombinationGrades
from wherefrom_studies.optimus.measuring import OptimusResult
from wherefrom_studies.optimus.paper import ORDER
from wherefrom_studies.optimus.study import STUDY
from wherefrom_studies.pages import as_plain, markdown_page
from wherefrom_studies.study import StudyRequest, run_study

METHODS = {name: name for name in ORDER}


class MadeUp:
    """Runs whose numbers are given, the same for every metric but sufficiency, where less is better."""

    def __init__(self, means: dict[str, float], winner: str, passes: tuple[int, int]) -> None:
        self.means, self.winner, self.passes = means, winner, passes

    def table(self, metric: str, methods: Sequence[str], _detail: str = "") -> Numbers:
        sign = -1.0 if metric == "sufficiency" else 1.0
        return np.array([[sign * self.means.get(method, 0.0) + shift for method in methods] for shift in (0.0, 0.1)])

    def explanations(self) -> Iterator[dict[str, Any]]:
        for number in range(4):
            won = str(BASELINE) if number == 0 else self.winner
            yield {"method": "OP", "params": json.dumps({"winner": won})}

    def alone(self) -> pandas.DataFrame:
        rows = [
            {"method": method, "forwards": count, "backwards": 0, "seconds": 0.1}
            for method, count in zip(("IG", "OP"), self.passes, strict=True)
            for _ in range(3)
        ]
        return pandas.DataFrame(rows)


def found(means: dict[str, float], *, right: bool) -> OptimusResult:
    """With combinations on which RFT orders as AUPRC does and F and FT do not, or the other way round."""
    good, bad = np.array([[1.0, 2.0, 3.0]] * 2), np.array([[2.0, 3.0, 1.0]] * 2)
    rft, other = (good, bad) if right else (bad, good)
    grades = CombinationGrades(
        ["a", "b", "c"], {"rft": rft, "faithfulness": other, "faithful_truthfulness": other, "auprc": good}
    )
    winner = "A, mean of heads, mean of layers, to" if right else "A, head 1, layer 1, to"
    runs = MadeUp(means, winner, (10, 30) if right else (30, 10))
    sentences = MadeUp(means, winner, (30, 10) if right else (10, 30))
    changes = {"delete": [0.2, 0.2], "unk": [0.1, 0.1] if right else [0.3, 0.3], "mask": [0.1, 0.1]}
    model = StudyModel("toy", "toy", {}, 1, 0.0)
    return OptimusResult(model, runs, METHODS, [], sentences, METHODS, grades, [], changes)  # type: ignore[arg-type]


def verdicts(one: OptimusResult) -> dict[str, str]:
    return {found.claim.name: found.verdict for found in judging.judged({("hoc", "toy"): one})}


def test_every_claim_can_be_confirmed() -> None:
    means = {
        "LIME": 0.1,
        "IG": 0.2,
        "B": 0.3,
        "OP": 0.5,
        "OL": 0.6,
        "OB": 0.7,
        "B*": 0.1,
        "OB*": 0.1,
        "OP A and A*": 0.8,
    }
    got = verdicts(found(means, right=True))
    # the made-up winners are mean, mean, To: From wins once of four texts, which are too few to say more
    assert got.pop("O8 matrix") == "open"
    assert got.pop("O8 minority") == "open"
    assert got == dict.fromkeys(got, "confirmed")


def test_every_claim_can_be_refuted() -> None:
    means = {
        "LIME": 0.9,
        "IG": 0.8,
        "B": 0.7,
        "OP": 0.5,
        "OL": 0.4,
        "OB": 0.3,
        "B*": 0.8,
        "OB*": 0.6,
        "OP A and A*": 0.1,
    }
    got = verdicts(found(means, right=False))
    assert [got.pop(name) for name in ("O8 heads", "O8 layers", "O8 matrix")] == ["open"] * 3  # one text of four
    assert got.pop("O8 minority") in ("confirmed", "open")
    assert got == dict.fromkeys(got, "refuted")


def test_a_claim_without_its_data_is_open() -> None:
    assert {one.verdict for one in judging.judged({})} == {"open"}


def test_ranks_by_hand() -> None:
    """The best is 1, and equals share the mean of their ranks."""
    row = np.array([0.3, 0.1, 0.3, 0.2])
    assert [tables._rank_of(place, 1.0)([row]) for place in range(4)] == [1.5, 4.0, 1.5, 3.0]
    assert tables._rank_of(1, -1.0)([row, row]) == 1.0


def test_methods_are_those_of_the_paper() -> None:
    fitted = {"A": "A, head 1, mean of layers, to", "A*": "A*, head 0, layer 1, to", "test": str(BASELINE)}
    one = measuring.methods_for(fitted, several=False, quick=True)
    assert tuple(one) == ORDER
    assert one["OL"] == one["OP"] == "optimus"
    assert one["OB"] == "optimus:combination=A, head 1, mean of layers, to"
    assert measuring.methods_for(fitted, several=True, quick=False)["OL"] == "optimus:select=label"


def test_the_whole_study_on_a_tiny_model(tmp_path: Path) -> None:
    marked = [
        {**row, "rationale": [[row["text"].index("was ") + 4, row["text"].index(" and")]]} for row in rows_of("x", 40)
    ]
    parts = [{**row, "split": ("train", "val", "test")[number % 3]} for number, row in enumerate(marked)]
    write(tmp_path / "data", "hatexplain", parts)
    size = StudySize(texts=3, tokens=40, quick=True, validation=2)
    bench = StudyBench(tmp_path / "data", tmp_path / "out", size)
    toy = StudyBase("toy", str(base(tmp_path / "base")))
    page = run_study(STUDY, bench, StudyRequest([toy], ["hatexplain"]))
    (run_folder,) = (tmp_path / "out" / "runs").iterdir()
    scores = Run.load(run_folder).scores
    by_rft = scores[(scores["metric"] == "rft:normalise=no") & (scores["method"] == "optimus")]["value"]
    table = next(one for one in page.tables if one.title == "Table 3: RFT")
    (prime,) = (cells for name, cells in table.rows if name == "OP")
    (baseline,) = (cells for name, cells in table.rows if name == "B")
    assert prime[0].estimate is not None
    assert baseline[0].estimate is not None
    assert prime[0].estimate.value == pytest.approx(by_rft.mean())
    assert prime[0].estimate.value >= baseline[0].estimate.value  # it was chosen by it
    assert prime[0].paper == ".528"
    table_2 = next(one for one in page.tables if one.title.startswith("Table 2"))
    assert table_2.rows[0][0] == "HX toy, 96 combinations"  # (2 + 4 heads)(2 + 2 layers) 4
    text = markdown_page(page)
    assert (
        markdown_page(run_study(STUDY, bench, StudyRequest([toy], ["hatexplain"]))) == text
    )  # nothing is measured twice
    assert {one.name for one in (tmp_path / "out").glob("*.png")} == {one.file for one in page.pictures}
    json.dumps(as_plain(page), allow_nan=False)
