"""The engines of a run on this machine: this process, or several processes. `cluster` has the one for Ray. All compute
the same parts.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, MutableSequence, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

from wherefrom.benchmark.parts import Part, PartInStorage, store_tables
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.worker import Worker, is_timed
from wherefrom.core.example import Example
from wherefrom.errors import WherefromError
from wherefrom.orphans import ParentWatch, start_watched

Chunk = tuple[int, Sequence[Example]]  # a part's number and its examples
OnShares = Callable[[Mapping[int, float]], None]  # called with the shares that are done of the parts in work
FinishedPart = Part | PartInStorage  # the second where workers write their tables themselves
FinishedParts = Generator[tuple[int, FinishedPart], None, None]  # as they are finished, in any order
AHEAD = 2  # chunks queued for each worker: enough that none is idle, few enough that memory stays small
POLL_SECONDS = 0.5  # between two reports of the workers' progress
REPLACEMENTS = 3  # how often a run continues after a worker process was lost


class WorkerReplaced(UserWarning):
    """A worker process ended without an error message, and the run continues with another."""


class WorkerLost(WherefromError):
    """A worker process ended without an error message."""

    exit_code = 1


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def here(plan: RunPlan, chunks: Iterable[Chunk], moved: OnShares | None = None) -> FinishedParts:
    """In this process."""
    worker = Worker(plan)
    for number, examples in chunks:
        part = worker(examples, moved and partial(_move_one, moved, number), timed=is_timed(number))
        yield number, finished_part(plan, number, part)


def finished_part(plan: RunPlan, number: int, part: Part) -> FinishedPart:
    """What a worker returns: its rows, or where it has written them."""
    return part if plan.storage is None else store_tables(part, number, Path(), str(plan.storage))


def _move_one(moved: OnShares, number: int, share: float) -> None:
    moved({number: share})


def in_processes(plan: RunPlan, chunks: Iterable[Chunk], workers: int, moved: OnShares | None = None) -> FinishedParts:
    """In several processes of this machine, one thread each."""
    remaining, losses = iter(chunks), 0
    context = multiprocessing.get_context("spawn")
    # One slot per submitted chunk, written only by its worker: no lock that a killed worker could keep.
    shares: MutableSequence[float] = context.RawArray("d", AHEAD * workers)
    due: deque[Chunk] = deque()  # drawn from the data set, and not done
    while True:
        running: dict[Future[FinishedPart], Chunk] = {}
        slots: dict[Future[FinishedPart], int] = {}
        pool = ProcessPoolExecutor(workers, context, start_watched, (ParentWatch(), _start_worker, plan, shares))
        try:
            while True:
                due.extend(islice(remaining, max(0, AHEAD * workers - len(running) - len(due))))
                while due and len(running) < AHEAD * workers:
                    slot = min(set(range(AHEAD * workers)) - set(slots.values()))
                    shares[slot] = 0.0
                    with _interrupts_blocked():
                        future = pool.submit(_compute, due[0], slot)
                    running[future], slots[future] = due.popleft(), slot
                if not running:
                    return
                while not (finished := wait(running, timeout=moved and POLL_SECONDS, return_when=FIRST_COMPLETED).done):
                    if moved is not None:
                        moved({chunk[0]: shares[slots[future]] for future, chunk in running.items()})
                for future in finished:
                    part = future.result()
                    del slots[future]
                    yield running.pop(future)[0], part
        except BrokenProcessPool as error:
            losses += 1
            if losses > REPLACEMENTS:
                raise WorkerLost(
                    f"Worker processes ended {losses} times without an error message; often memory has run out. What"
                    " was done is kept: start the run again, with fewer --workers."
                ) from error
            due.extendleft(reversed(running.values()))
            warnings.warn(
                f"A worker process ended without an error message; often memory has run out. It is replaced ({losses}"
                f" of at most {REPLACEMENTS} times).",
                WorkerReplaced,
                stacklevel=2,
            )
        finally:
            # After an error or an interruption, nobody would take the results of those still at work.
            for process in list((pool._processes or {}).values()) if running else ():
                process.kill()
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes started inside never receive Ctrl-C, which a terminal sends to all: this process ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_worker: Worker | None = None  # the worker of this process, where the process is one of several
_shares: MutableSequence[float] = []  # the progress of every submitted chunk, in memory that all processes share


def _start_worker(plan: RunPlan, shares: MutableSequence[float]) -> None:
    global _worker, _shares
    _worker, _shares = Worker(plan), shares


def _compute(chunk: Chunk, slot: int) -> FinishedPart:
    assert _worker is not None
    number, examples = chunk
    part = _worker(examples, partial(_shares.__setitem__, slot), timed=is_timed(number))
    return finished_part(_worker.plan, number, part)
