"""What the sources of an answer cost, in forward and backward passes of the same model.

    python benchmarks/sources.py MODEL [--repeats 5]

MODEL: a folder of a causal language model. Times are CPU time of one thread, the least of several, and every figure is
a ratio within this run. f+b is one forward and one backward pass of the prompt with its answer, by transformers alone.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

import wherefrom
from wherefrom.model.text_model import TextModel
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
    given = parser.parse_args()
    torch.set_num_threads(1)
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

    def from_the_start() -> None:
        removals = case_of(model, long).removals
        kept = [[place != gone for place in range(20)] for gone in range(20)]
        built = [removals.prompt.build(model, row).encoding for row in [[True] * 20, *kept]]
        for encoding in built:
            removals.of_prompts([encoding])

    slow = least(from_the_start, 1)
    quick = least(lambda: leave_one_out(case_of(model, long)), 1)
    check = leave_one_out(cached).scores
    assert np.isfinite(check).all()
    found |= {"long prompt tokens": len(rows), "leave_one_out / passes from the start": round(quick / slow, 2)}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
