"""The study of AttCAT on toys: verdicts from numbers made by hand, and the whole study on a tiny model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from study_data import base, rows_of, sentences, write

from wherefrom.benchmark.store import Run
from wherefrom.core.arrays import Numbers
from wherefrom.progress import OnProgress
from wherefrom_studies.attcat.judging import judged
from wherefrom_studies.attcat.measuring import AttcatResult, layer_entropies
from wherefrom_studies.attcat.paper import CLAIMS, PAPER
from wherefrom_studies.attcat.study import STUDY
from wherefrom_studies.bench import StudyBase, StudyBench, StudyModel, StudySize
from wherefrom_studies.claims import ClaimVerdict
from wherefrom_studies.pages import as_plain, markdown_page
from wherefrom_studies.study import StudyRequest, run_study

TINY = StudySize(texts=6, tokens=40, quick=True, validation=4)


class MadeUp:
    """Runs whose numbers are given: of every metric, the mean of each method; texts differ from each other by the same
    for all methods, so that every difference has an interval without width.
    """

    def __init__(self, **means: dict[str, float]) -> None:
        self.means = means

    def table(self, metric: str, methods: Sequence[str], detail: str = "") -> Numbers:
        given = self.means[metric.partition(":")[0] + ("_published" if "published" in metric else "") + detail]
        return np.array([[given.get(method, 0.0) + shift for method in methods] for shift in (-0.1, 0.0, 0.1)])


def result(runs: MadeUp, entropies: Sequence[Sequence[float]] = ()) -> AttcatResult:
    return AttcatResult(StudyModel("toy", "toy", {}, 1, 0.0), [runs], entropies)  # type: ignore[list-item]


def verdicts(texts: MadeUp, answers: MadeUp | None = None) -> dict[str, ClaimVerdict]:
    results = {("sst2", "toy"): result(texts, [[0.5, 0.6, 0.7], [0.1, 0.4, 0.9]])}
    if answers is not None:
        results["squad1", "toy"] = result(answers)
    return {one.claim.name: one.verdict for one in judged(results)}


def made_up(**more: dict[str, float]) -> MadeUp:
    """Numbers for which the paper is right in everything."""
    by_size = {name: 0.1 * place for place, name in enumerate(PAPER.values(), 1)}  # AttCAT has the most
    low = {name: 1.0 - value for name, value in by_size.items()}
    return MadeUp(
        **{
            "aopc": by_size | {"attcat:layers=rollout": 0.1, "attcat:hidden=output": 0.81},
            "log_odds": low,
            "aopc_published": by_size,
            "kendall_confidence": low,
            "kendall_confidence_published": low,
            "truthfulness": by_size,
            "faithfulness_violation": low,
            "precision_at_kcount": by_size,
        }
        | more
    )


def test_every_claim_can_be_confirmed() -> None:
    assert verdicts(made_up(), made_up()) == dict.fromkeys(CLAIMS, "confirmed")


def test_every_claim_can_be_refuted() -> None:
    """The contrary of everything: AttCAT is the worst, and what should be equal is not."""
    by_size = {name: 0.9 - 0.1 * place for place, name in enumerate(PAPER.values(), 1)}
    low = {name: 1.0 - value for name, value in by_size.items()}
    wrong = MadeUp(
        aopc=by_size | {"attcat:layers=rollout": 0.9, "attcat:hidden=output": 0.2},
        log_odds=low,
        aopc_published={name: -value for name, value in by_size.items()},
        kendall_confidence=low,
        kendall_confidence_published=low,
        truthfulness=by_size,
        faithfulness_violation=low,
        precision_at_kcount=by_size,
    )
    found = verdicts(wrong, wrong)
    assert found.pop("C7 depth") == "confirmed"  # the entropies are those of above
    assert found == dict.fromkeys(found, "refuted")


def test_a_claim_without_its_data_is_open() -> None:
    assert verdicts(made_up())["C6"] == "open"
    found = {one.claim.name: one for one in judged({})}
    assert {one.verdict for one in found.values()} == {"open"}
    assert found["C1 AOPC"].why == "no data set that it needs was measured"


def test_estimates_by_hand() -> None:
    """Two data sets: AttCAT leads by .1 on one and trails by .3 on the other."""
    one, other = made_up(), made_up(aopc={"attcat": 0.5, "transatt": 0.8})
    found = judged({("sst2", "a"): result(one), ("qqp", "a"): result(other)})
    values = {judged.claim.name: judged.estimate for judged in found}
    assert values["C1 AOPC"] is not None
    assert values["C1 AOPC"].value == pytest.approx((0.2 - 0.3) / 2)  # its weakest pair is that with TransAtt
    assert values["C4 AOPC"] is not None
    assert values["C4 AOPC"].value == pytest.approx((0.2 - 0.3) / 2)


def test_entropy_of_layers_by_hand() -> None:
    special = [True, False, False, True]
    found = layer_entropies([[9.0, 1.0, -1.0, 9.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]], special)
    assert found == pytest.approx([1.0, 0.0, 1.0])


class StoppedHere(Exception):
    """As a study is stopped in the middle of a run."""


@contextmanager
def stopping(what: str) -> Iterator[OnProgress]:
    def moved(done: int, everything: int) -> None:
        if what.startswith("texts") and 0 < done < everything:
            raise StoppedHere

    yield moved


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data and a base for the whole study."""
    root = tmp_path_factory.mktemp("attcat")
    write(root / "data", "sst2_train", [{**row, "text": f"it is , {row['text']}"} for row in rows_of("train", 40)])
    write(root / "data", "sst2_dev", rows_of("dev", 12))
    write(root / "data", "imdb", rows_of("test", 4))
    write(root / "data", "jw_imdb_train", [{"text": f"but {text}", "label": label} for text, label in sentences(8)])
    base(root / "base")
    return root


def test_the_whole_study_on_a_tiny_model(folder: Path) -> None:
    bench = StudyBench(folder / "data", folder / "out", TINY)
    toy = StudyBase("toy", str(folder / "base"))
    with pytest.raises(StoppedHere):
        run_study(STUDY, replace(bench, watch=stopping), StudyRequest([toy], ["sst2"]))
    (run_folder,) = (folder / "out" / "runs").iterdir()
    assert not Run.load(run_folder).finished
    before = Run.load(run_folder).costs.iloc[0]
    page = run_study(STUDY, bench, StudyRequest([toy], ["sst2"]))
    assert Run.load(run_folder).costs.iloc[0].equals(before)  # with its seconds: what was done was not done again
    scores = Run.load(run_folder).scores
    wanted = scores[(scores["metric"] == "aopc") & (scores["method"] == "attcat")]["value"]
    table = next(one for one in page.tables if one.title == "Table 1: AOPC")
    (row,) = (cells for name, cells in table.rows if name == "AttCAT `attcat`")
    assert row[0].estimate is not None
    assert row[0].estimate.value == pytest.approx(wanted.mean())
    assert row[0].estimate.texts == 6
    assert row[0].paper == ".371"
    assert {path.name for path in (folder / "out").glob("*.png")} == {
        "attcat-figure4-toy.png",
        "attcat-figure5b-toy.png",
    }
    assert "qqp: not measured." in page.missing
    text = markdown_page(page)
    again = run_study(STUDY, bench, StudyRequest([toy], ["sst2"]))
    assert markdown_page(again) == text  # nothing is measured twice
    json.dumps(as_plain(page), allow_nan=False)
