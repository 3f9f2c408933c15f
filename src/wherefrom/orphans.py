"""Ends worker processes whose parent was killed: nobody would take their results.

This file is apart from what starts workers, and imports nothing heavy: a new process must watch its parent before it
imports torch, which takes seconds.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

POLL_SECONDS = 0.25


class ParentWatch:
    """Given to a new process as its first argument: it watches its parent from when this is unpickled."""

    def __reduce__(self) -> tuple[Callable[[int], ParentWatch], tuple[int]]:
        return _watch, (os.getpid(),)


def start_watched(_watch: ParentWatch, start: Callable[..., None], *arguments: Any) -> None:
    """The initializer of a worker process. `start` and its arguments are unpickled, and imported, after the watch."""
    start(*arguments)


def _watch(parent: int) -> ParentWatch:
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    return ParentWatch()


def _end_with(parent: int) -> None:
    while os.getppid() == parent and _is_alive(multiprocessing.parent_process()):
        time.sleep(POLL_SECONDS)
    os._exit(1)


def _is_alive(parent: BaseProcess | None) -> bool:
    """On Windows a process keeps the number of its parent; multiprocessing knows better, once the process has begun."""
    return parent is None or parent.is_alive()
