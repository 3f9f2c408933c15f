"""The engines of a run: this process, several processes, or a Ray cluster. All compute the same parts."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import threading
import warnings
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from typing import Any

from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.store import Part
from wherefrom.benchmark.worker import BadExample, Worker
from wherefrom.core.example import Example
from wherefrom.errors import MissingExtra, WherefromError

Chunk = tuple[int, Sequence[Example]]  # a part's number and its examples
FinishedParts = Generator[tuple[int, Part], None, None]  # as they are finished, in any order
AHEAD = 2  # chunks in the queue of each worker: enough that none is idle, few enough that memory stays small


REPLACEMENTS = 3  # how often a run goes on after a worker process was lost


class WorkerReplaced(UserWarning):
    """A worker process ended without an error message, and the run goes on with another."""


class WorkerLost(WherefromError):
    """A worker process ended without an error message."""

    exit_code = 1


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def here(plan: RunPlan, chunks: Iterable[Chunk]) -> FinishedParts:
    """In this process."""
    worker = Worker(plan)
    for number, examples in chunks:
        yield number, worker(examples)


def in_processes(plan: RunPlan, chunks: Iterable[Chunk], workers: int) -> FinishedParts:
    """In several processes of this machine, one thread each."""
    waiting, lost = iter(chunks), 0
    due: deque[Chunk] = deque()  # drawn from the data set, and not done
    while True:
        running: dict[Future[Part], Chunk] = {}
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _start_worker, (plan,))
        try:
            while True:
                due.extend(islice(waiting, max(0, AHEAD * workers - len(running) - len(due))))
                while due and len(running) < AHEAD * workers:
                    with _interrupts_held():
                        running[pool.submit(_compute, due[0][1])] = due[0]
                    due.popleft()
                if not running:
                    return
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    part = done.result()
                    yield running.pop(done)[0], part
        except BrokenProcessPool as error:
            lost += 1
            if lost > REPLACEMENTS:
                raise WorkerLost(
                    f"Worker processes ended {lost} times without an error message; often memory has run out. What was"
                    " done is kept: start the run again, with fewer --workers."
                ) from error
            due.extendleft(reversed(running.values()))
            warnings.warn(
                f"A worker process ended without an error message; often memory has run out. It is replaced ({lost} of"
                f" at most {REPLACEMENTS} times).",
                WorkerReplaced,
                stacklevel=2,
            )
        finally:
            # Whoever is still at work, after an error or an interruption, works for nobody.
            for process in list((pool._processes or {}).values()) if running else ():
                process.kill()
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes that are started meanwhile never see Ctrl-C, which a terminal sends to all: this process ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_worker: Worker | None = None  # the worker of this process, where the process is one of several


def _start_worker(plan: RunPlan) -> None:
    global _worker
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _worker = Worker(plan)


def _end_with_parent() -> None:
    """A process whose parent was killed must end as well: nobody would take its results."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _compute(examples: Sequence[Example]) -> Part:
    assert _worker is not None
    return _worker(examples)


def on_ray(plan: RunPlan, chunks: Iterable[Chunk], workers: int, address: str | None = None) -> FinishedParts:
    """On a Ray cluster: the one at `address`, or one of this machine's own. Parts come back here to be written."""
    try:
        import ray
        import ray.data
        import ray.exceptions
    except ModuleNotFoundError as error:
        raise MissingExtra("The engine 'ray'", "ray") from error
    ours = not ray.is_initialized()
    if ours and address is None:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    elif ours:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    try:
        with _quiet_ray_data(ray.data.DataContext.get_current()):
            yield from _on_ray_data(ray, plan, chunks, workers)
    except ray.exceptions.RayError as error:
        last = str(error).strip().splitlines()[-1]
        raise WorkerLost(
            f"Ray could not do its part of the work: {last} What was done is kept: start the run again."
        ) from error
    finally:
        if ours:
            ray.shutdown()


@contextmanager
def _quiet_ray_data(context: Any) -> Iterator[None]:
    """Without Ray's progress bars, as there is one already, and without its log."""
    logger, bars = logging.getLogger("ray.data"), context.enable_progress_bars
    level = logger.level
    context.enable_progress_bars = False
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        context.enable_progress_bars = bars
        logger.setLevel(level)


def _on_ray_data(ray: Any, plan: RunPlan, chunks: Iterable[Chunk], workers: int) -> FinishedParts:
    rows = [{"number": number, "examples": pickle.dumps(list(examples))} for number, examples in chunks]
    if not rows:
        return
    parts = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
        RayWorker,
        fn_constructor_args=(plan,),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=min(workers, len(rows))),
        num_cpus=1,
        num_gpus=1 if (plan.device or "").startswith("cuda") else None,
    )
    for row in parts.iter_rows():
        found = pickle.loads(row["part"])
        if isinstance(found, WherefromError):
            raise found
        yield int(row["number"]), found


class RayWorker:
    """A worker as Ray Data calls it: columns in, columns out."""

    def __init__(self, plan: RunPlan) -> None:
        self.worker = Worker(plan)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {
            "number": batch["number"],
            "part": [pickle.dumps(self._computed(pickle.loads(examples))) for examples in batch["examples"]],
        }

    def _computed(self, examples: Sequence[Example]) -> Part | WherefromError:
        try:
            return self.worker(examples)
        except WherefromError as error:  # an error that Ray carries back is a page long
            return BadExample(str(error))
