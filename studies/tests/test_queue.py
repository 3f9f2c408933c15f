"""Stored results: what is read equals what was measured, and the queue measures only what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pandas
import pytest
from study_data import base, rows_of, write

from wherefrom.errors import BadFile, BadOption
from wherefrom_studies import methods
from wherefrom_studies.bench import StudyBase, StudyBench, StudySize
from wherefrom_studies.queue import ORDER, Job, jobs, progress, steps, work
from wherefrom_studies.results import COLUMNS, read_file, read_results
from wherefrom_studies.stored_page import stored_study
from wherefrom_studies.study import StudyRequest, run_study

FEW = ("attn_lrp", "attcat", "optimus", "random")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StudyBench:
    """A tiny base and data set, four methods, and blocks of two texts."""
    for name, values in {"METHODS": FEW, "CHEAP": FEW[:2], "BY_CLASS": FEW[:1], "EARLIER": "attcat"}.items():
        monkeypatch.setattr(methods, name, values)
    for module in ("wherefrom_studies.bench", "wherefrom_studies.queue"):
        monkeypatch.setattr(f"{module}.BLOCK", 2)
    data = tmp_path / "data"
    write(data, "sst2_train", [{**row, "text": f"it is , {row['text']}"} for row in rows_of("train", 24)])
    write(data, "sst2_dev", rows_of("dev", 6))
    write(data, "imdb", rows_of("test", 4))
    write(data, "jw_imdb_train", [{"text": "but the film was dull", "label": 0}])
    base(tmp_path / "encoder")
    return StudyBench(data, tmp_path / "out", StudySize(texts=4, tokens=40, quick=True, validation=2))


def test_what_is_stored_gives_the_page_that_was_measured(bench: StudyBench, tmp_path: Path) -> None:
    encoder, results = StudyBase.read(str(tmp_path / "encoder")), tmp_path / "results"
    wanted = [Job(encoder, "sst2", 4)]
    assert [job.texts for job in work(bench, results, wanted)] == [2, 4]
    stored = read_results(results, "methods")
    (one,) = stored.values()
    assert one.key == ("methods", "sst2", "encoder", 0)
    assert one.texts == 4
    assert [made["texts"] for made in one.made] == [2, 4]
    assert "/" not in one.model.source  # no path of this machine
    measured = run_study(methods.STUDY, bench, StudyRequest([encoder], ["sst2"]))
    again = run_study(stored_study(results), bench, StudyRequest())
    assert [table.title for table in again.tables] == [table.title for table in measured.tables]
    for table, expected in zip(again.tables, measured.tables, strict=True):
        assert table.columns == expected.columns
        assert [name for name, _ in table.rows] == [name for name, _ in expected.rows]
        for (_, cells), (_, others) in zip(table.rows, expected.rows, strict=True):
            for cell, other in zip(cells, others, strict=True):
                if cell.estimate is None or other.estimate is None:
                    assert cell.measured == other.measured
                else:  # values are stored in single precision
                    assert cell.estimate.value == pytest.approx(other.estimate.value, rel=1e-5, abs=1e-6)
    # Everything is there, so that nothing is measured: not even the data are read.
    assert list(work(StudyBench(tmp_path / "none", tmp_path / "none", bench.size), results, wanted)) == []


def test_a_folder_of_results_is_one_table(bench: StudyBench, tmp_path: Path) -> None:
    encoder, results = StudyBase.read(str(tmp_path / "encoder")), tmp_path / "results"
    list(work(bench, results, [Job(encoder, "sst2", 2), Job(encoder, "sst2", 2, seed=1)]))
    table = pandas.read_parquet(results / "methods")
    assert tuple(table.columns) == COLUMNS
    assert set(table["seed"]) == {0, 1}
    one = table[(table["seed"] == 1) & (table["method"] == "attn_lrp") & (table["example"] != "")]
    assert len(one[one["metric"] == "aopc"]) == 2
    page = run_study(stored_study(results), bench, StudyRequest())
    by_title = {table.title: table for table in page.tables}
    assert by_title["aopc"].columns == ["sst2 encoder", "sst2 encoder seed 1"]


def test_the_queue_stops_in_time_and_continues(bench: StudyBench, tmp_path: Path) -> None:
    encoder, results = StudyBase.read(str(tmp_path / "encoder")), tmp_path / "results"
    clock = iter([0.0, 1.0, 100.0])
    wanted = [Job(encoder, "sst2", 4)]
    assert [job.texts for job in work(bench, results, wanted, seconds=60, now=lambda: next(clock))] == [2]
    (left,) = progress(wanted, read_results(results, "methods"))
    assert (left.texts, left.wanted) == (2, 4)
    assert left.seconds is not None
    assert left.seconds > 0
    assert [job.texts for job in steps(wanted, read_results(results, "methods"))] == [4]


def test_every_set_has_some_texts_before_any_has_many() -> None:
    bases = [StudyBase("a", "a"), StudyBase("b", "b"), StudyBase("c", "c", causal=True)]
    found = jobs(bases, ORDER)
    assert [job.texts for job in found] == sorted(job.texts for job in found)
    assert {job.dataset for job in found if job.base.name == "c"} == {"next_word"}
    assert {job.seed for job in found if job.base.name == "b"} == {0}
    assert {job.seed for job in found if job.base.name == "a"} == {0, 1, 2}
    assert {job.dataset for job in found} == set(methods.DATASETS) - {"qqp_duplicates"}
    assert len(set(found)) == len(found)


def test_files_that_are_no_results(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="study queue"):
        stored_study(tmp_path)
    folder = tmp_path / "methods"
    folder.mkdir()
    (folder / "x.parquet").write_bytes(b"nothing")
    with pytest.raises(BadFile, match=r"x\.parquet does not contain results"):
        read_file(folder / "x.parquet")
    pandas.DataFrame({"a": [1]}).to_parquet(folder / "x.parquet")
    with pytest.raises(BadFile, match="does not contain results"):
        read_results(tmp_path, "methods")


def test_stored_results_have_no_texts(bench: StudyBench, tmp_path: Path) -> None:
    encoder, results = StudyBase.read(str(tmp_path / "encoder")), tmp_path / "results"
    list(work(bench, results, [Job(encoder, "sst2", 2)]))
    (path,) = (results / "methods").glob("*.parquet")
    stored = read_file(path)
    with pytest.raises(BadOption, match="explanations"):
        list(stored.runs.explanations())
    texts = [json.loads(line)["text"] for line in (bench.data_dir / "sst2_dev.jsonl").read_text().splitlines()]
    assert not any(text.encode() in path.read_bytes() for text in texts)
