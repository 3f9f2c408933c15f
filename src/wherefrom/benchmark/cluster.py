"""The engine of a run on a Ray cluster. Its workers may be lost at any moment, alone or with their machines."""

from __future__ import annotations

import logging
import platform
import signal
import socket
import sys
import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from wherefrom.benchmark.engines import (
    AHEAD,
    REPLACEMENTS,
    Chunk,
    FinishedPart,
    FinishedParts,
    WorkerLost,
    finished_part,
)
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.receipts import StoredParts
from wherefrom.benchmark.shards import merge_tables
from wherefrom.benchmark.worker import BadExample, Worker, is_timed
from wherefrom.errors import MissingExtra, WherefromError

CONNECTING = 10.0  # seconds in which the node at an address must answer
PATIENCE = 300.0  # seconds without any worker on a cluster before a warning: loading may be slow


class WorkersAwaited(UserWarning):
    """A Ray cluster has no room for a worker yet."""


class ClusterNotStarted(WherefromError):
    """Ray could not start on this machine, or could not be reached at its address."""

    exit_code = 1


def on_ray(plan: RunPlan, chunks: Iterable[Chunk], workers: int, address: str | None = None) -> FinishedParts:
    """On a Ray cluster: the one at `address`, or a local one that is started for this run. Parts come back here to be
    written, unless the plan names a storage.
    """
    try:
        import psutil
        import ray
        import ray.exceptions
    except ModuleNotFoundError as error:
        raise MissingExtra("The engine 'ray'", "ray") from error
    remaining = iter(chunks)
    due = deque(islice(remaining, 1))
    if not due:
        return  # and start nothing for it
    started_here = not ray.is_initialized()
    if started_here:
        _connect(ray, psutil, workers, address)
    staff = _RayStaff(ray, plan, workers)
    try:
        yield from staff.work(due, remaining)
    except ray.exceptions.RayError as error:
        last = str(error).strip().splitlines()[-1]
        raise WorkerLost(
            f"Ray could not do its part of the work: {last} What was done is kept: start the run again."
        ) from error
    finally:
        staff.dismiss()
        if started_here:
            ray.shutdown()


def _connect(ray: Any, psutil: Any, workers: int, address: str | None) -> None:
    # "local": not a cluster that happens to run on this machine already
    local = {"address": "local", "num_cpus": workers, "include_dashboard": False}
    options = local if address is None else {"address": address}
    try:
        if address is not None:
            _check_answered(address)
        with _handling_sigterm_as_before(), _ending_processes_after_error(ray, psutil):
            ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # Ray raises plain `Exception` when a node takes too long to start
        first_line = f"{(str(error).strip() or type(error).__name__).splitlines()[0].rstrip('.')}."
        if address is not None:
            raise ClusterNotStarted(
                f"There is no Ray cluster at {address}: {first_line} Start one by 'ray start --head', or leave"
                " --address out."
            ) from error
        raise ClusterNotStarted(
            f"Ray could not start on this machine: {first_line} Often the machine is too busy, or short of memory."
            " What was done is kept: start the run again when it is free, use the processes of this machine"
            " (--engine local), or start Ray first by 'ray start --head' and use --address auto."
        ) from error


def _check_answered(address: str) -> None:
    """Raise OSError unless something answers at host:port; Ray itself would try for minutes, and fill the terminal."""
    host, _, port = address.rpartition(":")
    if host and "/" not in host and port.isdecimal():
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECTING):
            pass


@contextmanager
def _handling_sigterm_as_before() -> Iterator[None]:
    """Ray installs its own handler of SIGTERM, which ends the process by a crash with a stack trace."""
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM) if is_main else None
    try:
        yield
    finally:
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)


