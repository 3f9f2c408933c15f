"""What grows with the number of rows of a run: our own time per example, files, the driver's memory, the time until a
run that was stopped at half goes on, and the time and memory of its report.

    python benchmarks/scale.py FOLDER [--rows 10000 100000 1000000] [--part 256]

The model is tiny (two layers, 32 wide) and the method and the metric are the cheapest (`random`, `entropy`), so that
what is ours is most of the time. Every stage is a process of its own, whose CPU time and largest memory are taken. It
may be killed and started again: stages that are done are in FOLDER/scale.json, and a run goes on where it was; its CPU
time is noted after every part.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TEXT = "the a film plot acting movie is was not never very bad dull good great fine , . and but"
WORDS = TEXT.split()
STAGES = ("first half", "second half", "report")


def write_rows(path: Path, count: int) -> None:
    """Texts of 3 to 20 words, the same every time."""
    chance = random.Random(0)
    with path.with_suffix(".unfinished").open("w") as file:
        for number in range(count):
            text = " ".join(chance.choices(WORDS, k=chance.randint(3, 20)))
            file.write(json.dumps({"id": f"r{number}", "text": text, "label": number % 2}) + "\n")
    path.with_suffix(".unfinished").replace(path)


def tiny_model() -> Any:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    import wherefrom

    torch.manual_seed(0)
    pieces = {piece: number for number, piece in enumerate(["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", *WORDS])}
    inner = Tokenizer(models.WordLevel(pieces, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, pieces[name]) for name in ("[CLS]", "[SEP]")]
    )
    special = {f"{name.strip('[]').lower()}_token": name for name in list(pieces)[:5]}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, **special)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        id2label={0: "NEGATIVE", 1: "POSITIVE"},
        label2id={"NEGATIVE": 0, "POSITIVE": 1},
    )
    return wherefrom.load((BertForSequenceClassification(config).eval(), tokenizer))


def peak() -> float:
    """The most memory that this process ever had, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


class Noted:
    """What was measured, in a file, so that a benchmark that was killed goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def __setitem__(self, key: str, value: Any) -> None:
        self.values[key] = value
        unfinished = self.path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(self.values, indent=1))
        unfinished.replace(self.path)


def run_until(folder: Path, count: int, part: int, *, half: bool, noted: Noted, key: str) -> None:
    """Run to the half or to the end. CPU seconds of attempts that were killed are added up."""
    import torch

    from wherefrom.benchmark.plan import RunPlan
    from wherefrom.benchmark.run import run

    torch.set_num_threads(1)
    model, spent, began = tiny_model(), [0.0, 0.0], time.process_time()
    network = model.text_model.network.module
    network.register_forward_pre_hook(lambda *_: spent.__setitem__(1, time.process_time()))
    network.register_forward_hook(lambda *_: spent.__setitem__(0, spent[0] + time.process_time() - spent[1]))
    before = noted.values.get(
        key, {"cpu": 0.0, "forward": 0.0, "wall": 0.0, "examples": 0, "peak": 0.0, "resume": None}
    )
    loaded, clock = time.process_time(), time.perf_counter()
    started: list[int] = []

    def note(done: int, everything: int) -> None:
        now = time.process_time()
        if not started:
            started.append(done)
            resume = now - loaded  # the data are read and what is there is examined
            noted[key] = before | {"resume": before["resume"] or [done, resume]}
            return
        noted[key] = {
            "cpu": before["cpu"] + now - loaded,
            "forward": before["forward"] + spent[0],
            "wall": before["wall"] + time.perf_counter() - clock,
            "examples": before["examples"] + done - started[0],
            "peak": max(before["peak"], peak()),
            "resume": noted.values[key]["resume"],
        }
        if half and done >= everything // 2:
            os._exit(0)  # in the middle of it, as a kill would

    print(f"  loaded in {loaded - began:.1f} s CPU", flush=True)
    plan = RunPlan(
        str(folder / f"{count}.jsonl"), model=model, methods="random", metrics="entropy", examples_per_part=part
    )
    run(plan, folder / f"run-{count}", on_progress=note)
    now = time.process_time()  # with the last shards, and with all of them examined once more
    noted[key] = noted.values[key] | {"cpu": before["cpu"] + now - loaded, "peak": max(before["peak"], peak())}


def report(folder: Path, count: int, noted: Noted, key: str) -> None:
    from wherefrom.benchmark import Run
    from wherefrom.benchmark.summary import summarise

    began = time.process_time()
    found = Run.load(folder / f"run-{count}")
    read = time.process_time()
    assert found.finished
    summary = summarise(found)
    assert summary.examples == count
    noted[key] = {"load": read - began, "cpu": time.process_time() - began, "peak": peak()}


def files(folder: Path, count: int) -> tuple[int, float]:
    """How many files a run has, and how many MB."""
    found = [path.stat().st_size for path in (folder / f"run-{count}").rglob("*") if path.is_file()]
    return len(found), sum(found) / 1e6


def stage(given: argparse.Namespace, count: int, name: str) -> None:
    """One stage, in this process."""
    noted = Noted(given.folder / "scale.json")
    key = f"{count} {name}"
    if name == "report":
        report(given.folder, count, noted, key)
    else:
        run_until(given.folder, count, given.part, half=name == "first half", noted=noted, key=key)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--part", type=int, default=256, help="examples that are worked on and kept together")
    parser.add_argument("--stage", nargs=2, metavar=("ROWS", "STAGE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stage:
        stage(given, int(given.stage[0]), given.stage[1])
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    for count in given.rows:
        if not (given.folder / f"{count}.jsonl").exists():
            write_rows(given.folder / f"{count}.jsonl", count)
        for name in STAGES:
            noted = Noted(given.folder / "scale.json")
            if f"{count} {name}" in noted.values.get("done", []):
                continue
            print(f"{count:,} rows, {name}", flush=True)
            own = [sys.executable, __file__, str(given.folder), "--part", str(given.part)]
            subprocess.run([*own, "--stage", str(count), name], check=True)
            noted = Noted(given.folder / "scale.json")
            noted["done"] = [*noted.values.get("done", []), f"{count} {name}"]
        table(given.folder, [one for one in given.rows if one <= count])


def table(folder: Path, rows: list[int]) -> None:
    noted = Noted(folder / "scale.json").values
    head = "rows | ms CPU an example | of that ours | files | MB | driver's peak, MB | to resume at half, s | report, s"
    print(head + " | report's peak, MB")
    for count in rows:
        first, second, told = (noted[f"{count} {name}"] for name in STAGES)
        examples = first["examples"] + second["examples"]
        cpu, forward = (sum(one[name] for one in (first, second)) for name in ("cpu", "forward"))
        number, size = files(folder, count)
        driver = max(first["peak"], second["peak"])
        print(
            f"{count:,} | {1000 * cpu / examples:.2f} | {1000 * (cpu - forward) / examples:.2f} | {number} | {size:.0f}"
            f" | {driver:.0f} | {second['resume'][1]:.1f} (at {second['resume'][0]:,}) | {told['cpu']:.1f}"
            f" | {told['peak']:.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
