"""Commands that other packages add through the entry points `wherefrom.commands`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from rich.console import Console

from wherefrom.cli import main as cli
from wherefrom.errors import BrokenPlugIn

Install = Callable[..., None]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make entry points known, as an installed package would, and only these."""

    def install(**values: str) -> None:
        found = [EntryPoint(name, value, cli.GROUP) for name, value in values.items()]
        monkeypatch.setattr(cli, "entry_points", lambda group: found if group == cli.GROUP else [])

    install()
    return install


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Exit code, output and errors of the program with these arguments."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["wherefrom", *arguments])
        monkeypatch.setattr(cli, "problems", Console(file=sys.stderr, highlight=False, width=400))
        monkeypatch.setenv("COLUMNS", "120")
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return (int(ended.value.code or 0), *capfd.readouterr())

    return run


@pytest.mark.filterwarnings("default")
def test_a_function_and_an_application_become_commands(install: Install, run: Run) -> None:
    install(greet="toy_plugin:greet", toys="toy_plugin:toys")
    code, shown, problems = run("--help")
    assert (code, problems) == (0, "")
    assert shown.count("A command of the package toy_plugin.") == 2
    assert "Greet somebody." in run("greet", "--help")[1]
    assert "Toy commands." in run("toys", "--help")[1]
    assert run("greet", "Ada", "--loud") == (0, "HELLO ADA\n", "")
    assert run("toys", "count", "3") == (0, "0 1 2\n", "")
    assert "No such option: --soft" in run("greet", "Ada", "--soft")[2]
    assert run("toys", "-h")[0] == 0  # what the program's settings say holds for plug-ins as well


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no_such_module:thing", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("toy_plugin:nothing", "AttributeError"),
        ("toy_plugin:not_a_command", "TypeError"),
    ],
)
def test_a_broken_one_is_one_line_and_takes_no_other_down(value: str, why: str, install: Install, run: Run) -> None:
    install(broken=value, greet="toy_plugin:greet")
    code, shown, problems = run("--help")
    assert (code, problems) == (0, "")
    assert "greet" in shown
    assert "broken" in shown
    code, shown, problems = run("broken")
    assert (code, shown, problems.count("\n")) == (1, "", 1)
    assert problems.startswith(f"error: The command 'broken' ({value}) could not be loaded: {why}")
    assert run("greet", "Ada") == (0, "hello Ada\n", "")  # the others are not even looked at


def test_no_plug_in_takes_the_place_of_a_command(install: Install, run: Run) -> None:
    install(methods="toy_plugin:greet")
    assert "attcat" in run("methods")[1]


def test_the_package_is_named_where_it_is_known() -> None:
    from importlib.metadata import distribution

    entry = EntryPoint("broken", "no_such_module:thing", cli.GROUP)._for(distribution("wherefrom"))  # type: ignore[attr-defined]
    with pytest.raises(BrokenPlugIn, match="The command 'broken' of the package wherefrom "):
        cli.load_plug_in(entry)


def test_study_names_the_package_that_brings_it(install: Install, run: Run) -> None:
    assert run("study", "attcat", "--quick") == (
        1,
        "",
        "error: `wherefrom study` is in another package: pip install wherefrom-studies\n",
    )


def test_a_misspelt_plug_in_is_suggested(install: Install, run: Run) -> None:
    install(greet="toy_plugin:greet")
    assert "Did you mean 'greet'" in " ".join(run("gret")[2].split())


def test_a_list_of_commands_loads_no_plug_in(install: Install, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Help is printed as fast as without plug-ins, whatever these import."""
    install(greet="toy_plugin:greet")
    monkeypatch.setattr(cli, "load_plug_in", lambda entry: pytest.fail(f"{entry.name} was loaded"))
    assert "greet" in run("--help")[1]
    assert "Did you mean 'greet'" in " ".join(run("gret")[2].split())


def test_no_plug_in_is_looked_for_before_it_is_needed() -> None:
    """Reading the metadata of every installed package takes time, which our own commands do without."""
    code = (
        "import sys; sys.argv = ['wherefrom', 'metrics']; from wherefrom.cli import main as cli\n"
        "def entry_points(group): sys.exit(f'{group} was read')\n"
        "cli.entry_points = entry_points\n"
        "try: cli.main()\nexcept SystemExit as ended: sys.exit(ended.code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True, cwd=Path.cwd())
    assert (done.returncode, done.stderr) == (0, "")
