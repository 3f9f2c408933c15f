"""`wherefrom study ...` as a user meets it: what it prints, and its exit code. The rest of the program is tested in
tests/cli.
"""

from __future__ import annotations

import shlex
import sys
import tomllib
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

import wherefrom
import wherefrom_studies
from wherefrom.cli.main import main, plug_in_commands
from wherefrom_studies import pages
from wherefrom_studies.commands import STUDIES, study
from wherefrom_studies.sparse.inference import read_texts

ROOT = Path(wherefrom_studies.__file__).parents[2]


def commands() -> dict[str, Any]:
    group: Any = typer.main.get_command(study)
    return dict(group.commands)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["wherefrom", "study", *arguments])
    monkeypatch.setenv("COLUMNS", "120")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0)


def test_the_program_finds_the_command() -> None:
    assert plug_in_commands()["study"].load() is study


def test_both_distributions_have_one_version_and_the_metadata_says_so() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert wherefrom_studies.__version__ == wherefrom.__version__
    assert project["entry-points"]["wherefrom.commands"] == {
        name: f"wherefrom_studies.commands:{name}" for name in ("study", "plant")
    }


@pytest.mark.parametrize("name", commands())
def test_every_command_has_two_examples_that_can_be_parsed(name: str) -> None:
    command = commands()[name]
    examples = [line.removeprefix("$ ") for line in (command.epilog or "").split("\n\n") if line.startswith("$ ")]
    assert len(examples) >= 2
    for example in examples:
        assert example.startswith(f"wherefrom study {name} ")
        command.make_context(name, shlex.split(example)[3:])  # raises on an option that does not exist


@pytest.mark.parametrize("name", commands())
def test_help_eats_no_brackets(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Text in square brackets is markup: defaults that are no values are given as `show_default`."""
    assert not any("[" in (parameter.help or "") for parameter in commands()[name].params)
    assert run(monkeypatch, name, "--help") == 0
    assert "Examples:" in capsys.readouterr().out


def test_a_flag_means_the_same_in_every_command() -> None:
    for name, command in commands().items():
        flags = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        assert not flags & {"--output", "--dataset", "--file", "--input", "--gpu", "--options"}, name


def test_the_studies_take_the_data_sets_that_they_can_measure_on() -> None:
    for row in STUDIES:
        assert row.datasets == import_module(f"wherefrom_studies.{row.package}.paper").DATASETS
        assert row.smallest in row.datasets


def test_a_study_says_what_it_lacks_before_it_begins(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = ["--out", str(tmp_path / "out"), "--data-dir", str(tmp_path)]
    assert run(monkeypatch, "attcat", *out, "--quick", "--datasets", "sst2", "--bases", "M3") == 1
    message = capfd.readouterr().err
    assert message.count("\n") == 1
    assert "sst2_train.jsonl. It is made from GLUE SST-2" in message
    assert run(monkeypatch, "optimus", *out, "--bases", "M3") == 1
    assert "hatexplain.jsonl" in capfd.readouterr().err
    for wrong, message in (
        (("--quick", "--full"), "--quick or --full, not both"),
        (("--datasets", "sst3"), "Did you mean 'sst2'?"),
        (("--seeds", "0"), "--seeds must be at least 1"),
        (("--texts", "0"), "--texts must be at least 1"),
        (("--bases", ","), "at least one data set and one base"),
    ):
        base = () if "--bases" in wrong else ("--bases", "M3")
        assert run(monkeypatch, "attcat", *out, *wrong, *base) == 2
        assert message in capfd.readouterr().err


def test_samples_can_be_read() -> None:
    from wherefrom.samples import sample_path

    rows = read_texts(sample_path("reviews"), None, ["NEGATIVE", "POSITIVE"])
    assert [label for _, label in rows] == [number % 2 for number in range(40)]


def test_a_missing_package_is_named_before_any_work(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    assert run(monkeypatch, "sparse", "--out", str(tmp_path / "out"), "--data-dir", str(tmp_path)) == 1
    message = capfd.readouterr().err
    assert "The page of a study" in message
    assert "wherefrom[report]" in message
    assert not (tmp_path / "out").exists()


def test_a_command_that_takes_a_model_takes_it_as_elsewhere() -> None:
    for name, command in commands().items():
        flags = {flag for parameter in command.params for flag in parameter.opts}
        assert ("--model" in flags) <= ("-m" in flags and "--device" in flags), name
