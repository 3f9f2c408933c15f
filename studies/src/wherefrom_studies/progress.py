"""How far a piece of work has come, for whoever watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from wherefrom.typing import OnProgress

Item = TypeVar("Item")
Watch = Callable[[str], AbstractContextManager[OnProgress | None]]  # called with what is done


def unwatched(_: str) -> AbstractContextManager[None]:
    """Shows no progress."""
    return nullcontext()


def titled(watch: Watch, title: str) -> Watch:
    """The same, which names first what the work belongs to."""
    return lambda what: watch(f"{title}: {what}")


def watched(items: Sequence[Item], watch: Watch, what: str) -> Iterator[Item]:
    """The items, with the progress of the loop over them."""
    with watch(what) as report:
        for done, item in enumerate(items):
            if report is not None:
                report(done, len(items))
            yield item