@contextmanager
def _ending_processes_after_error(ray: Any, psutil: Any) -> Iterator[None]:
    """Kill the processes that Ray has started when its start fails or is interrupted: it forgets them, so that
    `ray.shutdown` leaves them running.
    """
    programs = str(Path(ray.__file__).parent)

    def ray_processes() -> set[Any]:
        """Children of this process that run Ray's programs, and their descendants, some of which rename themselves."""
        processes = set()
        for child in psutil.Process().children():
            with suppress(psutil.Error):
                if any(programs in argument for argument in child.cmdline()):
                    processes |= {child, *child.children(recursive=True)}
        return processes

    before = ray_processes()
    try:
        yield
    except BaseException:
        processes = ray_processes() - before
        with suppress(Exception):
            ray.shutdown()
        for process in processes:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, timeout=10)
        raise


class _RayStaff:
    """The workers of a run on Ray.

    A worker receives chunks once it has loaded its model. The chunks of a lost worker go to the others at once, and
    another worker is requested, which starts when the cluster has room for it.
    """

    def __init__(self, ray: Any, plan: RunPlan, workers: int) -> None:
        self.ray = ray
        gpus = 1 if (plan.device or "").startswith("cuda") else 0
        actor: Any = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0)(RayWorker)
        self.hire: Callable[[], Any] = lambda: actor.remote(plan)
        self.running: dict[Any, tuple[Any, Chunk | None]] = {}  # reference -> worker and chunk; None while it starts
        self.ready: list[Any] = []
        self.losses = Counter[int | None]()  # how often a part was lost with its worker; None: a worker that started
        self.workers = workers

    def work(self, due: deque[Chunk], remaining: Iterator[Chunk]) -> FinishedParts:
        """due: chunks to begin with; remaining: the others, drawn from the data set as they are needed."""
        while True:
            due.extend(islice(remaining, max(0, AHEAD * self.workers - len(due))))
            left = len(due) + sum(chunk is not None for _, chunk in self.running.values())
            if not left:
                return
            self._staff_up(min(self.workers, left))
            self._hand_out(due)
            done, _ = self.ray.wait(list(self.running), num_returns=1, timeout=PATIENCE)
            if not done and not self.ready:
                warnings.warn(
                    "No worker on the Ray cluster is ready yet: each needs a CPU of it (and a GPU with --device cuda)."
                    " The run continues when there is one; 'ray status' shows what is in use.",
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
            result = self.ray.get(reference)
        except self.ray.exceptions.RayActorError as error:
            if error.actor_init_failed:
                raise
            self._lose(worker, chunk, due, error)
            return
        if isinstance(result, WherefromError):
            raise result
        if chunk is None:
            self.ready.append(worker)
        else:
            yield chunk[0], result

    def _lose(self, worker: Any, chunk: Chunk | None, due: deque[Chunk], error: Exception) -> None:
        """Take back the chunks of a lost worker. A part with which workers are lost again and again ends the run."""
        chunks = [chunk] + [other for owner, other in self.running.values() if owner == worker]
        self.running = {reference: pair for reference, pair in self.running.items() if pair[0] != worker}
        self.ready = [other for other in self.ready if other != worker]
        self._end(worker)  # it may only have been out of reach
        due.extendleft(reversed([other for other in chunks if other is not None]))
        part = None if chunk is None else chunk[0]
        self.losses[part] += 1
        if self.losses[part] > REPLACEMENTS + (self.workers if chunk is None else 0):
            raise WorkerLost(
                f"Workers on Ray ended {self.losses[part]} times without an error message"
                f"{' while they started' if chunk is None else f' at part {part}'}; often memory has run out. What"
                " was done is kept: start the run again, with fewer --workers."
            ) from error

    def dismiss(self) -> None:
        workers = [*self.ready, *(worker for worker, _ in self.running.values())]
        for worker in {id(worker): worker for worker in workers}.values():
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
    if at is None or any(stored.at is None for stored in group) or ray is None or not ray.is_initialized():
        return merge_tables(group, folder, at)
    task: Any = ray.remote(num_cpus=0)(merge_tables)  # a CPU of its own it might wait for until the run is over
    shard: StoredParts = ray.get(task.remote(group, folder, at))
    return shard


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
            return finished_part(self.plan, number, self.worker(examples, timed=is_timed(number)))
        except WherefromError as error:
            return BadExample(str(error))
