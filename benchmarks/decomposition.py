"""What decomposition costs: CPU time as multiples of one forward pass, and memory above it.

    OMP_NUM_THREADS=1 python benchmarks/decomposition.py

Prints a table for docs/methods/decomposition.md. "whole" is everything `explain` does, with the forward pass that
records; "on top" is what comes after that pass. Times are the least of several, in CPU seconds of one process, so that
other work on the machine disturbs little. Memory is the peak of a process that does nothing else, less that of one that
makes a plain forward pass.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from wherefrom.case.case import Case, make_cases
from wherefrom.core.encoding import Encoding
from wherefrom.model.network import inputs_of
from wherefrom.model.text_model import TextModel
from wherefrom.registry import find_method

SHAPES: dict[str, dict[str, Any]] = {
    "MiniLM": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    "bert-base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
}
LENGTHS = (32, 128, 512)
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "alti l1": ("alti", {}),
    "alti l2": ("alti", {"norm": "l2"}),
    "norms": ("norms", {}),
    "globenc": ("globenc", {}),
}


def make(shape: str) -> TextModel:
    """Random weights: neither time nor memory depends on them."""
    torch.manual_seed(0)
    words = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    network = BertForSequenceClassification(BertConfig(**SHAPES[shape])).eval()
    return TextModel.of(network, PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]"))


def case_of(model: TextModel, length: int) -> Case:
    ids = (101, *torch.randint(1000, 30000, (length - 2,), generator=torch.Generator().manual_seed(0)).tolist(), 102)
    encoding = Encoding(
        text="a " * length,
        pair=None,
        tokens=tuple(map(str, ids)),
        input_ids=ids,
        token_type_ids=None,
        offsets=tuple((2 * i, 2 * i + 1) for i in range(length)),
        segment=(-1, *[0] * (length - 2), -1),
    )
    (cases,) = make_cases(model, [encoding], [None])
    return cases[0]


def forward(model: TextModel, case: Case) -> None:
    with torch.no_grad():
        model.network.module(**inputs_of(model.network, [case.encoding]))


def explain(case: Case, name: str) -> None:
    method, options = METHODS[name]
    find_method(method)(case, **options)


def least(times: int, action: Callable[..., object], *given: object) -> float:
    def once() -> float:
        started = time.process_time()
        action(*given)
        return time.process_time() - started

    return min(once() for _ in range(times))


def record(model: TextModel, length: int) -> None:
    case_of(model, length).passes.forward("attention")


def whole(model: TextModel, length: int, name: str) -> None:
    explain(case_of(model, length), name)


def on_top(case: Case, name: str) -> None:
    case._parts.clear()
    explain(case, name)


def high_water() -> float:
    """Gigabytes this process had at its peak. Not getrusage's ru_maxrss: Linux lets a child inherit that from whoever
    started it.
    """
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 2**20


def peak(shape: str, length: int, name: str) -> float:
    """Gigabytes at the peak of a process of its own."""
    told = [sys.executable, __file__, "--peak", shape, str(length), name]
    return float(subprocess.run(told, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def report() -> None:
    print("| model | tokens | method | forward, s | recording | on top | whole | memory above, GB |")
    print("|---|---|---|---|---|---|---|---|")
    for shape in SHAPES:
        model = make(shape)
        for length in LENGTHS:
            times = 9 if length < 512 else 5
            recorded = case_of(model, length)
            unit = least(times, forward, model, recorded)
            recording = least(times, record, model, length) / unit
            plain = peak(shape, length, "forward")
            for name in METHODS:
                costs = (least(times, on_top, recorded, name) / unit, least(times, whole, model, length, name) / unit)
                ratios = " | ".join(f"{ratio:.1f}x" for ratio in (recording, *costs))
                memory = peak(shape, length, name) - plain
                print(f"| {shape} | {length} | {name} | {unit:.3f} | {ratios} | {memory:.2f} |", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--peak"]:
        shape, length, name = sys.argv[2], int(sys.argv[3]), sys.argv[4]
        model = make(shape)
        case = case_of(model, length)
        if name == "forward":
            forward(model, case)
        else:
            explain(case, name)
        print(high_water())
        return
    report()


if __name__ == "__main__":
    main()
