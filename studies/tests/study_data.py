"""A folder with tiny files in the layouts that the studies read, and a tiny base to train."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import SIZES, tokenizer
from transformers import BertConfig, BertModel

GOOD, BAD = ("good", "great", "fine"), ("bad", "dull", "never")
NOUNS = ("film", "movie", "plot", "acting")


def sentences(count: int) -> list[tuple[str, int]]:
    """Texts whose class is decided by one word, all different."""
    found = []
    for number in range(count):
        words = (BAD, GOOD)[number % 2]
        noun, other = NOUNS[number % 4], NOUNS[number // 4 % 4]
        found.append((f"the {noun} was {words[number % 3]} and the {other} is {words[number // 3 % 3]}", number % 2))
    return list(dict.fromkeys(found))


def rows_of(split: str, count: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"id": f"{split}-{number}", "split": split, "text": text, "label": label, **more}
        for number, (text, label) in enumerate(sentences(count))
    ]


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def pairs(count: int) -> list[dict[str, Any]]:
    found = []
    for number, (text, label) in enumerate(sentences(count)):
        other = "a good plot" if label else "a dull plot"
        start = text.index("was ") + 4
        found.append(
            {
                "id": f"pair-{number}",
                "split": "dev",
                "text_a": text,
                "text_b": other,
                "label": ("contradiction", "entailment")[label],
                "rationale_a": [[start, start + 3]],
                "rationale_b": [[2, 6]],
            }
        )
    return found


def base(folder: Path, dropout: float = 0.0) -> Path:
    """A random BERT of two layers, saved as any base is."""
    torch.manual_seed(0)
    shape: dict[str, Any] = SIZES | {"num_hidden_layers": 2, "initializer_range": 0.2, "pad_token_id": 0}
    shape |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout, "vocab_size": len(tokenizer())}
    BertModel(BertConfig(**shape)).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


WRITTEN_NUMBER = re.compile(r"-?[0-9]*\.?[0-9]+")


def assert_alike(found: Any, expected: Any, where: str = "page") -> None:
    """Plain data with the same words, and the same numbers but for the order in which a processor adds them up."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for name in expected:
            assert_alike(found[name], expected[name], f"{where}.{name}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for place, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_alike(one, other, f"{where}[{place}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-6, nan_ok=True), where
    elif isinstance(expected, str):
        # A rounded number may be the next one where the number lies between the two: numbers were compared above.
        assert WRITTEN_NUMBER.sub("#", found) == WRITTEN_NUMBER.sub("#", expected), where
    else:
        assert found == expected, where
