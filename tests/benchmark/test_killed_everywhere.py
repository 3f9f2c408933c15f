"""A run that is killed at any operation on its folder goes on, and every file is as if nothing had happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PARTS = 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="starts processes by fork")
@pytest.mark.slow
def test_killed_at_every_operation_on_the_folder(tmp_path: Path, model_folder: Path, texts: Path) -> None:
    given = {
        "data": str(texts),
        "model": str(model_folder),
        "methods": ["random"],
        "metrics": ["aopc"],
        "limit": PARTS,
        "examples_per_part": 1,
        "workers": 1,
        "out": str(tmp_path),
    }
    program = [sys.executable, str(Path(__file__).with_name("killing_everywhere.py")), json.dumps(given)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["files"] == 1 + 4  # the parts have become a shard
    # Every file is written, flushed and given its name, which is flushed as well. Four files of a shard are set aside,
    # and those of the parts are removed once they are in a shard.
    fresh, repair, written = told["fresh"], told["repair"], 1 + 4 * PARTS + 4
    assert fresh["before write_bytes"] == fresh["half write_bytes"] == fresh["before replace"] == written
    assert fresh["before fsync"] == 2 * written
    assert fresh["before unlink"] == 4 * PARTS
    assert fresh["at end"] == 1
    assert (repair["before unlink"], repair["before replace"]) == (2, 4)
