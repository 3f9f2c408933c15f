"""How a sentence of a prompt is best hidden from a language model: each fill beside prompts without that sentence.

    python benchmarks/sentence_fills.py MODEL SQUAD [--contexts 30]

MODEL is a folder of a causal language model, SQUAD a file of SQuAD 1.1 with a question (text_a), its context (text_b)
and its answers a line. Of contexts of three to six sentences and at most 560 characters, one question is taken. The
truth about a sentence is the drop of the answer's log-probability (the sum over its tokens) when the prompt is written
again without it. Each fill hides the tokens of the sentence in place instead:

- `unk`, `eos`: by a control token;
- `comma`: by a comma;
- `mean`: by the mean of all word embeddings;
- `delete`: the tokens are left out, and the positions move up.

For each fill: how often the sentence with the largest drop is that of the truth, Spearman's correlation with the truth,
and the mean absolute error in nats. Contexts that the model does not need for the answer (no drop above 1) are left
out.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from wherefrom.core.units import sentences

FILLS = ("unk", "eos", "comma", "mean", "delete")


def examples(path: Path, count: int) -> Iterator[tuple[str, str, str]]:
    """A context, a question and an answer; one of each paragraph, in random order."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    random.Random(0).shuffle(rows)
    seen = set[str]()
    for row in rows:
        context, spans = row["text_b"], row["answer"]["spans"]
        if context in seen or not 3 <= len(sentences(context)) <= 6 or len(context) > 560 or not spans:
            continue
        seen.add(context)
        yield context, row["text_a"], spans[0]["text"]
        if len(seen) == count:
            return


def log_probability(model: Any, embeddings: Tensor, answer: list[int]) -> float:
    """Of an answer after a prompt, given as embeddings. (token, size)"""
    table = model.get_input_embeddings()
    rows = torch.cat([embeddings, table(torch.tensor(answer))])[None]
    with torch.no_grad():
        logits = model(inputs_embeds=rows, use_cache=False).logits[0, len(embeddings) - 1 : -1]
    return float(logits.double().log_softmax(-1)[torch.arange(len(answer)), torch.tensor(answer)].sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("--contexts", type=int, default=30)
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForCausalLM.from_pretrained(options.model).eval()
    table = model.get_input_embeddings().weight.detach()
    vectors = {
        "unk": table[tokenizer.unk_token_id],
        "eos": table[tokenizer.eos_token_id],
        "comma": table[tokenizer.encode(",", add_special_tokens=False)[0]],
        "mean": table.mean(0),
    }
    hits: dict[str, list[bool]] = {fill: [] for fill in FILLS}
    ranks: dict[str, list[float]] = {fill: [] for fill in FILLS}
    errors: dict[str, list[float]] = {fill: [] for fill in FILLS}
    for context, question, answer in examples(options.data, options.contexts):
        ending = f"\n\nQuestion: {question}\nAnswer:"
        target = tokenizer.encode(f" {answer}", add_special_tokens=False)
        read = tokenizer(context + ending, return_offsets_mapping=True, add_special_tokens=False)
        ids, offsets = torch.tensor(read["input_ids"]), read["offset_mapping"]
        embedded = table[ids]
        whole = log_probability(model, embedded, target)
        truth, drops = [], {fill: list[float]() for fill in FILLS}
        for start, end in sentences(context):
            rebuilt = " ".join((context[:start].strip() + " " + context[end:].strip()).split()) + ending
            again = torch.tensor(tokenizer.encode(rebuilt, add_special_tokens=False))
            truth.append(whole - log_probability(model, table[again], target))
            hidden = torch.tensor([first < end and last > start for first, last in offsets])
            for fill in FILLS:
                rows = embedded[~hidden] if fill == "delete" else embedded.clone()
                if fill != "delete":
                    rows[hidden] = vectors[fill]
                drops[fill].append(whole - log_probability(model, rows, target))
        if max(truth) < 1:  # the model knows the answer without the context
            continue
        for fill in FILLS:
            hits[fill].append(int(np.argmax(drops[fill])) == int(np.argmax(truth)))
            ranks[fill].append(float(spearmanr(drops[fill], truth).statistic))
            errors[fill].append(float(np.abs(np.subtract(drops[fill], truth)).mean()))
    print(f"{len(hits['unk'])} contexts")
    for fill in FILLS:
        print(
            f"{fill:8} top {np.mean(hits[fill]):.2f}  rank {np.mean(ranks[fill]):.2f}  off {np.mean(errors[fill]):.2f}"
        )


if __name__ == "__main__":
    main()
