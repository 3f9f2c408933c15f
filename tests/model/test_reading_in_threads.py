"""A tokenizer is changed for texts that are too long, and changed back: who uses it holds the lock of its reading."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_models import make_model, make_network, tokenizer
from transformers import PreTrainedTokenizerFast

import wherefrom
from wherefrom.api import Model


def entailment() -> Model:
    network = make_network("bert", id2label={0: "contradiction", 1: "neutral", 2: "entailment"})
    return wherefrom.load((network, tokenizer()), labels=["good", "bad"])


CASES: dict[str, tuple[Any, Any, Any]] = {
    "causal_lm": (lambda: Model(make_model("gpt2", task="causal_lm")), "a fine film", [None, "good", "not bad"]),
    "masked_lm": (lambda: Model(make_model("bert", task="masked_lm")), "a fine [MASK]", [None, "film"]),
    "seq2seq": (lambda: Model(make_model("t5", task="seq2seq")), "a fine film", ["not bad"]),
    "multiple_choice": (lambda: Model(make_model("bert", task="multiple_choice")), ("a film", "good\nbad"), [None]),
    "zero_shot": (entailment, "a fine film", [None, "good"]),
}


@pytest.mark.parametrize("task", CASES)
def test_the_lock_is_held_while_the_tokenizer_reads(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, text, targets = CASES[task]
    model: Model = made()
    lock: Any = model.text_model.reading.lock
    read, calls = PreTrainedTokenizerFast.__call__, list[bool]()

    def watched(self: PreTrainedTokenizerFast, *args: Any, **options: Any) -> Any:
        calls.append(lock._is_owned())
        return read(self, *args, **options)

    monkeypatch.setattr(PreTrainedTokenizerFast, "__call__", watched)
    for target in targets:
        model.explain(text, "occlusion", target)
    if task in ("causal_lm", "seq2seq"):
        model.generate_and_explain(text, tokens=1)
    assert calls
    assert all(calls)
