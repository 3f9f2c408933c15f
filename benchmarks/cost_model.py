"""What a run will cost, predicted by a model with five coefficients, beside what it does cost.

    python -m benchmarks.cost_model [--rows 48] [--repeats 3]

    seconds = c + parts * a + examples * methods * b + tokens forward * f + tokens forward and backward * g

a and b are measured on runs of a tiny model (the one of benchmarks/scale.py), where all else is next to nothing: of one
method in parts of 8 and of 24, and of two methods. c is a run of one example by the cheapest method on the embedded
model; f and g are those of its bare network, without a method or a metric. So no run that is predicted has a part in
the coefficients. How many rows methods and metrics need is what the run counts: `wherefrom run` says it before it
begins, by one example. CPU time of one thread, the least of several.
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


def bare(model: Any, texts: list[str], repeats: int) -> tuple[float, float]:
    """Seconds of a token forward, and of a token forward and backward to the embeddings, in batches of 16 texts."""
    inner = model.text_model
    encoded = sorted((inner.encode(text).input_ids for text in texts), key=len)
    batches = [encoded[start : start + 16] for start in range(0, len(encoded), 16)]
    padded = [inner.padded(batch, [(0,) * len(row) for row in batch]) for batch in batches]
    tokens = sum(map(len, encoded))

    def forward() -> None:
        with torch.no_grad():
            for inputs in padded:
                inner.network(**inputs)

    def backward() -> None:
        for inputs in padded:
            given = dict(inputs)
            embedded = inner.network.get_input_embeddings()(given.pop("input_ids")).detach().requires_grad_()
            logits = inner.network(inputs_embeds=embedded, **given).logits
            torch.autograd.grad(logits[:, 0].sum(), embedded)

    for parameter in inner.network.parameters():
        parameter.requires_grad_(False)
    return least(forward, repeats) / tokens, least(backward, repeats) / tokens


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
        model = wherefrom.load("embedded")
        f, g = bare(model, texts, given.repeats)
        mean = sum(len(model.text_model.encode(text).input_ids) for text in texts) / len(texts)
        print(f"a {1000 * a:.2f} ms a part; b {1000 * b:.2f} ms an example and method")
        print(f"f {1e6 * f:.1f} us a token; g {1e6 * g:.1f} us a token; {mean:.1f} tokens a text")
        c, _ = runs.seconds(model, "random", "entropy", limit=1)
        print(f"c {1000 * c:.0f} ms a run")
        print("run | forward rows an example | backward rows | predicted, ms an example | measured | ratio")
        for methods, metrics in RUNS:
            measured, found = runs.seconds(model, methods, metrics)
            explained = found.explanations
            back = float(explained["backwards"].sum()) / given.rows
            rows = float(explained["forwards"].sum() + found.costs["rows"].sum()) / given.rows - back
            alone = found.alone  # each method once more, on one text of a part
            extra_back = float(alone["backwards"].sum()) / given.rows
            extra = float(alone["forwards"].sum()) / given.rows - extra_back
            count = len(methods.split(","))
            predicted = (
                c / given.rows
                + a * len(found.done) / given.rows
                + b * count
                + mean * (f * (rows + extra) + g * (back + extra_back))
            )
            print(
                f"{methods}; {metrics} | {rows:.1f} | {back:.2f} | {1000 * predicted:.1f} |"
                f" {1000 * measured / given.rows:.1f} | {predicted * given.rows / measured:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
