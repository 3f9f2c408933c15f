"""The engines of a run: this process, several processes, or a Ray cluster. All compute the same parts."""

from __future__ import annotations

import logging
import multiprocessing
import os
import platform
import signal
import sys
import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, MutableSequence, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from wherefrom.benchmark.parts import Part, PartInStorage, store_tables
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.receipts import StoredParts
from wherefrom.benchmark.shards import merge_tables
from wherefrom.benchmark.worker import BadExample, Worker, is_timed
from wherefrom.core.example import Example
from wherefrom.errors import MissingExtra, WherefromError

Chunk = tuple[int, Sequence[Example]]  # a part's number and its examples
OnShares = Callable[[Mapping[int, float]], None]  # called with the shares that are done of the parts in work
FinishedPart = Part | PartInStorage  # the second where workers write their tables themselves
FinishedParts = Generator[tuple[int, FinishedPart], None, None]  # as they are finished, in any order
AHEAD = 2  # chunks in the queue of each worker: enough that none is idle, few enough that memory stays small
LOOK = 0.5  # seconds between two looks at how far the workers are
REPLACEMENTS = 3  # how often a run goes on after a worker process was lost
PATIENCE = 300.0  # seconds without any worker on a cluster before that is said: loading may be slow


class WorkersAwaited(UserWarning):
    """A Ray cluster has no room for a worker yet."""


class WorkerReplaced(UserWarning):
    """A worker process ended without an error message, and the run goes on with another."""


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
        yield number, _finished(plan, number, part)


def _finished(plan: RunPlan, number: int, part: Part) -> FinishedPart:
    """What a worker hands over: its rows, or where it has written them."""
    return part if plan.storage is None else store_tables(part, number, Path(), str(plan.storage))


def _move_one(moved: OnShares, number: int, share: float) -> None:
    moved({number: share})


def in_processes(plan: RunPlan, chunks: Iterable[Chunk], workers: int, moved: OnShares | None = None) -> FinishedParts:
    """In several processes of this machine, one thread each."""
    waiting, lost = iter(chunks), 0
    context = multiprocessing.get_context("spawn")
    # A place for each chunk that is handed out, which its worker alone writes to: no lock that a killed one could hold.
    shares: MutableSequence[float] = context.RawArray("d", AHEAD * workers)
    due: deque[Chunk] = deque()  # drawn from the data set, and not done
    while True:
        running: dict[Future[FinishedPart], Chunk] = {}
        places: dict[Future[FinishedPart], int] = {}
        pool = ProcessPoolExecutor(workers, context, _start_worker, (plan, shares))
        try:
            while True:
                due.extend(islice(waiting, max(0, AHEAD * workers - len(running) - len(due))))
                while due and len(running) < AHEAD * workers:
                    place = min(set(range(AHEAD * workers)) - set(places.values()))
                    shares[place] = 0.0
                    with _interrupts_held():
                        submitted = pool.submit(_compute, due[0], place)
                    running[submitted], places[submitted] = due[0], place
                    due.popleft()
                if not running:
                    return
                while not (finished := wait(running, timeout=moved and LOOK, return_when=FIRST_COMPLETED).done):
                    if moved is not None:
                        moved({chunk[0]: shares[places[future]] for future, chunk in running.items()})
                for done in finished:
                    part = done.result()
                    del places[done]
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


_shares: MutableSequence[float] = []  # how far each chunk is that was handed out, in memory that all processes share


def _start_worker(plan: RunPlan, shares: MutableSequence[float]) -> None:
    global _worker, _shares
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _worker, _shares = Worker(plan), shares


