"""A tiny language model that was trained to copy: the question names a kind of thing, and the answer is the word of
that kind in the context. So the source of every answer is known.
"""

from __future__ import annotations

import random
from functools import cache

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import wherefrom
from wherefrom.api import Model

KINDS = {
    "colour": ["red", "blue", "pink", "gold"],
    "animal": ["cat", "dog", "hen", "fox"],
    "tool": ["saw", "axe", "file", "drill"],
    "fruit": ["fig", "plum", "pear", "lime"],
}
NAMES = ["ann", "bob", "cy", "dee"]


def question(draw: random.Random, sentences: int) -> tuple[list[str], str, str, int]:
    """The sentences of a context, a question, its answer, and the sentence with the answer."""
    kinds = draw.sample(list(KINDS), sentences)
    things = [draw.choice(KINDS[kind]) for kind in kinds]
    gold = draw.randrange(sentences)
    return [f"{draw.choice(NAMES)} has {thing}." for thing in things], f"Which {kinds[gold]}?", things[gold], gold


@cache
def copying_model() -> Model:
    """Trained for about four seconds, until the loss is small: the same on any processor but for rounding."""
    things = [thing for kind in KINDS.values() for thing in kind]
    words = [
        "[PAD]",
        "[UNK]",
        *["Context", ":", "Question", "Answer", "Which", "has", "?", "."],
        *KINDS,
        *NAMES,
        *things,
    ]
    reader = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    reader.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=reader, unk_token="[UNK]", pad_token="[PAD]")
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=len(words), hidden_size=48, num_hidden_layers=2, num_attention_heads=4)
    config.update({"num_key_value_heads": 4, "intermediate_size": 96, "max_position_embeddings": 64})
    config.update({"pad_token_id": 0, "bos_token_id": None, "eos_token_id": None})
    network, draw = LlamaForCausalLM(config), random.Random(0)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for step in range(1000):
        rows = [question(draw, max(step % 5, 1)) for _ in range(32)]
        # Every fifth batch has no context, so that the model has to guess.
        contexts = [f"Context: {' '.join(parts)} " if step % 5 else "" for parts, *_ in rows]
        texts = [f"{before}Question: {row[1]} Answer: {row[2]}" for before, row in zip(contexts, rows, strict=True)]
        ids = torch.tensor(tokenizer(texts)["input_ids"])
        loss = cross_entropy(network(ids).logits[:, -2], ids[:, -1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 and step >= 200 and loss.item() < 0.01:
            break
    assert loss.item() < 0.1
    return wherefrom.load((network.eval(), tokenizer))
