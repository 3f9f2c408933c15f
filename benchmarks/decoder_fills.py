"""How a word of a decoder is best hidden: each fill beside what not knowing the word does.

    python benchmarks/decoder_fills.py FOLDER [--minutes 8] [--texts 60]
    python benchmarks/decoder_fills.py FOLDER --minutes 16 --keep GPT3x128    the language model of `study methods`

FOLDER has `sst2_train.jsonl` and `sst2_dev.jsonl`. A small GPT-2 (three layers of width 128, its own byte-level BPE) is
trained on SST-2's training text for language modelling, as GPT-2 was: windows of one long stream in which the control
token stands between texts. A copy of it is then trained for sentiment, on one text at a time; each for half of the
minutes of CPU time. Then every word of the dev sentences is hidden in turn (for the next token, sentences that are cut
off at a random place):

- `eos`: by the control token, `<|endoftext|>`, which the model knows as the border between texts;
- `delete`: the text is really shorter;
- `mean`: by the mean of all word embeddings;
- `neutral`: by a comma.

The reference is the mean logit over the words that the language model itself expects at this place from the words
before it, weighted by their probability: what is left when only this word is not known (Zintgraf et al. 2017; Kim et
al. 2020).
For each fill: Spearman's correlation of the effects in a text with the reference's, the share of signs that are alike
among the words whose effect in the reference is at least a tenth of the text's largest, the size of the effects beside
the reference's, and the probability of the target when every word is hidden, whose honest value is that of the target
over the data set.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn
from transformers import GPT2Config, GPT2ForSequenceClassification, GPT2LMHeadModel, PreTrainedTokenizerFast

END = "<|endoftext|>"
LONGEST = 48
EXPECTED = 24  # words that the language model expects most, for the reference
FILLS = ("eos", "delete", "mean", "neutral")


def rows_of(path: Path) -> list[tuple[str, int]]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(row["text"].strip(), int(row["label"])) for row in rows]


def tokenizer_of(texts: list[str]) -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    inner.decoder = decoders.ByteLevel()
    inner.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=4000, special_tokens=[END], show_progress=False))
    return PreTrainedTokenizerFast(tokenizer_object=inner, bos_token=END, eos_token=END, pad_token=END)


def batches(ids: list[list[int]], size: int, chance: random.Random) -> Iterator[list[int]]:
    """Places of texts of similar length, in random order, again and again."""
    while True:
        order = sorted(range(len(ids)), key=lambda place: (len(ids[place]), chance.random()))
        groups = [order[start : start + size] for start in range(0, len(order), size)]
        chance.shuffle(groups)
        yield from groups


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    longest = max(map(len, rows))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    return ids, torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])


def train(step: Callable[[list[int]], Tensor], model: nn.Module, groups: Iterator[list[int]], seconds: float) -> float:
    """Train for so many seconds of CPU time; the mean loss of the last hundred steps."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    started, losses = time.process_time(), list[float]()
    model.train()
    while (spent := time.process_time() - started) < seconds:
        for group in optimiser.param_groups:  # down to nothing, with a short start
            group["lr"] = 1e-3 * min(1.0, 10 * spent / seconds + 0.05) * (1 - spent / seconds)
        loss = step(next(groups))
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
    model.eval()
    return float(np.mean(losses[-100:]))


@torch.no_grad()
def last_logits(model: Any, embeddings: Tensor, *, classes: bool) -> Tensor:
    """(row, token, size) -> (row, class): read at the last token."""
    if classes:
        hidden = model.transformer(inputs_embeds=embeddings).last_hidden_state[:, -1]
        scores: Tensor = model.score(hidden)
        return scores
    found: Tensor = model(inputs_embeds=embeddings).logits[:, -1]
    return found


def hidden_rows(words: Tensor, place: int, fill: str, stand_ins: dict[str, Tensor]) -> Tensor:
    """One text without the word at `place`, which is not the first (that is the control token). (token, size)"""
    if fill == "delete":
        return torch.cat([words[:place], words[place + 1 :]])
    changed = words.clone()
    changed[place] = stand_ins[fill]
    return changed


def measure(
    model: Any, language: Any, texts: list[list[int]], comma: int, *, classes: bool
) -> tuple[dict[str, dict[str, float]], float]:
    """The figures of every fill, and the target's mean probability over the texts."""
    table = model.get_input_embeddings().weight.detach()
    stand_ins = {"eos": table[0], "mean": table.mean(0), "neutral": table[comma]}
    kept: dict[str, list[list[float]]] = {fill: [] for fill in FILLS}
    references: list[list[float]] = []
    nothing: dict[str, list[float]] = {fill: [] for fill in FILLS}
    distributions, targets = [], []
    for ids in texts:
        words = table[torch.tensor(ids)]
        whole = last_logits(model, words[None], classes=classes)[0]
        target = int(whole.argmax())
        distributions.append(whole.softmax(-1))
        targets.append(target)
        with torch.no_grad():
            whole_text = torch.tensor([ids])
            expected = (
                language(whole_text, attention_mask=torch.ones_like(whole_text)).logits[0].softmax(-1)
            )  # (token, word): what follows each
        reference = []
        for place in range(1, len(ids)):
            chances, likely = expected[place - 1].topk(EXPECTED)
            rows = words.repeat(EXPECTED, 1, 1)
            rows[:, place] = table[likely]
            answers = last_logits(model, rows, classes=classes)[:, target]
            reference.append(float(whole[target] - (chances / chances.sum() * answers).sum()))
        references.append(reference)
        for fill in FILLS:
            rows_hidden = torch.stack([hidden_rows(words, place, fill, stand_ins) for place in range(1, len(ids))])
            kept[fill].append((whole[target] - last_logits(model, rows_hidden, classes=classes)[:, target]).tolist())
            empty = words[:1] if fill == "delete" else torch.cat([words[:1], stand_ins[fill].expand(len(ids) - 1, -1)])
            chance = last_logits(model, empty[None], classes=classes)[0].softmax(-1)[target]
            nothing[fill].append(float(chance))
    share = float(np.mean([float(torch.stack(distributions).mean(0)[target]) for target in targets]))
    return {fill: figures(kept[fill], references, nothing[fill]) for fill in FILLS}, share


