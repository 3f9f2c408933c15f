"""What a run over a data set costs: throughput beside a bare forward pass, threads or processes, and memory.

    python benchmarks/running.py FOLDER_WITH_SST2_DEV [--part throughput|threads|memory]

Cores may be busy with other work, so times are CPU time, the least of several, and only ratios within one process mean
anything.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

import torch

from wherefrom.benchmark.datasets import DataSet
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import chunks, run
from wherefrom.benchmark.worker import Worker
from wherefrom.case.asking import Asker
from wherefrom.grading.compare import Query
from wherefrom.grading.grade import GradingTask, grade
from wherefrom.model.network import padded_inputs
from wherefrom.model.text_model import TextModel

METHODS = [
    "alti",
    "attcat",
    "attention_gradients",
    "attention_rollout",
    "attention_x_gradient",
    "attn_lrp",
    "cam",
    "cat",
    "cp_lrp",
    "gae",
]
METHODS += [
    "globenc",
    "gradcam",
    "input_x_gradient",
    "lrp",
    "norms",
    "occlusion",
    "random",
    "raw_attention",
    "saliency",
    "transatt",
]
METRICS = ["aopc", "log_odds", "comprehensiveness", "sufficiency", "rft", "entropy"]
REPEATS = 3


def least(functions: dict[str, Callable[[], object]]) -> dict[str, float]:
    """CPU seconds of each, the least of several rounds in which they take turns."""
    found = dict.fromkeys(functions, float("inf"))
    for _ in range(REPEATS):
        for name, function in functions.items():
            started = time.process_time()
            function()
            found[name] = min(found[name], time.process_time() - started)
    return found


@torch.no_grad()
def bare(model: TextModel, rows: Sequence[Sequence[int]], room: int) -> None:
    """The network itself on the same rows: sorted by length, in batches of as many tokens."""
    order, start = sorted(rows, key=len), 0
    while start < len(order):
        size = 1
        while start + size < len(order) and (size + 1) * len(order[start + size]) <= room:
            size += 1
        batch = order[start : start + size]
        inputs = padded_inputs(model.network, batch, [(0,) * len(row) for row in batch])
        model.network.module(**inputs)
        start += size


def throughput(folder: Path) -> None:
    torch.set_num_threads(1)
    worker = Worker(RunPlan("sst2_dev", methods=METHODS, metrics=METRICS))
    (_, examples), *_ = list(chunks(DataSet("sst2_dev", folder, 64), 8))[3:]
    model = worker.model
    queries = [Query(model.encode(example.text)) for example in examples]
    asker = Asker(model)
    kept: list[GradingTask] = []

    def graded(jobs: Sequence[GradingTask], *more: object) -> object:
        kept.extend(jobs)
        return grade(jobs, *more)  # type: ignore[arg-type]

    with patch("wherefrom.grading.compare.grade", graded):
        worker.comparer.compare(queries, asker=asker)
    rows = [row.words for row in asker._rows]
    times = least(
        {
            "bare forward": lambda: bare(model, rows, model.batch_tokens),
            "asking and grading": lambda: grade(kept, worker.comparer.metrics, Asker(model)),
            "the whole part": lambda: worker(examples),
        }
    )
    print(f"{len(rows)} rows of {len(examples)} examples, {len(METHODS)} methods, {len(METRICS)} metrics")
    for name, seconds in times.items():
        ratio = times["bare forward"] / seconds
        print(f"{name}: {seconds:.2f} s CPU, {len(rows) / seconds:.0f} rows/s, {ratio:.2f} of the bare forward's rate")


def threads(folder: Path) -> None:
    """The same part with one thread, as a worker has it, and with two."""
    worker = Worker(RunPlan("sst2_dev", methods="attcat,random", metrics="aopc,log_odds"))
    examples = [example for _, chunk in list(chunks(DataSet("sst2_dev", folder, 64), 8))[3:5] for example in chunk]
    found: dict[int, tuple[float, float]] = {}
    for _ in range(REPEATS):
        for count in (1, 2):
            torch.set_num_threads(count)
            cpu, wall = time.process_time(), time.perf_counter()
            worker._part(examples, timed=True)
            spent = time.process_time() - cpu, time.perf_counter() - wall
            found[count] = min(found.get(count, spent), spent)
    for count, (cpu, wall) in found.items():
        print(f"{count} threads: {cpu:.2f} s CPU, {wall:.2f} s by the clock")


def memory(folder: Path) -> None:
    """The peak of a process that runs over 200 examples, and over 2,000."""
    for count in (200, 2000):
        context = multiprocessing.get_context("spawn")
        given, taken = context.Pipe()
        child = context.Process(target=_peak, args=(folder, count, taken))
        child.start()
        print(f"{count} examples: {given.recv():.0f} MB at most")
        child.join()


def _peak(folder: Path, count: int, taken: multiprocessing.connection.Connection) -> None:
    with tempfile.TemporaryDirectory() as out:
        plan = RunPlan(
            "sst2_train",
            methods="attcat",
            metrics="comprehensiveness",
            limit=count,
            seed=0,
            data_dir=folder,
            workers=1,
        )
        run(plan, Path(out) / "run")
    lines = Path("/proc/self/status").read_text().splitlines()
    taken.send(int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", choices=["throughput", "threads", "memory"])
    given = parser.parse_args()
    for name, function in {"throughput": throughput, "threads": threads, "memory": memory}.items():
        if given.part in (None, name):
            function(given.folder)
