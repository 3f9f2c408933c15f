"""The wheel as a user has it: installed in clean environments that hold what the wheel's metadata asks for and no more.

Run by `make dist-test`, behind `make dist`. Wherefrom comes from the wheel alone, by pip. Its dependencies are the
copies of the environment that runs this file, one link each, so that nothing is downloaded; a package that nobody
declared is not there, although the environment that runs this file has it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from email import message_from_string
from email.message import Message
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "wherefrom"
TEXT = "A gorgeous, witty film, but the plot drags and the ending is a mess."


def only(pattern: str) -> Path:
    found = list((ROOT / "dist").glob(pattern))
    assert len(found) == 1, f"dist/ has {len(found)} files {pattern}: run make dist first"
    return found[0]


@pytest.fixture(scope="module")
def wheel() -> Path:
    return only("wherefrom-*.whl")


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_string(archive.read(name).decode("utf-8"))


# What is in it


def sources() -> set[str]:
    """Every file of the package in the source tree."""
    paths = [path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(SOURCE.parent).as_posix() for path in paths}


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == sources()
    assert {"wherefrom/py.typed", "wherefrom/model/builtin/sentiment/model.safetensors"} <= names
    assert any(name.startswith("wherefrom/report/templates/") for name in names)


def test_the_licence_and_the_notice_are_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in ("LICENSE", "NOTICE"):
            (inside,) = [one for one in archive.namelist() if one.endswith(f".dist-info/licenses/{name}")]
            assert archive.read(inside) == (ROOT / name).read_bytes()


def test_the_sdist_has_what_the_tests_and_the_commands_need() -> None:
    with tarfile.open(only("wherefrom-*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"Makefile", "constraints.txt", "tools/environment.sh", "conftest.py", "docs/index.md", ".ci/run"}
    needed |= {"CITATION.cff", "LICENSE", "NOTICE", "README.md", ".github/workflows/tests.yml"}
    assert needed - names == set()
    assert not any(name.startswith("studies") for name in names)  # another distribution


def test_the_version_is_the_package_s_own(metadata: Message) -> None:
    written = (SOURCE / "__init__.py").read_text(encoding="utf-8")
    assert f'__version__ = "{metadata["Version"]}"' in written


# What the page of the package index shows


def fences(text: str) -> list[str]:
    return re.findall(r"^```.*?^```$", text, re.DOTALL | re.MULTILINE)


def test_the_long_description_leans_on_no_file_beside_it(metadata: Message) -> None:
    page = str(metadata.get_payload())
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)\s]+)", prose) + re.findall(r'(?:src|href)="([^"]+)"', prose)
    assert len(links) > 3
    assert [link for link in links if not link.startswith("https://")] == []


def test_every_address_of_ours_is_a_file_of_ours(metadata: Message) -> None:
    page = str(metadata.get_payload())
    start = (
        rf"https://(?:github\.com|raw\.githubusercontent\.com)/wherefrom/wherefrom/(?:blob/)?v{metadata['Version']}/"
    )
    found = re.findall(rf"{start}([^)#\s\"]+)", page)
    assert len(found) > 3
    assert [name for name in found if not (ROOT / name).exists()] == []


def test_code_in_the_long_description_is_as_in_the_readme(metadata: Message) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert fences(str(metadata.get_payload())) == fences(readme)


# What it does


def required(requirements: list[str], extras: frozenset[str]) -> Iterator[Requirement]:
    for requirement in map(Requirement, requirements):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield requirement


def closure(requirements: list[str], extras: frozenset[str]) -> dict[str, Distribution]:
    """What pip would install for these requirements, from what is installed here."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = list(required(requirements, extras))
    while waiting:
        requirement = waiting.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        try:
            there = distribution(requirement.name)
        except PackageNotFoundError:
            pytest.fail(f"{requirement} is asked for and not installed here")
        assert requirement.specifier.contains(there.version, prereleases=True), (str(requirement), there.version)
        found[key[0]] = there
        waiting += required(there.requires or [], key[1])
    return found


def link(there: Distribution, site: Path) -> None:
    """The top-level files and folders of an installed package, linked into another environment. Packages may share a
    folder (a namespace), whose inside is then linked instead.
    """
    assert there.files is not None
    for file in sorted(str(one) for one in there.files):
        parts = Path(file).parts
        if parts[0] in ("..", "__pycache__") or Path(file).is_absolute():
            continue  # a script, a manual page
        source, goal = Path(str(there.locate_file(file))), site / file
        top_source, top_goal = Path(str(there.locate_file(parts[0]))), site / parts[0]
        if len(parts) == 1 or (top_source / "__init__.py").exists() or parts[0].endswith((".dist-info", ".libs")):
            source, goal = top_source, top_goal
        if not goal.exists() and source.exists():
            goal.parent.mkdir(parents=True, exist_ok=True)
            goal.symlink_to(source.resolve())


