"""A progress bar on standard error for long work; none where that is not a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def bar(what: str, *, wanted: bool | None = None) -> Iterator[Callable[[int, int], None]]:
    """Within, calls with (done, all) move the bar. wanted: None shows it where standard error is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not (console.is_terminal if wanted is None else wanted)
    ) as shown:
        task = shown.add_task(what, total=None)
        yield lambda done, everything: shown.update(task, completed=done, total=everything)
