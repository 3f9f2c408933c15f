"""What GitHub would run cannot run here; that its files are well formed and name only what exists can be checked."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SCHEMAS = [
    *((path, "vendor.github-workflows") for path in WORKFLOWS),
    (ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml", "vendor.github-issue-forms"),
    (ROOT / ".github" / "ISSUE_TEMPLATE" / "idea.yml", "vendor.github-issue-forms"),
    (ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml", "vendor.github-issue-config"),
    (ROOT / "CITATION.cff", "vendor.citation-file-format"),
]


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def commands(path: Path) -> list[str]:
    """Every line that the workflow's steps run."""
    steps = [step for job in load(path)["jobs"].values() for step in job["steps"]]
    return [line.strip() for step in steps for line in step.get("run", "").splitlines() if line.strip()]


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))


def test_the_workflows_are_there() -> None:
    assert {path.name for path in WORKFLOWS} >= {"tests.yml", "docs.yml", "release.yml"}


@pytest.mark.parametrize(("path", "schema"), SCHEMAS, ids=lambda one: one.name if isinstance(one, Path) else "")
def test_files_follow_their_schema(path: Path, schema: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_make_target_that_is_called_exists() -> None:
    called = [*(line for path in WORKFLOWS for line in commands(path))]
    called += (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    named = {name for line in called for name in re.findall(r"\bmake ([a-z][\w-]*)", line) if not line.startswith("#")}
    assert {"test", "dist-test", "docs"} <= named
    assert named - targets() == set()


def test_every_target_of_the_makefile_that_makes_no_file_is_phony() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert set(phony.split()) == targets()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_file_that_is_named_exists(path: Path) -> None:
    text = "\n".join(commands(path))
    text += "".join(f"\n{name}" for name in re.findall(r"cache-dependency-path: (\S+)", path.read_text("utf-8")))
    for name in re.findall(r"(?<![\w./-])(?:tests|tools|docs|benchmarks|\.ci)/[\w./-]+|\b\w+\.(?:txt|toml)\b", text):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_steps_run_only_programs_that_every_runner_has(path: Path) -> None:
    programs = {line.split()[0] for line in commands(path)}
    assert programs <= {"make", "python", "test"}
    modules = {name for line in commands(path) for name in re.findall(r"^python -m (\w+)", line)}
    assert modules <= {"pip", "pytest"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_workflow_may_write_more_than_it_says(path: Path) -> None:
    """Rights are given job by job; the rest can read the source and nothing else. Nothing runs for ever."""
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


def test_every_declared_python_is_tested_on_every_system() -> None:
    matrix = load(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    declared = {
        found[1]
        for one in PROJECT["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one))
    }
    assert declared
    assert declared <= set(matrix["python"])
    assert PROJECT["requires-python"] == f">={min(matrix['python'], key=lambda one: int(one.split('.')[1]))}"
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_workflows_install_what_the_makefile_installs() -> None:
    """Windows has no make, so its steps are written twice."""
    ours = set(re.findall(r"\S+==[\d.]+", "\n".join(commands(ROOT / ".github" / "workflows" / "tests.yml"))))
    assert ours
    assert ours == set(re.findall(r"\S+==[\d.]+", MAKEFILE))


def test_hooks_run_the_tools_of_make_check() -> None:
    hooks = [hook for repo in load(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    tools = [hook["entry"].removeprefix(".venv/bin/") for hook in hooks]
    checked = re.findall(r"^\t\$\(BIN\)/(ruff \w+|mypy)", MAKEFILE, re.MULTILINE)
    assert [" ".join(tool.split()[:2]) for tool in tools] == checked