def _end_with_parent() -> None:
    """A process whose parent was killed must end as well: nobody would take its results."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _compute(chunk: Chunk, place: int) -> FinishedPart:
    assert _worker is not None
    number, examples = chunk
    part = _worker(examples, partial(_shares.__setitem__, place), timed=is_timed(number))
    return _finished(_worker.plan, number, part)


def on_ray(plan: RunPlan, chunks: Iterable[Chunk], workers: int, address: str | None = None) -> FinishedParts:
    """On a Ray cluster: the one at `address`, or one of this machine's own. Parts come back here to be written, unless
    the plan names a storage.
    """
    try:
        import ray
        import ray.exceptions
    except ModuleNotFoundError as error:
        raise MissingExtra("The engine 'ray'", "ray") from error
    waiting = iter(chunks)
    due = deque(islice(waiting, 1))
    if not due:
        return  # and start nothing for it
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, workers, address)
    staff = _RayStaff(ray, plan, workers)
    try:
        yield from staff.work(due, waiting)
    except ray.exceptions.RayError as error:
        last = str(error).strip().splitlines()[-1]
        raise WorkerLost(
            f"Ray could not do its part of the work: {last} What was done is kept: start the run again."
        ) from error
    finally:
        staff.dismiss()
        if ours:
            ray.shutdown()


def _connect(ray: Any, workers: int, address: str | None) -> None:
    # "local": not some cluster that happens to run on this machine already
    own = {"address": "local", "num_cpus": workers, "include_dashboard": False}
    where = own if address is None else {"address": address}
    main = threading.current_thread() is threading.main_thread()
    usual = signal.getsignal(signal.SIGTERM) if main else None
    try:
        ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError) as error:
        raise WorkerLost(
            f"There is no Ray cluster at {address}: {str(error).strip().splitlines()[0]} Start one by 'ray start"
            " --head', or leave --address out."
        ) from error
    finally:
        if usual is not None:
            # Ray takes SIGTERM over, and ends the process by a crash with a stack trace.
            signal.signal(signal.SIGTERM, usual)


class _RayStaff:
    """The workers of a run on Ray, which may be lost at any moment, alone or with their machines.

    A worker gets chunks once it has loaded its model. What a lost one had goes to the others at once, and another
    worker is asked for, which starts when the cluster has room for it.
    """

    def __init__(self, ray: Any, plan: RunPlan, workers: int) -> None:
        self.ray = ray
        graphics = 1 if (plan.device or "").startswith("cuda") else 0
        hired: Any = ray.remote(num_cpus=1, num_gpus=graphics, max_restarts=0)(RayWorker)
        self.hire: Callable[[], Any] = lambda: hired.remote(plan)
        self.running: dict[Any, tuple[Any, Chunk | None]] = {}  # by reference: whose it is; None while a worker starts
        self.ready: list[Any] = []
        self.losses = Counter[int | None]()  # how often a part was lost with its worker; None: a worker that started
        self.workers = workers

    def work(self, due: deque[Chunk], waiting: Iterator[Chunk]) -> FinishedParts:
        """due: chunks to begin with; waiting: the others, drawn from the data set as they are needed."""
        while True:
            due.extend(islice(waiting, max(0, AHEAD * self.workers - len(due))))
            left = len(due) + sum(chunk is not None for _, chunk in self.running.values())
            if not left:
                return
            self._staff_up(min(self.workers, left))
            self._hand_out(due)
            done, _ = self.ray.wait(list(self.running), num_returns=1, timeout=PATIENCE)
            if not done and not self.ready:
                warnings.warn(
                    "No worker on the Ray cluster is ready yet: each needs a CPU of it (and a GPU with --device cuda)."
                    " The run goes on as soon as there is one; 'ray status' says what is in use.",
                    WorkersAwaited,
                    stacklevel=2,
                )
            for reference in done:
                if reference in self.running:  # not that of a worker that was lost meanwhile
                    yield from self._receive(reference, due)

    def _staff_up(self, wanted: int) -> None:
        starting = sum(chunk is None for _, chunk in self.running.values())
        for _ in range(wanted - starting - len(self.ready)):
            worker = self.hire()
            self.running[worker.start.remote()] = (worker, None)

    def _hand_out(self, due: deque[Chunk]) -> None:
        busy = Counter(worker for worker, _ in self.running.values())
        for _ in range(AHEAD):
            for worker in self.ready:
                if due and busy[worker] < AHEAD:
                    chunk = due.popleft()
                    self.running[worker.compute.remote(chunk)] = (worker, chunk)
                    busy[worker] += 1

    def _receive(self, reference: Any, due: deque[Chunk]) -> FinishedParts:
        worker, chunk = self.running.pop(reference)
        try:
            found = self.ray.get(reference)
        except self.ray.exceptions.RayActorError as error:
            if error.actor_init_failed:
                raise
            self._lose(worker, chunk, due, error)
            return
        if isinstance(found, WherefromError):
            raise found
        if chunk is None:
            self.ready.append(worker)
        else:
            yield chunk[0], found

    def _lose(self, worker: Any, chunk: Chunk | None, due: deque[Chunk], error: Exception) -> None:
        """Take back what a lost worker had. A part with which workers are lost again and again ends the run."""
        had = [chunk] + [other for whose, other in self.running.values() if whose == worker]
        self.running = {reference: pair for reference, pair in self.running.items() if pair[0] != worker}
        self.ready = [other for other in self.ready if other != worker]
        self._end(worker)  # it may only have been out of reach
        due.extendleft(reversed([other for other in had if other is not None]))
        blamed = None if chunk is None else chunk[0]
        self.losses[blamed] += 1
        if self.losses[blamed] > REPLACEMENTS + (self.workers if chunk is None else 0):
            raise WorkerLost(
                f"Workers on Ray ended {self.losses[blamed]} times without an error message"
                f"{' while they started' if chunk is None else f' at part {blamed}'}; often memory has run out. What"
                " was done is kept: start the run again, with fewer --workers."
            ) from error

    def dismiss(self) -> None:
        for worker in {id(one): one for one in [*self.ready, *(pair[0] for pair in self.running.values())]}.values():
            self._end(worker)
        self.running, self.ready = {}, []

    def _end(self, worker: Any) -> None:
        with suppress(self.ray.exceptions.RayError, ValueError):
            self.ray.kill(worker)


def merge_on_ray(group: Sequence[StoredParts], folder: Path, at: str | None) -> StoredParts:
    """Merge tables where the workers are, so that what is in a storage does not pass through this machine. What is in
    the run's folder, and what is left when the cluster is gone, is merged here.
    """
    ray: Any = sys.modules.get("ray")  # which has been imported wherever there is a cluster
    if at is None or any(one.at is None for one in group) or ray is None or not ray.is_initialized():
        return merge_tables(group, folder, at)
    task: Any = ray.remote(num_cpus=0)(merge_tables)  # a CPU of its own it might wait for until the run is over
    found: StoredParts = ray.get(task.remote(group, folder, at))
    return found


class RayWorker:
    """A worker as an actor of Ray. Its errors are results: one that Ray carries back as an exception is a page long."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan

    def start(self) -> WherefromError | None:
        """Load the model, which must be on this machine as well."""
        try:
            self.worker = Worker(self.plan)
        except WherefromError as error:
            return WorkerLost(f"A worker on {platform.node()} cannot start: {error}")
        return None

    def compute(self, chunk: Chunk) -> FinishedPart | WherefromError:
        try:
            number, examples = chunk
            return _finished(self.plan, number, self.worker(examples, timed=is_timed(number)))
        except WherefromError as error:
            return BadExample(str(error))
