"""What the matrix of a continuation costs: all generated tokens from one pass, against a plain loop over the prefixes.

The loop is what one writes by hand: for every generated token a forward pass over prompt and prefix, and a backward
pass to the embeddings. CPU seconds of this process, the best of some runs, in one process and on one thread.

    python benchmarks/generation.py --tokens 40

With `--inseq`, also what the `inseq` package needs for the same matrix of the same model, where it is installed: the
norm of the gradient of each generated token's logit at every embedding before it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import wherefrom

WORDS = [f"w{number}" for number in range(2000)]


def make_model(layers: int, size: int) -> wherefrom.Model:
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[BOS]", "[EOS]", *WORDS])}
    reader = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    reader.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = {"bos_token": "[BOS]", "eos_token": "[EOS]"}  # inseq asks for them
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=reader, unk_token="[UNK]", pad_token="[PAD]", **ends)
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"n_layer": layers, "n_embd": size, "n_head": size // 64, "vocab_size": len(vocabulary)}
    network = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=2, eos_token_id=3, pad_token_id=0))
    return wherefrom.load((network.eval(), tokenizer))


def plain_loop(model: wherefrom.Model, prompt: str, continuation: str) -> list[list[float]]:
    network, reader = model.text_model.network.module, model.text_model.reading.tokenizer
    start, goes_on = (reader(text)["input_ids"] for text in (prompt, continuation))
    rows = []
    for step, token in enumerate(goes_on):
        ids = torch.tensor([[*start, *goes_on[:step]]])
        leaf = model.text_model.network.embed(ids).detach().requires_grad_()
        score = network(inputs_embeds=leaf, use_cache=False, logits_to_keep=1).logits[0, -1, token]
        rows.append(torch.autograd.grad(score, leaf)[0][0].norm(dim=-1).tolist())
    return rows


def by_inseq(model: wherefrom.Model, prompt: str, continuation: str) -> Callable[[], list[list[float]]]:
    """The same matrix by inseq, a step at a time."""
    inseq: Any = importlib.import_module("inseq")  # no dependency of ours
    inner = model.text_model
    peer = inseq.load_model(inner.network.module, "saliency", tokenizer=inner.reading.tokenizer)
    asked: dict[str, Any] = {"attributed_fn": "logit", "show_progress": False, "pretty_progress": False}

    def run() -> list[list[float]]:
        found = peer.attribute(prompt, f"{prompt} {continuation}", **asked)
        norms = found.sequence_attributions[0].target_attributions.norm(dim=-1)  # (token, step)
        before = norms.shape[0] - norms.shape[1]
        return [norms[: before + step, step].tolist() for step in range(norms.shape[1])]

    return run


def cpu_seconds(run: Callable[[], Any], times: int) -> float:
    best = float("inf")
    for _ in range(times):
        started = time.process_time()
        run()
        best = min(best, time.process_time() - started)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompt", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--size", type=int, default=384)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--inseq", action="store_true", help="measure inseq, too")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    model = make_model(asked.layers, asked.size)
    prompt = " ".join(WORDS[: asked.prompt])
    continuation = " ".join(WORDS[asked.prompt : asked.prompt + asked.tokens])

    def ours() -> wherefrom.Generation:
        return model.generate_and_explain(prompt, "saliency", continuation=continuation)

    found, loop = ours(), plain_loop(model, prompt, continuation)

    def difference(rows: list[list[float]]) -> float:
        """The largest, as a share of a row's largest score."""
        pairs = [
            (abs(a - b) / max(row))
            for step, row in enumerate(rows)
            for a, b in zip(found.step(step).scores, row, strict=True)
        ]
        return max(pairs)

    differences = {"loop": difference(loop)}
    seconds = {"ours": cpu_seconds(ours, asked.times)}
    seconds["loop"] = cpu_seconds(lambda: plain_loop(model, prompt, continuation), asked.times)
    if asked.inseq:
        peer = by_inseq(model, prompt, continuation)
        differences["inseq"] = difference(peer())
        seconds["inseq"] = cpu_seconds(peer, asked.times)
    told = {
        "settings": vars(asked),
        "cpu_seconds": {name: round(one, 3) for name, one in seconds.items()},
        "ratio": {name: round(seconds["ours"] / one, 3) for name, one in seconds.items() if name != "ours"},
        "rows": {"forward": found.forwards, "backward": found.backwards},
        "largest_difference": differences,
    }
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