def figures(effects: list[list[float]], references: list[list[float]], nothing: list[float]) -> dict[str, float]:
    correlations, alike, sizes = [], [], []
    for own, reference in zip(effects, references, strict=True):
        correlations.append(spearmanr(own, reference).statistic)
        strong = [place for place, one in enumerate(reference) if abs(one) >= 0.1 * max(map(abs, reference))]
        alike += [np.sign(own[place]) == np.sign(reference[place]) for place in strong]
        sizes.append(np.mean(np.abs(own)) / np.mean(np.abs(reference)))
    return {
        "correlation": float(np.nanmean(correlations)),
        "its error": float(np.nanstd(correlations) / len(correlations) ** 0.5),
        "signs alike": float(np.mean(alike)),
        "size": float(np.median(sizes)),
        "nothing left": float(np.mean(nothing)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=8.0, help="of CPU time, for training both models")
    parser.add_argument("--texts", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="train the language model, keep it in this folder, and stop")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(asked.seed)
    chance = random.Random(asked.seed)
    rows, dev = rows_of(asked.folder / "sst2_train.jsonl"), rows_of(asked.folder / "sst2_dev.jsonl")
    tokenizer = tokenizer_of([text for text, _ in rows])

    def encoded(text: str) -> list[int]:
        return [0, *tokenizer(text)["input_ids"]][:LONGEST]

    ids = [encoded(text) for text, _ in rows]
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=LONGEST,
        n_embd=128,
        n_layer=3,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )
    config.num_labels = 2
    language = GPT2LMHeadModel(config)

    def predict_words(places: list[int]) -> Tensor:
        inputs = torch.tensor([windows[place] for place in places])
        loss: Tensor = language(inputs, labels=inputs).loss
        return loss

    # Texts follow each other with the control token between, as GPT-2 was trained: it may stand anywhere in a window.
    stream = [token for one in chance.sample(ids, len(ids)) for token in one]
    windows = [stream[start : start + LONGEST] for start in range(0, len(stream) - LONGEST, LONGEST)]
    loss = train(predict_words, language, batches(windows, 64, chance), 30 * asked.minutes)
    print(f"language model: loss {loss:.2f} in training")
    if asked.keep is not None:
        language.save_pretrained(asked.keep)
        tokenizer.save_pretrained(asked.keep)
        return
    sentiment = GPT2ForSequenceClassification(config)
    sentiment.transformer.load_state_dict(language.transformer.state_dict())
    labels = torch.tensor([label for _, label in rows])

    def classify(places: list[int]) -> Tensor:
        inputs, mask = padded([ids[place] for place in places])
        hidden = sentiment.transformer(inputs, attention_mask=mask).last_hidden_state
        logits = sentiment.score(hidden[torch.arange(len(inputs)), mask.sum(-1) - 1])
        return nn.functional.cross_entropy(logits, labels[places])

    train(classify, sentiment, batches(ids, 64, chance), 30 * asked.minutes)
    tests = [(encoded(text), label) for text, label in dev]
    with torch.no_grad():
        table = sentiment.get_parameter("transformer.wte.weight")
        right = [
            int(last_logits(sentiment, table[torch.tensor(one)][None], classes=True).argmax()) == label
            for one, label in tests
        ]
    print(f"sentiment: {np.mean(right):.1%} of {len(right)} dev sentences right")
    chosen = [one for one, _ in tests if 8 <= len(one) <= 30]
    chosen = chance.sample(chosen, min(asked.texts, len(chosen)))
    comma = tokenizer(" ,")["input_ids"][-1]
    cut_off = [one[: chance.randint(7, len(one) - 1)] for one in chosen]  # what follows the end is no question
    for name, model, texts, classes in (
        ("sentiment", sentiment, chosen, True),
        ("next token", language, cut_off, False),
    ):
        found, share = measure(model, language, texts, comma, classes=classes)
        print(f"\n{name}, {len(texts)} texts; the target has {share:.2f} over the data set")
        print("| fill | correlation | signs alike | size | nothing left |\n|---|---:|---:|---:|---:|")
        for fill, one in found.items():
            print(
                f"| {fill} | {one['correlation']:.2f} ± {one['its error']:.2f} | {one['signs alike']:.0%} |"
                f" {one['size']:.2f} | {one['nothing left']:.2f} |"
            )


if __name__ == "__main__":
    main()
