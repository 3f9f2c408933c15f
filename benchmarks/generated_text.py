"""Which method finds the words of a prompt that a generated text rests on.

    python benchmarks/generated_text.py MODEL [--data ../shared/data/squad_v1.1.jsonl] [--texts 24] [--methods a,b]

Half of the prompts are a short passage with a question, which the model answers; half are the beginning of a passage,
which it continues. Each method scores the words of the prompt for the whole generated text. Then the 1, 2, 4 and 8
words with the largest scores are deleted from the prompt, all at once, and the mean drop in the log-probability of the
generated text (of all its tokens together) is the method's grade; it is computed by plain calls of the model. Printed
is the mean over the prompts with a 95% bootstrap interval, the interval of the difference to the best method (from the
same prompts), and the time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import wherefrom
from wherefrom.core.units import sentences

METHODS = (
    "attn_lrp,saliency,input_x_gradient,attcat,gae,cp_lrp,attention_rollout,alti,logit_contributions,occlusion,random"
)
COUNTS = (1, 2, 4, 8)
PASSAGE = (20, 40)  # words of a passage with a question
BEGINNING = 25  # words of a passage to continue


def prompts_of(path: Path, count: int) -> list[str]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    questions, beginnings, seen = [], [], set[str]()
    for row in rows:
        passage, spans = row["text_b"], row["answer"]["spans"]
        if row["title"] in seen or not spans:
            continue
        around = next((s for s in sentences(passage) if s[0] <= spans[0]["start"] < s[1]), None)
        short = "" if around is None else passage[around[0] : around[1]]
        if not PASSAGE[0] <= len(short.split()) <= PASSAGE[1]:
            continue
        seen.add(row["title"])
        if len(questions) <= len(beginnings):
            questions.append(f"{short}\nQuestion: {row['text_a']}\nAnswer:")
        else:
            beginnings.append(" ".join(passage.split()[:BEGINNING]))
    half = count // 2
    return questions[: count - half] + beginnings[:half]


@torch.no_grad()
def log_probability(model: Any, prompt: list[int], output: list[int]) -> float:
    logits = model(input_ids=torch.tensor([prompt + output])).logits[0, len(prompt) - 1 : -1].double()
    return float(logits.log_softmax(-1)[range(len(output)), output].sum())


def grade(model: Any, ids: list[int], offsets: list[tuple[int, int]], output: list[int], words: list[Any]) -> float:
    """The mean drop without the strongest words."""
    whole = log_probability(model, ids, output)
    order = sorted(words, key=lambda word: -word.score)
    drops = []
    for count in COUNTS:
        gone = [(word.start, word.end) for word in order[:count]]
        kept = [
            token
            for token, (start, end) in zip(ids, offsets, strict=True)
            if not any(first < end and start < last and start < end for first, last in gone)
        ]
        drops.append(whole - log_probability(model, kept, output) if kept else 0.0)
    return float(np.mean(drops))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/squad_v1.1.jsonl"))
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--methods", default=METHODS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    loaded = wherefrom.load(options.model)
    network = loaded.text_model.network.module
    names = options.methods.split(",")
    grades: dict[str, list[float]] = {name: [] for name in names}
    seconds = dict.fromkeys(names, 0.0)
    for prompt in prompts_of(options.data, options.texts):
        generated = loaded.generate_and_explain(prompt, "random", tokens=8)
        text = generated.continuation.split("\n")[0]
        if not text.strip():
            continue
        for name in names:
            started = time.process_time()
            explanation = loaded.explain(prompt, name, text, "word")
            seconds[name] += time.process_time() - started
            output = [part.index for part in explanation.components]
            ids, offsets = tokens_of(loaded, prompt)
            grades[name].append(grade(network, ids, offsets, output, explanation.units()))
        print(f"prompt {len(grades[names[0]])}:", {name: round(grades[name][-1], 2) for name in names}, file=sys.stderr)
        sys.stderr.flush()
    report(grades, seconds)


def tokens_of(loaded: Any, prompt: str) -> tuple[list[int], list[tuple[int, int]]]:
    read = loaded.text_model.reading.tokenizer(prompt, return_offsets_mapping=True)
    return read["input_ids"], read["offset_mapping"]


def report(grades: dict[str, list[float]], seconds: dict[str, float]) -> None:
    chance = np.random.default_rng(0)
    count = len(next(iter(grades.values())))
    draws = chance.integers(0, count, (2000, count))
    order = sorted(grades, key=lambda name: -float(np.mean(grades[name])))
    best = np.array(grades[order[0]])
    print(f"{count} prompts; drop in the log-probability of the generated text, mean without its 1, 2, 4, 8 words")
    print(f"{'method':22} {'drop':>6}  {'95% interval':>14}  {'to the best':>16}  {'s/prompt':>8}")
    for name in order:
        values = np.array(grades[name])
        low, high = np.percentile(values[draws].mean(1), [2.5, 97.5])
        less, more = np.percentile((values - best)[draws].mean(1), [2.5, 97.5])
        interval, difference = f"{low:.2f} to {high:.2f}", f"{less:+.2f} to {more:+.2f}"
        print(f"{name:22} {values.mean():6.2f}  {interval:>14}  {difference:>16}  {seconds[name] / count:8.2f}")


if __name__ == "__main__":
    main()
