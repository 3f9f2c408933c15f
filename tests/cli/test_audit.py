"""The command `wherefrom audit`: what it writes, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wherefrom.cli.main import app
from wherefrom.errors import BadOption, UnknownName, WherefromError

COMMAND = ["audit", "sample:reviews", "--limit", "12"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit that every test finds done."""
    path = tmp_path_factory.mktemp("audit")
    written = ["--html", "a.html", "--json", "a.json", "--card", "a.md"]
    arguments = [str(path / one) if one.startswith("a.") else one for one in written]
    found = CliRunner().invoke(app, [*COMMAND, "--out", str(path / "work"), *arguments])
    assert found.exit_code == 0, found.output
    return path


def rules(folder: Path, text: str) -> list[str]:
    path = folder / "rules.toml"
    path.write_text(text, encoding="utf-8")
    return [*COMMAND, "--out", str(folder / "work"), "--gate", str(path)]


def test_what_it_writes(folder: Path) -> None:
    saved = json.loads((folder / "a.json").read_text(encoding="utf-8"))
    assert (saved["wherefrom_audit"], saved["texts"]) == (1, 12)
    assert "<h2>Suspected shortcuts</h2>" in (folder / "a.html").read_text(encoding="utf-8")
    assert (folder / "a.md").read_text(encoding="utf-8").startswith("## What this model leans on")


def test_a_gate_that_is_met(folder: Path) -> None:
    found = CliRunner().invoke(app, rules(folder, 'accuracy = ">= 0.5"\nshortcuts = "== 0"'))
    assert found.exit_code == 0
    assert "all 2 rules are met" in found.output


def test_a_gate_that_must_fail_fails(folder: Path) -> None:
    found = CliRunner().invoke(app, rules(folder, 'accuracy = "> 1"\nshortcuts = "== 0"'))
    assert found.exit_code == 1
    assert "accuracy > 1: it is" in found.output
    assert "1 of 2 rules are not met" in found.output


@pytest.mark.parametrize(
    ("text", "error"),
    [('accuracy = "high"', BadOption), ('acuracy = ">= 0.5"', UnknownName), ("accuracy >= 1", BadOption)],
)
def test_a_rule_that_cannot_be_checked_is_a_usage_error(folder: Path, text: str, error: type[WherefromError]) -> None:
    found = CliRunner().invoke(app, rules(folder, text))
    assert isinstance(found.exception, error)
    assert found.exception.exit_code == 2


def test_groups_that_are_none_are_refused(folder: Path) -> None:
    path = folder / "groups.toml"
    path.write_text('names = "Anna"', encoding="utf-8")
    found = CliRunner().invoke(app, [*COMMAND, "--groups", str(path)])
    assert "is not a list of terms" in str(found.exception)


@pytest.mark.slow
def test_a_killed_audit_resumes(tmp_path: Path) -> None:
    """Killed as soon as a part is kept; the same command does the rest, and comes to what an audit in one go does."""
    work = tmp_path / "work"
    command = [sys.executable, "-m", "wherefrom", "audit", "sample:reviews", "--workers", "1"]
    running = subprocess.Popen([*command, "--out", str(work)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    ends = time.monotonic() + 300
    while not list(work.glob("run/receipts/*.json")) and running.poll() is None and time.monotonic() < ends:
        time.sleep(0.01)
    running.kill()
    running.communicate()
    kept = len(list(work.glob("run/receipts/*.json")))
    assert kept >= 1
    for out in (work, tmp_path / "whole"):
        subprocess.run([*command, "--out", str(out)], check=True, capture_output=True, timeout=600)
    again, whole = (json.loads((out / "audit.json").read_text(encoding="utf-8")) for out in (work, tmp_path / "whole"))
    for one in (again, whole):
        del one["examples"], one["date"]  # examples have times in them
    assert again == whole
