"""The project has one name: nothing in the tree carries the one it had before."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FORMER = "when" + "ce"  # not written out, or this file would be found
ALLOWED = {Path("CHANGELOG.md")}  # which says so in one line


def test_the_former_name_is_gone() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: the files of the project cannot be listed")
    found = []
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = Path(name)
        if not (ROOT / path).is_file() or path in ALLOWED:
            continue
        content = (ROOT / path).read_bytes().lower()
        if (FORMER.encode() in content and path.suffix not in {".png", ".safetensors"}) or FORMER in name.lower():
            found.append(name)
    assert found == []


def test_the_change_of_name_is_said_once() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").lower().splitlines()
    assert sum(FORMER in line for line in lines) == 1
