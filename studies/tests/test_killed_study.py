"""A study that is killed with -9 goes on where it was, and ends with the tables of one that was not killed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from study_data import base, rows_of, sentences, write


def without_times(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    del found["made"]  # when, where, and how long it took
    found["facts"] = [re.sub(r"\bin \d+ s\b|^\d+ minutes\b", "...", fact) for fact in found["facts"]]
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="starts processes by fork")
def test_killed_while_it_trains_and_while_it_measures(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write(data, "sst2_train", [{**row, "text": f"it is , {row['text']}"} for row in rows_of("train", 60)])
    write(data, "sst2_dev", rows_of("dev", 7))  # two parts of a run
    write(data, "imdb", rows_of("test", 4))
    write(data, "jw_imdb_train", [{"text": f"but {text}", "label": label} for text, label in sentences(8)])
    start = base(tmp_path / "toy", dropout=0.1)  # which has to be drawn as if nothing had happened
    program = [sys.executable, str(Path(__file__).with_name("killing_a_study.py")), str(tmp_path)]
    options = ["--data-dir", str(data), "--quick", "--datasets", "sst2", "--bases", str(start)]
    done = subprocess.run([*program, *options], capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    begun = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    steps = begun[0][3]
    training, measuring = "steps of training", "texts of"
    assert begun == [
        ["whole", training, 0, steps],
        ["whole", measuring, 0, 7],
        ["killed", training, 0, steps],
        ["killed", training, 1, steps],  # on from the checkpoint
        ["killed", measuring, 0, 7],
        ["killed", measuring, 5, 7],  # on from the first part, with the model that was trained
    ]
    whole, killed = (without_times(tmp_path / name / "attcat.json") for name in ("whole", "killed"))
    assert whole["tables"][0]["title"] == "Table 1: AOPC"
    assert killed == whole
    weights = [list((tmp_path / name / "models").glob("*/model/model.safetensors")) for name in ("whole", "killed")]
    (one,), (other,) = weights
    assert one.read_bytes() == other.read_bytes()
