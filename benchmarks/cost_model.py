"""What a run will cost, predicted by a model with eight coefficients, beside what it does cost.

    python -m benchmarks.cost_model [--rows 48] [--repeats 3]

    seconds = c + parts * a + examples * (e + methods * (b + asking metrics * h))
              + tokens forward * f / 1.35 + tokens forward and backward * g + passes of one text * s

a, b, e and h are measured on runs of a tiny model (the one of benchmarks/scale.py), where all else is next to nothing:
of one method in parts of 8 and of 24, of two methods, of one example, and with a metric that asks beside one that does
not. c is a run of one example by the cheapest method on the embedded model. f is that of its bare network in full
batches, as the questions of all metrics are asked. g and s are what it takes to explain texts in batches of a part, and
one text alone, by `cat`, which is in no run that is predicted: a recorded pass forward and backward, without what an
explanation by `random` takes. So no run that is predicted has a part in the coefficients. How many tokens go through
the model, and how many passes are of one text, is counted in the run (`wherefrom run` says how many rows before it
begins, by one example). Rows that metrics ask are cheaper than bare ones, because the last block runs only where the
decision is read: by the factor that benchmarks/running.py has measured. CPU time of one thread, the least of several.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import wherefrom
from benchmarks.overhead import write_rows
from benchmarks.scale import tiny_model
from wherefrom.benchmark.datasets import DataSet
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run

# Methods, metrics: what is predicted.
RUNS = [
    ("attcat", "aopc"),
    ("attcat,random", "aopc"),
    ("attcat,gae,saliency,random", "aopc,log_odds"),
    ("occlusion", "comprehensiveness"),
]


ASKING = 1.35  # how many times as fast as a bare forward pass rows are asked (docs/running-a-benchmark.md, 2026-11-15)


class Tokens:
    """Tokens that go through a model in batches, with a graph and without; and passes of one text with a graph."""

    def __init__(self, network: Any) -> None:
        self.counts = {True: 0, False: 0}
        self.single = 0
        network.register_forward_pre_hook(self._count, with_kwargs=True)

    def _count(self, _: object, __: object, kwargs: dict[str, Any]) -> None:
        graph, mask = torch.is_grad_enabled(), kwargs["attention_mask"]
        if graph and len(mask) == 1:
            self.single += 1
        else:
            self.counts[graph] += int(mask.sum())

    def drawn(self, times: int) -> tuple[float, float, float]:
        """Tokens without a graph and with one, and passes of one text, of one of several equal runs; and begin anew."""
        found = self.counts[False] / times, self.counts[True] / times, self.single / times
        self.counts, self.single = {True: 0, False: 0}, 0
        return found


def least(function: Callable[[], object], repeats: int) -> float:
    found = float("inf")
    for _ in range(repeats):
        started = time.process_time()
        function()
        found = min(found, time.process_time() - started)
    return found


class Runs:
    """Runs on the same texts, each in a folder of its own."""

    def __init__(self, folder: Path, repeats: int) -> None:
        self.folder, self.repeats, self.number = folder, repeats, 0

    def seconds(
        self, model: Any, methods: str, metrics: str, part: int = 16, limit: int | None = None
    ) -> tuple[float, Any]:
        """CPU seconds of a run, and the run."""
        plan = RunPlan(
            str(self.folder / "rows.jsonl"),
            model=model,
            methods=methods,
            metrics=metrics,
            examples_per_part=part,
            limit=limit,
        )
        found: list[Any] = []

        def once() -> None:
            self.number += 1
            found.append(run(plan, self.folder / f"run-{self.number}"))

        return least(once, self.repeats), found[-1]


def bare(model: Any, texts: list[str], repeats: int) -> float:
    """Seconds of a token forward in full batches."""
    inner = model.text_model
    encoded = sorted((inner.encode(text).input_ids for text in texts), key=len)
    many = [row for row in encoded for _ in range(8)]  # sorted by length, as they are
    size = max(1, inner.batch_tokens // len(many[-1]))
    groups = [many[start : start + size] for start in range(0, len(many), size)]
    full = [inner.padded(group, [(0,) * len(row) for row in group]) for group in groups]

    def forward() -> None:
        with torch.no_grad():
            for inputs in full:
                inner.network.module(**inputs)

    return least(forward, repeats) / sum(map(len, many))


def explaining(model: Any, texts: list[str], repeats: int) -> tuple[float, float]:
    """Seconds of a token forward and backward with attention recorded, in batches of 16 texts; and of a text alone."""
    count = {text: len(model.text_model.encode(text).input_ids) for text in texts}
    ordered = sorted(texts, key=lambda text: count[text])
    batches = [ordered[start : start + 16] for start in range(0, len(ordered), 16)]
    middle = ordered[len(ordered) // 2]

    def by(method: str) -> tuple[float, float]:
        together = least(lambda: [model.explain(batch, method) for batch in batches], repeats)
        return together, least(lambda: model.explain(middle, method), 5 * repeats)

    by("cat")
    (together, alone), (floor, floor_alone) = by("cat"), by("random")
    return (together - floor) / sum(count[text] for text in texts), alone - floor_alone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "rows.jsonl", given.rows)
        texts = [example.text for example in DataSet(str(folder / "rows.jsonl"))]
        runs, tiny = Runs(folder, given.repeats), tiny_model()
        runs.seconds(tiny, "random", "entropy")  # what is loaded once is loaded
        small, _ = runs.seconds(tiny, "random", "entropy", 8)
        large, _ = runs.seconds(tiny, "random", "entropy", 24)
        two, _ = runs.seconds(tiny, "random,random:seed=3", "entropy", 24)
        parts = -(-given.rows // 8) - -(-given.rows // 24)
        a = max(0.0, (small - large) / parts)
        b = (two - large) / given.rows
        asking, _ = runs.seconds(tiny, "random", "aopc", 24)
        h = (asking - large) / given.rows
        one, _ = runs.seconds(tiny, "random", "entropy", limit=1)
        e = max(0.0, (large - one - a * -(-given.rows // 24)) / given.rows - b)
        model = wherefrom.load("embedded")
        f = bare(model, texts, given.repeats)
        g, alone = explaining(model, texts, given.repeats)
        mean = sum(len(model.text_model.encode(text).input_ids) for text in texts) / len(texts)
        print(f"a {1000 * a:.2f} ms a part; e {1000 * e:.2f} ms an example; b {1000 * b:.2f} ms an example and method")
        print(f"h {1000 * h:.2f} ms an example, method and metric that asks; s {1000 * alone:.1f} ms a text alone")
        print(f"f {1e6 * f:.1f} us a token; g {1e6 * g:.1f} us a token; {mean:.1f} tokens a text")
        c, _ = runs.seconds(model, "random", "entropy", limit=1)
        print(f"c {1000 * c:.0f} ms a run")
        print("run | tokens forward an example | forward and backward | predicted, ms an example | measured | ratio")
        tokens = Tokens(model.text_model.network.module)
        for methods, metrics in RUNS:
            measured, found = runs.seconds(model, methods, metrics)
            rows, back, single = (count / given.rows for count in tokens.drawn(given.repeats))
            count = len(methods.split(","))
            graded = count * len(metrics.split(","))
            predicted = c / given.rows + a * len(found.done) / given.rows + e + b * count + h * graded
            predicted += f * rows / ASKING + g * back + alone * single
            print(
                f"{methods}; {metrics} | {rows:.1f} | {back:.1f} | {1000 * predicted:.1f} |"
                f" {1000 * measured / given.rows:.1f} | {predicted * given.rows / measured:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
