"""Progress of long work on standard error: a bar on a terminal, a line every half a minute elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Task

__all__ = ["bar"]

EVERY = 30.0  # seconds between two lines, where standard error is not a terminal
OnProgress = Callable[[int, int], None]  # called with how much is done, and how much there is


class ShowProgress(Protocol):
    """Called with how much is done, and how much there is; `known` is False where that says nothing of the speed."""

    def __call__(self, done: int, everything: int, /, *, known: bool = True) -> None: ...


class Rate:
    """The speed of the work, without what was done before it began."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._began, self._before = clock, clock(), 0
        self.done, self.everything, self.known = 0, 0, True

    def moved(self, done: int, everything: int, /, *, known: bool = True) -> None:
        """known: False as long as too little is done to say how fast the work goes."""
        if not self.everything:
            self._before = done
        self.done, self.everything, self.known = done, everything, known

    @property
    def per_minute(self) -> float | None:
        """None until the first is done, and as long as the speed is not known."""
        if not self.known:
            return None
        fresh, seconds = self.done - self._before, self._clock() - self._began
        return 60 * fresh / seconds if fresh > 0 and seconds > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """By the rate so far, from the first that is done."""
        rate = self.per_minute
        return None if rate is None else 60 * (self.everything - self.done) / rate

    def line(self, what: str) -> str:
        """All of it in words: 120 of 800 examples, 15 a minute, 45 min left."""
        rate, left = self.per_minute, self.seconds_left
        text = f"{self.done:,} of {self.everything:,} {what}"
        if rate is not None and left is not None:
            text += f", {rate:,.3g} a minute, {duration_left(left)} left"
        return text


def duration_left(seconds: float) -> str:
    """In one unit: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


@contextmanager
def bar(what: str, *, shown: bool | None = None) -> Iterator[ShowProgress]:
    """Show progress within the block, by calls with (done, total).

    shown: None shows a bar where standard error is a terminal, and lines where it is not; True a bar; False nothing.
    """
    rate = Rate()
    if shown is False:
        yield rate.moved
    elif shown is None and not sys.stderr.isatty():
        with lines(rate, what, sys.stderr):
            yield rate.moved
    else:
        with _shown(rate, what) as moved:
            yield moved


@contextmanager
def lines(rate: Rate, what: str, out: TextIO, every: float = EVERY) -> Iterator[None]:
    """Print a line every so many seconds, also without progress: it is read in a log."""
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(every):
            if rate.everything:
                out.write(rate.line(what) + "\n")
                out.flush()

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _shown(rate: Rate, what: str) -> Iterator[ShowProgress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Left(ProgressColumn):
        """The rate, and the time left by it."""

        def render(self, task: Task) -> Text:
            speed, left = rate.per_minute, rate.seconds_left
            text = "" if speed is None or left is None else f"{speed:,.3g}/min, {duration_left(left)} left"
            return Text(text, style="progress.remaining")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), Left())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=None)

        def moved(done: int, everything: int, /, *, known: bool = True) -> None:
            rate.moved(done, everything, known=known)
            shown.update(task, completed=done, total=everything)

        yield moved
