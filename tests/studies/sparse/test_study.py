"""The study: complete, resumable after being killed, and honest about what is missing."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import make_network, tokenizer
from typer.testing import CliRunner

import wherefrom.cli.study  # noqa: F401  # registers its commands
from studies.sparse.toys import write_dataset
from wherefrom.cli.main import app
from wherefrom.errors import BadFile, BadOption, UnknownName
from wherefrom.studies.pages import markdown_tables
from wherefrom.studies.sparse import paper
from wherefrom.studies.sparse.data import read_dataset
from wherefrom.studies.sparse.page import study_page
from wherefrom.studies.sparse.study import LAMBDAS, TrainingRun, plan, study, texts_within
from wherefrom.studies.sparse.tables import lambda_and_entropy, over_seeds, tables

CHILD = """
import os, signal, sys
from pathlib import Path
from wherefrom.studies.sparse.study import study
import torch
torch.set_num_threads(int(sys.argv[4]))  # as many as the parent has: only then numbers are added up alike
left = int(sys.argv[3])
def until_killed(items, doing):
    global left
    for item in items:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        yield item
study(Path(sys.argv[1]), Path(sys.argv[2]), datasets=["sst"], quick=True, epochs=2, size=6, track=until_killed)
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_dataset(folder)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Everything, small, with two seeds."""
    data = tmp_path_factory.mktemp("few")
    write_dataset(data, texts=10)
    return study(data, tmp_path_factory.mktemp("whole"), datasets=["sst"], seeds=2, epochs=1, size=6)


def numbers(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if "seconds" not in key} for row in results["runs"]]


def test_a_killed_study_goes_on_to_the_same_numbers(data: Path, tmp_path: Path) -> None:
    untouched = study(data, tmp_path / "whole", datasets=["sst"], quick=True, epochs=2, size=6)
    # Two batches an epoch: killed in the second epoch of the second training, with one classifier done and one
    # half-way.
    command = [sys.executable, "-c", CHILD, str(data), str(tmp_path / "killed"), "11", str(torch.get_num_threads())]
    assert subprocess.run(command, check=False, timeout=300).returncode == -signal.SIGKILL
    files = sorted(path.name for path in (tmp_path / "killed").rglob("*") if path.is_file())
    assert "unfinished.safetensors" in files
    assert "results.json" not in files
    started: list[str] = []

    def note(items: Any, doing: str) -> Any:
        started.append(doing)
        return items

    resumed = study(data, tmp_path / "killed", datasets=["sst"], quick=True, epochs=2, size=6, track=note)
    assert numbers(resumed) == numbers(untouched)
    assert not any("bilstm softmax" in doing for doing in started)
    assert "sst bilstm sparsemax seed 0: epoch 1 of at most 2" not in started
    started.clear()
    study(data, tmp_path / "killed", datasets=["sst"], quick=True, epochs=2, size=6, track=note)
    assert started == []


def test_everything_is_measured(whole: dict[str, Any]) -> None:
    assert len(whole["runs"]) == 2 * 2 * (2 + 2 + len(LAMBDAS) - 1)
    titles = [table.title for table in tables(whole)]
    assert [title.split(":")[0] for title in titles if title.startswith("Table")] == [
        "Table 3",
        "Table 1",
        "Table 6",
        "Table 2",
        "Table 5",
    ]
    for row in whole["runs"]:
        if row["adversary"]:
            assert 0 <= row["divergence"] <= math.log(2) + 1e-6
        else:
            assert len(row["tau"]["g(x)"]) == whole["datasets"]["sst"]["test"]
            assert all(0 <= h <= 1.00001 for values in row["entropy"].values() for h in values)
    json.dumps(whole, allow_nan=False)


def test_tables_and_page_show_measured_numbers_beside_the_papers(whole: dict[str, Any]) -> None:
    text = markdown_tables(tables(whole))
    row = next(
        row
        for row in whole["runs"]
        if row["encoder"] == "bilstm" and row["projection"] == "softmax" and not row["adversary"]
    )
    both = [
        one["accuracy"]
        for one in whole["runs"]
        if one["encoder"] == "bilstm" and one["projection"] == "softmax" and not one["adversary"]
    ]
    assert row["accuracy"] in both
    assert f"| SST · BiLSTM softmax | {over_seeds(both)} (0.82) |" in text
    assert "(0.25 ± 0.28)" in text
    page = study_page(whole)
    for words in (
        "Fig. 1",
        "Fig. 2",
        "Fig. 3",
        "Fig. 4",
        "paper 0.25 ± 0.28",
        "95% intervals",
        *(title for title, _ in paper.CONTRADICTIONS),
    ):
        assert words in page
    assert page.count("<svg") == 4
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "")
    assert "quick study" not in page
    assert study_page(whole) == page  # nothing random in it


def test_intervals_by_hand() -> None:
    mean = over_seeds([0.7, 0.8, 0.9])
    assert mean.value == pytest.approx(0.8)
    assert mean.interval == pytest.approx(4.302653 * 0.1 / math.sqrt(3), rel=1e-6)
    assert over_seeds([0.7]).interval is None
    assert str(over_seeds([0.7], [0.25])) == "0.70 ± 0.25"


def test_lambda_and_entropy_by_hand() -> None:
    rows = [
        {"projection": projection, "entropy": {"g(x)": values}}
        for projection, values in (
            ("sparsegen:-1", [0.9, 0.1]),
            ("sparsemax", [0.6, 0.2]),
            ("sparsegen:0.5", [0.5, 0.15]),
        )
    ]
    across, within_texts = lambda_and_entropy(rows)
    assert across == pytest.approx(-1)  # the means are 0.5, 0.4, 0.325
    assert within_texts == pytest.approx((-1 + 1 / 3) / 2)


def test_a_run_is_named_after_all_that_decides_it() -> None:
    runs = plan(["sst", "imdb"], 2, quick=False)
    folders = {run.folder(Path("runs"), "data") for run in runs}
    assert len(folders) == len(runs)
    first = runs[0]
    assert first.folder(Path("runs"), "data") != first.folder(Path("runs"), "other data")
    longer = plan(["sst"], 1, quick=True, epochs=9)[0]
    assert first.folder(Path("runs"), "data") != longer.folder(Path("runs"), "data")
    quick = plan(["sst"], 1, quick=True)[0]
    assert isinstance(quick, TrainingRun)
    assert first.folder(Path("runs"), "data") == quick.folder(
        Path("runs"), "data"
    )  # a larger study takes over a smaller one


def test_texts_within_a_budget(data: Path) -> None:
    test = read_dataset(data, "sst").test
    assert len(texts_within(test, 10**9)) == len(test)
    some = texts_within(test, 500)
    assert 0 < len(some) < len(test)
    assert sum(len(text) ** 2 for text in some) <= 500
    assert texts_within(test, 0) == []


def test_mistakes(data: Path, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"lacks jw_imdb_train\.jsonl, jw_imdb_dev\.jsonl, jw_imdb_test\.jsonl"):
        study(data, tmp_path, datasets=["sst", "imdb"])
    with pytest.raises(UnknownName, match="Did you mean 'sst'"):
        study(data, tmp_path, datasets=["ssst"])
    with pytest.raises(BadOption, match="at least one seed"):
        study(data, tmp_path, seeds=0)
    assert list(tmp_path.iterdir()) == []  # said before anything was done
    (tmp_path / "file").write_text("")
    with pytest.raises(BadFile, match="could not be made"):
        study(data, tmp_path / "file" / "out", datasets=["sst"], quick=True)


def test_the_command(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    write_dataset(data, texts=8)
    result = CliRunner().invoke(
        app, ["study", "sparse", "--data-dir", str(data), "--out", str(out), "--datasets", "SST", "--quick"]
    )
    assert result.exit_code == 0, result.output
    assert str(out / "index.html") in result.stdout.replace("\n", "")
    assert "This is the quick study" in (out / "index.html").read_text(encoding="utf-8")
    assert "Table 3" in (out / "tables.md").read_text(encoding="utf-8")

    make_network("bert", labels=2).save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    texts = tmp_path / "sst2_dev.jsonl"
    texts.write_text(
        '{"text": "a good film", "label": 1}\n{"text": "the plot was bad, very bad", "label": 0}\n', encoding="utf-8"
    )
    arguments = ["study", "sparse", "--data-dir", str(tmp_path), "--out", str(out), "--model", str(tmp_path / "model")]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "This is the quick study" in page  # both are on the page
    assert "attention projected at inference" in page
    found = json.loads((out / "at-inference.json").read_text(encoding="utf-8"))
    by_name = {one["projection"]: one for one in found["projections"]}
    assert by_name["softmax"]["same"] == 1
    assert by_name["softmax"]["measures"]["zeros"] == [0, 0]
    assert all(value > 0 for value in by_name["sparsegen:0.9"]["measures"]["zeros"])
    failed = CliRunner().invoke(app, [*arguments, "--limit", "0"])
    assert isinstance(failed.exception, BadOption)
