"""The program `wherefrom`: all commands, and how errors and warnings are printed."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from wherefrom import __version__
from wherefrom.cli.arguments import app, problems
from wherefrom.errors import BrokenPlugIn, MissingPackage, WherefromError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import EntryPoint

__all__ = ["app", "load_plug_in", "main", "plug_in_commands", "register_commands"]

# Every command, in the order of `--help`, and the module that registers it with the application when it is imported.
MODULES = {
    "compare": "compare",
    "doctor": "doctor",
    "explain": "explain",
    "flip": "flip",
    "flow": "flow",
    "generate": "generate",
    "interactions": "interactions",
    "sources": "sources",
    "heads": "heads",
    "methods": "methods",
    "metrics": "metrics",
    "optimus": "optimus",
    "run": "run",
    "report": "run",
    "audit": "audit",
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


def entry_points(group: str) -> Iterable[EntryPoint]:
    """The entry points of a group. Importing `importlib.metadata` takes 20 ms, which our own commands do without."""
    from importlib.metadata import entry_points

    return entry_points(group=group)


def plug_in_commands() -> dict[str, EntryPoint]:
    """The commands of other packages by their names. None takes the place of a command that is here already."""
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in MODULES}


def load_plug_in(entry: EntryPoint) -> tuple[typer.Typer, Any]:
    """The command of an entry point, which names a Typer application or a function: as an application that contains it
    and as the command built from it.

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
        # Raises on a function whose parameters cannot be options.
        return plug_in, typer.main.get_group(plug_in).commands[entry.name]
    except Exception as error:
        package = f" of the package {entry.dist.name}" if entry.dist else ""
        raise BrokenPlugIn(
            f"The command {entry.name!r}{package} ({entry.value}) could not be loaded: {type(error).__name__}: {error}"
        ) from error


class CommandsOnDemand(TyperGroup):
    """The commands, each imported and built on first use: building all of them takes as long as listing the methods."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Load the plug-in that is called. A list of commands needs only the names of plug-ins."""
        name = args[0]
        if name not in MODULES:
            plug_ins = plug_in_commands()
            if name in plug_ins:
                _, self.commands[name] = load_plug_in(plug_ins[name])
            elif name in ELSEWHERE:
                raise MissingPackage(f"`wherefrom {name}` is in another package: pip install {ELSEWHERE[name]}")
            else:
                self.list_commands(ctx)  # adds all commands, to suggest one with a similar name
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in MODULES:
            self._build(cmd_name)
        return self.commands.get(cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        self._build(*MODULES)
        for name, entry in plug_in_commands().items():
            package = entry.module.partition(".")[0]  # the distribution's name would have to be read from its files
            self.commands.setdefault(name, TyperCommand(name, help=f"A command of the package {package}."))
        return [*MODULES, *(name for name in self.commands if name not in MODULES)]

    def _build(self, *names: str) -> None:
        if set(names) - set(self.commands):
            register_commands(*names)
            self.commands.update(typer.main.get_group(app).commands)


def _version(requested: bool) -> None:
    if requested:
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
    """Print warnings without file and line while a command runs."""
    usual = warnings.showwarning
    warnings.showwarning = _warn
    try:
        yield
    finally:
        warnings.showwarning = usual


@contextmanager
def _anything_can_be_printed() -> Iterator[None]:
    """Print characters that the encoding of standard output lacks, such as bytes of a file's name that are no UTF-8, as
    escapes while a command runs.
    """
    stream = sys.stdout
    if not isinstance(stream, TextIOWrapper):
        yield
        return
    usual = stream.errors
    stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        if not stream.closed:
            stream.reconfigure(errors=usual)


def main() -> None:
    """Run the command that the arguments name. A user's mistake is one line on standard error: exit code 2 for usage, 1
    for failures.
    """
    with _warnings_as_one_line(), _anything_can_be_printed():
        try:
            app()
        except WherefromError as error:
            problems.print(Text.assemble(("error: ", "bold red"), " ".join(str(error).split())), soft_wrap=True)
            sys.exit(error.exit_code)
