"""What the sources of an answer cost, in forward and backward passes of the same model.

    python benchmarks/sources.py MODEL [--repeats 5]
    python benchmarks/sources.py MODEL --memory 4096

MODEL: a folder of a causal language model. Times are CPU time of one thread, the least of several, and every figure is
a ratio within this run. f+b is one forward and one backward pass of the prompt with its answer, by transformers alone.
With --memory, the largest memory of a process that explains a prompt of so many tokens, less what the loaded model
takes, as a ratio to that of f+b.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

import wherefrom
from wherefrom.model.text_model import TextModel
from wherefrom.sources.explain import alternatives
from wherefrom.sources.methods import SourceCase, leave_one_out, token_scores
from wherefrom.sources.prompts import prompt_of
from wherefrom.sources.removals import Removals

SHORT = (
    "The town library opened in 1954. It was designed by Clara Voss, who also built the station."
    " It seats ninety people."
)
ANSWER = "The library was designed by Clara Voss in 1954."
SENTENCE = (
    "In the year {} the council of the town met several times and decided, after a long debate about money and about"
)
SENTENCE += " the many wishes of its {} members, to plant trees along the river, to mend the old bridge, and to wait."


def least(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def case_of(model: TextModel, context: str) -> SourceCase:
    prompt, _ = prompt_of(model, "Who designed the library?", context, None, None, "sentence")
    whole = prompt.build(model, [True] * len(prompt.sources))
    tokens = model.reading.tokenizer(ANSWER, add_special_tokens=False)["input_ids"]
    return SourceCase(Removals(model, prompt, tokens, whole), (range(len(tokens)),))


def forward_and_backward(model: TextModel, case: SourceCase) -> None:
    ids = torch.tensor([case.removals.encoding.input_ids])
    network, steps = model.network.module, len(case.removals.tokens)
    embedded = network.get_input_embeddings()(ids).detach().requires_grad_()
    logits = network(inputs_embeds=embedded, use_cache=False).logits[0, -steps - 1 : -1].log_softmax(-1)
    total = logits[torch.arange(steps), ids[0, -steps:]].sum()
    torch.autograd.grad(total, embedded)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory", type=int, metavar="TOKENS")
    parser.add_argument("--peak-of", help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.peak_of:
        print(peak(given.model, given.peak_of, given.memory))
        return
    if given.memory:
        print(json.dumps(memory(given.model, given.memory), indent=1))
        return
    model = wherefrom.load(given.model).text_model
    for parameter in model.network.module.parameters():
        parameter.requires_grad_(False)
    case = case_of(model, SHORT)
    base = least(lambda: forward_and_backward(model, case), given.repeats)
    found: dict[str, object] = {
        "tokens": len(case.removals.encoding),
        "answer tokens": len(case.removals.tokens),
        "f+b seconds": round(base, 3),
    }
    for name in ("saliency", "attn_lrp", "attcat", "input_x_gradient"):
        found[f"{name} / f+b"] = round(least(partial(token_scores, case, name, {}), given.repeats) / base, 2)
    long = " ".join(SENTENCE.format(1900 + number, number + 7) for number in range(20))
    cached = case_of(model, long)
    rows = cached.removals.prompt.build(model, [True] * 20).encoding

    choices = np.concatenate([np.ones((1, 20), dtype=bool), ~np.eye(20, dtype=bool)])
    alone = [np.empty(0)] * len(choices)

    def from_the_start() -> None:
        for place, kept in enumerate(choices):  # a new case each: nothing is shared
            alone[place] = case_of(model, long).log_probabilities(kept[None])[0]

    repeats = min(given.repeats, 2)
    slow = least(from_the_start, repeats)
    quick = least(lambda: leave_one_out(case_of(model, long)), repeats)
    whole, *without = np.stack(alone)
    np.testing.assert_allclose(leave_one_out(cached).scores[0], (whole - np.stack(without))[:, 0], rtol=1e-3, atol=1e-3)
    found |= {"long prompt tokens": len(rows), "leave_one_out / passes from the start": round(quick / slow, 2)}
    for size in (1, 3):  # the test of a method that has removed nothing itself
        others = alternatives(20, tuple(range(7, 7 + size)))
        top = np.zeros((1, 20), dtype=bool)
        top[0, 7 : 7 + size] = True
        removed = np.concatenate([top, ~top, others])
        seconds = least(partial(test_of, model, long, removed), 1)
        found[f"test of {size} / forward passes"] = round(seconds / (slow / len(choices)), 1)
        found[f"test of {size}, prompts"] = len(removed)
    print(json.dumps(found, indent=1))


def test_of(model: TextModel, context: str, removed: np.ndarray) -> None:
    case_of(model, context).log_probabilities(~removed)


def memory(model: str, tokens: int) -> dict[str, object]:
    """Each in a process of its own."""
    peaks = {}
    for name in ("f+b", "saliency", "attn_lrp"):
        command = [sys.executable, __file__, model, "--memory", str(tokens), "--peak-of", name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        peaks[name] = float(done.stdout.split()[-1])
    base = peaks["f+b"]
    found: dict[str, object] = {"prompt tokens": tokens, "f+b MB": round(base)}
    for name in ("saliency", "attn_lrp"):
        found[f"{name} / f+b"] = round(peaks[name] / base, 2)
    return found


def peak(name: str, method: str, tokens: int) -> float:
    """MB beyond the loaded model."""
    model = wherefrom.load(name).text_model
    for parameter in model.network.module.parameters():
        parameter.requires_grad_(False)
    sentences = [SENTENCE.format(1900 + number, number + 7) for number in range(400)]
    each = len(model.reading.split(sentences[0]).ids) + 1
    case = case_of(model, " ".join(sentences[: max(tokens // each, 1)]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if method == "f+b":
        forward_and_backward(model, case)
    else:
        token_scores(case, method, {})
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


if __name__ == "__main__":
    main()
