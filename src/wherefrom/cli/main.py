"""The program `wherefrom`: every command, and what becomes of errors and warnings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, TextIO

import typer
from rich.text import Text
from typer.core import TyperGroup

from wherefrom import __version__
from wherefrom.cli.arguments import app, problems
from wherefrom.errors import BrokenPlugIn, MissingPackage, WherefromError

__all__ = ["app", "load_plug_in", "main", "plug_in_commands", "register_commands"]

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
}
GROUP = "wherefrom.commands"  # the entry points through which other packages add commands
# Commands of our own that are in another distribution, and its name.
ELSEWHERE = {"study": "wherefrom-studies"}


def register_commands(*names: str) -> None:
    """Import the modules of these commands; those of all commands where none is named."""
    for name in names or MODULES:
        import_module(f"wherefrom.cli.{MODULES[name]}")


def plug_in_commands() -> dict[str, EntryPoint]:
    """The commands of other packages by their names. None takes the place of a command that is here already."""
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in MODULES}


def load_plug_in(entry: EntryPoint) -> typer.Typer:
    """An application with the command of an entry point, which names a Typer application or a function.

    Raises:
        BrokenPlugIn: whatever the other package raises, as one line that names the package.
    """
    try:
        value = entry.load()
        plug_in = typer.Typer()
        plug_in.callback()(lambda: None)  # a group, even of one command
        if isinstance(value, typer.Typer):
            plug_in.add_typer(value, name=entry.name)
        else:
            plug_in.command(entry.name)(value)
        typer.main.get_group(plug_in)  # raises on a function whose parameters cannot be options
    except Exception as error:
        package = f" of the package {entry.dist.name}" if entry.dist else ""
        raise BrokenPlugIn(
            f"The command {entry.name!r}{package} ({entry.value}) could not be loaded: {type(error).__name__}: {error}"
        ) from error
    return plug_in


class CommandsOnDemand(TyperGroup):
    """The commands, each imported and built on first use: building all of them takes as long as listing the methods."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in MODULES:
            self._build(cmd_name)
        elif cmd_name not in self.commands:
            plug_ins = plug_in_commands()
            if cmd_name in plug_ins:
                self._add(plug_ins[cmd_name])
            elif cmd_name in ELSEWHERE:
                package = ELSEWHERE[cmd_name]
                raise MissingPackage(f"`wherefrom {cmd_name}` is in another package: pip install {package}")
            else:
                self.list_commands(ctx)  # builds all of them, to find one with a similar name
        return self.commands.get(cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        self._build(*MODULES)
        for entry in plug_in_commands().values():
            try:
                self._add(entry)
            except BrokenPlugIn as error:  # which must not take the other commands down
                warnings.warn(str(error), stacklevel=2)
        return [*MODULES, *(name for name in self.commands if name not in MODULES)]

    def _build(self, *names: str) -> None:
        if set(names) - set(self.commands):
            register_commands(*names)
            self.commands.update(typer.main.get_group(app).commands)

    def _add(self, entry: EntryPoint) -> None:
        if entry.name not in self.commands:
            self.commands[entry.name] = typer.main.get_group(load_plug_in(entry)).commands[entry.name]


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
