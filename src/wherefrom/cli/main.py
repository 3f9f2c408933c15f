"""The program `wherefrom`: every command, and what becomes of errors and warnings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, TextIO

import typer
from rich.text import Text
from typer.core import TyperGroup

from wherefrom import __version__
from wherefrom.cli.arguments import app, problems
from wherefrom.errors import WherefromError

__all__ = ["app", "main", "register_commands"]

# Every command, in the order of `--help`, and the module that registers it with the application when it is imported.
MODULES = {
    "compare": "compare",
    "doctor": "doctor",
    "explain": "explain",
    "flip": "flip",
    "flow": "flow",
    "generate": "generate",
    "heads": "heads",
    "methods": "methods",
    "metrics": "metrics",
    "optimus": "optimus",
    "run": "run",
    "report": "run",
    "sample": "sample",
    "serve": "serve",
    "study": "study",
}


def register_commands(*names: str) -> None:
    """Import the modules of these commands; those of all commands where none is named."""
    for name in names or MODULES:
        import_module(f"wherefrom.cli.{MODULES[name]}")


class CommandsOnDemand(TyperGroup):
    """The commands, each of them imported and built when it is asked for: to build all of them takes as long as a list
    of methods takes altogether.
    """

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self._build(*[cmd_name] if cmd_name in MODULES else MODULES)  # all of them, to find one with a name like it
        return self.commands.get(cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        self._build(*MODULES)
        return list(MODULES)

    def _build(self, *names: str) -> None:
        if set(names) - set(self.commands):
            register_commands(*names)
            self.commands.update(typer.main.get_group(app).commands)


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"wherefrom {__version__}\n")
        raise typer.Exit


@app.callback(cls=CommandsOnDemand)
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    problems.print(Text.assemble(("warning: ", "yellow"), str(message)))


@contextmanager
def _warnings_as_one_line() -> Iterator[None]:
    """Print warnings without file and line while a command runs; the process has its own way back afterwards."""
    usual = warnings.showwarning
    warnings.showwarning = _warn
    try:
        yield
    finally:
        warnings.showwarning = usual


def main() -> None:
    """Run the command that the arguments name. A user's mistake is one line on standard error: exit code 2 for usage, 1
    for failures.
    """
    with _warnings_as_one_line():
        try:
            app()
        except WherefromError as error:
            problems.print(Text.assemble(("error: ", "bold red"), " ".join(str(error).split())), soft_wrap=True)
            sys.exit(error.exit_code)
