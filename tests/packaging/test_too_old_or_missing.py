"""An old Python, an old numpy, a half-made environment and a missing extra are one clear line each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import wherefrom
from wherefrom.benchmark.cluster import on_ray
from wherefrom.benchmark.formats import read_hub, read_hugging_face, read_parquet
from wherefrom.benchmark.store import Run
from wherefrom.benchmark.tables import schemas
from wherefrom.benchmark.thermostat import read_thermostat
from wherefrom.core.comparison import Comparison
from wherefrom.errors import MissingExtra, TooOld, WherefromError
from wherefrom.explorer.serve import ExplorerServer
from wherefrom.heads.trees import Tree, parse
from wherefrom.report import plots
from wherefrom.report.benchmark import check_extra
from wherefrom.report.head_map import head_map_plot

ROOT = Path(__file__).parents[2]
NOWHERE = Path("nowhere")
RUN = Run(NOWHERE, {"parts": 0}, [])
# What a user can do, the package it cannot be done without, and the extra that brings it.
NEEDS: list[tuple[str, str, Callable[[], object]]] = [
    ("bench", "matplotlib", check_extra),
    ("bench", "pandas", lambda: read_thermostat(NOWHERE)),
    ("bench", "pandas", lambda: RUN.costs),
    ("bench", "pandas", lambda: RUN.alone),
    ("bench", "pandas", lambda: RUN.scores),
    ("bench", "pyarrow", lambda: RUN.scores),
    ("bench", "pyarrow", schemas),
    ("bench", "pyarrow", lambda: list(read_parquet(NOWHERE, None))),
    ("datasets", "datasets", lambda: list(read_hub("imdb", None))),
    ("datasets", "datasets", lambda: list(read_hugging_face(NOWHERE, None))),
    ("explorer", "fastapi", ExplorerServer),
    ("explorer", "uvicorn", ExplorerServer),
    ("ray", "ray", lambda: list(on_ray(lambda part: part, [], 1))),  # type: ignore[arg-type]
    (
        "report",
        "matplotlib",
        lambda: plots.new_figure(1, 1),
    ),
    ("report", "matplotlib", lambda: head_map_plot([["other"]], NOWHERE, title="heads")),
    ("report", "pandas", lambda: Comparison((), (), ()).to_pandas()),
    ("syntax", "spacy", lambda: parse([Tree("a great film")])),
]


@pytest.mark.parametrize(("extra", "package", "feature"), NEEDS)
def test_a_missing_package_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, extra: str, package: str, feature: Callable[[], object]
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra) as caught:
        feature()
    assert f"pip install 'wherefrom[{extra}]'" in str(caught.value)
    assert "\n" not in str(caught.value)


def run_python(*arguments: str, path: list[Path]) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False)


@pytest.fixture
def old_numpy(tmp_path: Path) -> list[Path]:
    """A path on which numpy says that it is of the first generation, which every other package can work with."""
    (tmp_path / "sitecustomize.py").write_text("import numpy\nnumpy.__version__ = '1.26.4'\n", encoding="utf-8")
    return [tmp_path, Path(wherefrom.__file__).parents[1]]


OLD_NUMPY = "Wherefrom needs numpy 2 or later; 1.26.4 is installed: pip install 'numpy>=2'"


@pytest.mark.parametrize("code", ["from wherefrom import load", "import wherefrom.api", "import wherefrom.benchmark"])
def test_an_old_numpy_is_an_import_error_that_says_so(old_numpy: list[Path], code: str) -> None:
    caught = f"try:\n    {code}\nexcept ImportError as error:\n    print(error)"
    assert run_python("-c", caught, path=old_numpy).stdout == OLD_NUMPY + "\n"


@pytest.mark.parametrize(
    "command", [["explain", "A fine film."], ["flow", "A film."], ["run", "sample:reviews", "--out", "b"]]
)
@pytest.mark.slow
def test_an_old_numpy_is_one_line_of_the_command(old_numpy: list[Path], command: list[str]) -> None:
    done = run_python("-m", "wherefrom", *command, path=old_numpy)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"error: {OLD_NUMPY}\n")


def test_it_is_one_of_ours_and_an_import_error() -> None:
    assert issubclass(TooOld, WherefromError)
    assert issubclass(TooOld, ImportError)


def test_an_old_python_is_told_when_the_package_is_imported() -> None:
    """As a Python would that is too old: with its own version, and nothing else of the package read before."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(wherefrom.__file__).parents[1])!r}); sys.version_info = (3, 9, 18)\n"
        "try:\n    import wherefrom\nexcept ImportError as error:\n    print(error)"
    )
    done = run_python("-c", code, path=[])
    assert done.stdout == "Wherefrom needs Python 3.11 or later; this is 3.9.18.\n"


needs_shell = pytest.mark.skipif(os.name == "nt", reason="the Makefile and its script are for Unix")


def pretend(path: Path, version: str) -> Path:
    """A program that says it is such a Python, as far as the script asks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def make_environment(folder: Path, python: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(ROOT / "tools" / "environment.sh"), str(folder), str(python)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@needs_shell
@pytest.mark.parametrize("version", ["2.7.18", "3.4.10", "3.9.18", "3.10.13"])
def test_make_with_an_old_python(tmp_path: Path, version: str) -> None:
    python = pretend(tmp_path / "python", version)
    done = make_environment(tmp_path / "env", python)
    said = f"Wherefrom needs Python 3.11 or later; {python} is {version}. Say which with make PYTHON=python3.12\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
    assert not (tmp_path / "env").exists()


@needs_shell
def test_make_without_a_python(tmp_path: Path) -> None:
    done = make_environment(tmp_path / "env", tmp_path / "python")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"there is no {tmp_path / 'python'} that runs" in done.stderr


@needs_shell
def test_make_with_an_environment_of_an_old_python(tmp_path: Path) -> None:
    """It may be somebody's own, so it is not removed."""
    python = pretend(tmp_path / "env" / "bin" / "python", "3.9.18")
    done = make_environment(tmp_path / "env", sys.executable)
    assert done.returncode == 1
    assert done.stderr == (
        f"Wherefrom needs Python 3.11 or later; the environment in {tmp_path / 'env'} has 3.9.18. "
        "Remove it with make clean.\n"
    )
    assert python.exists()


@needs_shell
def test_make_with_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("not a folder", encoding="utf-8")
    done = make_environment(tmp_path / "env", sys.executable)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "it is a file" in done.stderr


@needs_shell
@pytest.mark.parametrize("half", ["empty", "broken", "no pip"])
@pytest.mark.slow
def test_make_finishes_a_half_made_environment(tmp_path: Path, half: str) -> None:
    folder = tmp_path / "env"
    if half == "no pip":
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    else:
        (folder / "bin").mkdir(parents=True)
    if half == "broken":
        (folder / "bin" / "python").symlink_to(tmp_path / "gone")
    done = make_environment(folder, sys.executable)
    assert done.returncode == 0, done.stderr
    if half == "no pip":
        assert done.stderr == ""
    else:
        assert done.stderr == f"The environment in {folder} has no Python that runs: it is made anew.\n"
    pip = subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "--version"], capture_output=True, check=False)
    assert pip.returncode == 0


@needs_shell
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("works", [True, False])
def test_a_stamp_counts_only_while_the_environment_runs(tmp_path: Path, works: bool) -> None:
    """With a Python that runs, an environment that was finished is not installed again; without, it is."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    folder = tmp_path / ".venv"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable if works else tmp_path / "gone")
    (folder / ".wherefrom").touch()
    planned = subprocess.run(["make", "-n", "demo"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert ("tools/environment.sh" in planned) is not works