class Environment:
    def __init__(self, folder: Path, wheel: Path, metadata: Message, *extras: str) -> None:
        self.folder = folder
        venv.create(folder, with_pip=False)
        windows = os.name == "nt"
        self.programs = folder / ("Scripts" if windows else "bin")
        self.site = (
            folder / "Lib" / "site-packages" if windows else next((folder / "lib").glob("python*")) / "site-packages"
        )
        for there in closure(metadata.get_all("Requires-Dist", []), frozenset(extras)).values():
            link(there, self.site)
        self.pip("install", "--quiet", "--quiet", "--no-deps", "--no-index", str(wheel))

    def pip(self, *arguments: str) -> str:
        """The pip of the environment that runs this file, at work on this one."""
        command = [
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--python",
            str(self.programs / "python"),
        ]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, env=clean(), check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, *arguments: str, exit_code: int = 0) -> subprocess.CompletedProcess[str]:
        """`wherefrom ARGUMENTS`, in an empty folder beside the environment."""
        command = [str(self.programs / "wherefrom"), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=self.folder.parent, env=clean(), encoding="utf-8", check=False
        )
        assert done.returncode == exit_code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done


def clean() -> dict[str, str]:
    """Nothing of the environment that runs this file, and no network."""
    kept = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")
    }
    return kept | {"HF_HUB_OFFLINE": "1", "PYTHONUTF8": "1", "NO_COLOR": "1", "COLUMNS": "200"}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, wheel: Path, metadata: Message) -> Environment:
    """pip install wherefrom"""
    return Environment(tmp_path_factory.mktemp("plain") / "env", wheel, metadata)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, wheel: Path, metadata: Message) -> Environment:
    """pip install 'wherefrom[bench]'"""
    return Environment(tmp_path_factory.mktemp("bench") / "env", wheel, metadata, "bench")


def reviews(folder: Path) -> str:
    path = folder / "reviews.jsonl"
    texts = [("A gorgeous, witty film.", "POSITIVE"), ("The plot drags.", "NEGATIVE"), ("Dull.", "NEGATIVE")]
    path.write_text("".join(json.dumps({"text": a, "label": b}) + "\n" for a, b in texts), encoding="utf-8")
    return str(path)


def test_only_the_wheel_is_imported(plain: Environment) -> None:
    code = "import wherefrom, sys; print(wherefrom.__file__); print(*sys.path, sep='\\n')"
    command = [str(plain.programs / "python"), "-c", code]
    printed = subprocess.run(command, capture_output=True, text=True, env=clean(), cwd=plain.folder, check=True).stdout
    home, *path = printed.splitlines()
    assert Path(home).resolve().is_relative_to(plain.site.resolve())
    assert not any(Path(one).resolve() == SOURCE.parent for one in path if one)


def test_nothing_that_is_declared_is_missing(plain: Environment) -> None:
    assert "No broken requirements" in plain.pip("check")


def test_the_version(plain: Environment, metadata: Message) -> None:
    assert plain.run("--version").stdout == f"wherefrom {metadata['Version']}\n"


def test_explain(plain: Environment) -> None:
    done = plain.run("explain", TEXT, "--html", "page.html")
    assert "NEGATIVE" in done.stdout
    page = (plain.folder.parent / "page.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "gorgeous" in page


def test_methods(plain: Environment) -> None:
    printed = plain.run("methods").stdout
    assert all(name in printed for name in ("attcat", "alti", "attn_lrp", "kernel_shap", "best"))


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (["run", "reviews.jsonl", "--out", "results", "--methods", "random"], "bench"),
        (["run", "reviews.jsonl", "--out", "results", "--methods", "random", "--engine", "ray"], "ray"),
    ],
)
def test_without_the_extra_it_is_named_in_one_line(plain: Environment, command: list[str], extra: str) -> None:
    reviews(plain.folder.parent)
    done = plain.run(*command, exit_code=1)
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert f"pip install 'wherefrom[{extra}]'" in done.stderr


def test_run_and_report(bench: Environment) -> None:
    data = reviews(bench.folder.parent)
    bench.run("run", data, "--out", "results", "--methods", "attcat,random", "--metrics", "aopc", "--workers", "1")
    done = bench.run("report", "results", "--html", "report.html", "--csv", "report.csv")
    assert "3 examples" in done.stdout
    assert "attcat" in (bench.folder.parent / "report.csv").read_text(encoding="utf-8")
    assert "<svg" in (bench.folder.parent / "report.html").read_text(encoding="utf-8")
