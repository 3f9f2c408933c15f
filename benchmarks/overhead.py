"""What `wherefrom run` costs beyond the work itself: beside the same explanations and metrics in one process, item by
item; and what a second worker gains.

    python benchmarks/overhead.py [--rows 64] [--repeats 3] [--method attcat] [--metric aopc]
    python benchmarks/overhead.py --workers 2 --rows 640      by the clock: needs as many cores with nothing else to do

The model is the embedded one; the texts are those of sample:reviews, over and over. Without --workers, times are CPU
time of one thread, the least of several turns, so that they mean something on a busy machine as well.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

import wherefrom
from wherefrom.benchmark.datasets import DataSet
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import chunks, run
from wherefrom.benchmark.store import Run, Store
from wherefrom.benchmark.worker import Worker
from wherefrom.grading.compare import Comparer


def write_rows(path: Path, count: int) -> None:
    texts = [example.text for example in DataSet("sample:reviews")]
    lines = [json.dumps({"id": str(number), "text": texts[number % len(texts)]}) + "\n" for number in range(count)]
    path.write_text("".join(lines))


class Shares:
    """CPU seconds within functions of a run."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def of(self, owner: Any, name: str, what: str) -> Iterator[None]:
        original: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **options: Any) -> Any:
            started = time.process_time()
            try:
                return original(*args, **options)
            finally:
                self.seconds[what] = self.seconds.get(what, 0.0) + time.process_time() - started

        with patch.object(owner, name, timed):
            yield


def overhead(given: argparse.Namespace, folder: Path) -> None:
    torch.set_num_threads(1)
    data, model = folder / "rows.jsonl", wherefrom.load("embedded")
    parts = [[example.text for example in chunk] for _, chunk in chunks(DataSet(str(data)), 16)]
    plan = RunPlan(str(data), model=model, methods=given.method, metrics=given.metric)

    def in_process() -> None:
        for texts in parts:
            for explanation in model.explain(texts, given.method):
                model.evaluate(explanation, given.metric)

    best: dict[str, float] = {}
    items: dict[str, float] = {}
    in_process()
    for turn in range(given.repeats):
        started = time.process_time()
        in_process()
        between = time.process_time()
        shares = Shares()
        with (
            shares.of(Comparer, "compare", "explaining and measuring"),
            shares.of(Worker, "_costs_alone", "each method alone, on one text of a part"),
            shares.of(Store, "write", "writing parts"),
            shares.of(Store, "compact", "merging parts into shards"),
            shares.of(Run, "load", "reading the run back"),
        ):
            run(plan, folder / f"run-{turn}")
        ended = time.process_time()
        found = {"in one process": between - started, "run": ended - between}
        if found["run"] < best.get("run", float("inf")):
            items = shares.seconds | {"the rest": found["run"] - sum(shares.seconds.values())}
        best = {name: min(seconds, best.get(name, seconds)) for name, seconds in found.items()}
    count = sum(map(len, parts))
    for name, seconds in best.items():
        print(f"{name}: {1000 * seconds / count:.1f} ms CPU an example, {seconds / best['in one process']:.2f}")
    for name, seconds in items.items():
        print(f"  {name}: {1000 * seconds / count:.2f} ms, {seconds / best['in one process']:.3f}")


def workers(given: argparse.Namespace, folder: Path) -> None:
    """By the clock, from the first part to the last, so that loading the model does not count."""
    rates: dict[int, float] = {}
    for turn in range(given.repeats):
        for count in (1, given.workers):
            moments: list[tuple[float, int]] = []
            plan = RunPlan(
                str(folder / "rows.jsonl"), methods=given.method, metrics=given.metric, workers=count, device="cpu"
            )
            note = lambda done, _: moments.append((time.perf_counter(), done))  # noqa: B023, E731
            run(plan, folder / f"workers-{count}-{turn}", on_progress=note)
            (began, first), (ended, last) = moments[2 * count], moments[-1]  # once all of them are at work
            rates[count] = max(rates.get(count, 0.0), (last - first) / (ended - began))
    for count, rate in rates.items():
        print(f"{count} workers: {rate:.1f} examples a second, {rate / rates[1]:.2f} of one")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--method", default="attcat")
    parser.add_argument("--metric", default="aopc")
    parser.add_argument("--workers", type=int)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder) / "rows.jsonl", given.rows)
        (overhead if given.workers is None else workers)(given, Path(folder))


if __name__ == "__main__":
    main()
