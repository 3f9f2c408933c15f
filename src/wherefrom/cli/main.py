"""The program `wherefrom`: every command, and what becomes of errors and warnings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, TextIO

import typer
from rich.text import Text

from wherefrom import __version__
from wherefrom.cli import (
    compare,
    doctor,
    explain,
    flip,
    flow,
    generate,
    heads,
    methods,
    metrics,
    optimus,
    run,
    sample,
    serve,
    study,
)
from wherefrom.cli.arguments import app, problems
from wherefrom.errors import WherefromError

__all__ = ["app", "main"]

# Importing a module registers its command with the application.
COMMANDS = (explain, compare, serve, flip, flow, generate, run, heads, optimus, study, sample, methods, metrics, doctor)


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"wherefrom {__version__}\n")
        raise typer.Exit


@app.callback()
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
