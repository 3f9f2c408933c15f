"""How good a trained model is: on labels, on answers, on pairs of words."""

from __future__ import annotations

import os
import string
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from wherefrom.errors import BadOption
from wherefrom_studies.sparse.projected_attention import SOFTMAX, attention_by
from wherefrom_studies.task_networks import (
    NETWORKS,
    HeadAtMask,
    Row,
    TrainingTask,
    batch_of,
    logits_of,
    longest_of,
    read_rows,
    without_notices,
)

LONGEST_ANSWER = 30  # tokens


def measure(
    folder: str | os.PathLike[str],
    rows: Sequence[Row],
    task: TrainingTask,
    labels: Sequence[str],
    longest: int = 512,
    *,
    attention: str = SOFTMAX,
) -> dict[str, float]:
    """How good a trained model is on rows that it was not trained on.

    accuracy and macro F1 for labels (several labels: accuracy of single yes/no answers, and `all_right` the share of
    rows where all are right); exact match and token F1 for answers; accuracy for two words.
    """
    if task == "answer":
        network, tokenizer, longest = _to_be_asked(folder, task, longest)
        with attention_by(network, attention):
            return _measured_answers(network, tokenizer, rows, longest)
    logits, goals = _answered(folder, rows, task, labels, longest, attention)
    if task == "two_words":
        return {"accuracy": float((logits.argmax(-1) == 0).double().mean())}
    if task == "one_label":
        gold = goals[:, 0].long()
        predicted = logits.argmax(-1)
        right = {"accuracy": float((predicted == gold).double().mean())}
        return right | {
            "macro_f1": _macro_f1(functional.one_hot(predicted, len(labels)), functional.one_hot(gold, len(labels)))
        }
    truth = goals.long()
    answers = (logits > 0).long()
    return {
        "accuracy": float((answers == truth).double().mean()),
        "all_right": float((answers == truth).all(-1).double().mean()),
        "macro_f1": _macro_f1(answers, truth),
    }


def right_by_row(
    folder: str | os.PathLike[str],
    rows: Sequence[Row],
    task: TrainingTask,
    labels: Sequence[str],
    longest: int = 512,
    *,
    attention: str = SOFTMAX,
) -> list[bool]:
    """Of every row, whether the model's label is right (several labels: all of them), so that two models can be
    compared text by text.
    """
    if task not in ("one_label", "several_labels"):
        raise BadOption(f"Right and wrong row by row is known of labels, not of the task {task}.")
    logits, goals = _answered(folder, rows, task, labels, longest, attention)
    if task == "one_label":
        return [bool(row) for row in logits.argmax(-1) == goals[:, 0].long()]
    return [bool(row) for row in ((logits > 0).long() == goals.long()).all(-1)]


def _to_be_asked(
    folder: str | os.PathLike[str], task: TrainingTask, longest: int
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, int]:
    """A trained network, its tokenizer, and how many tokens of a text are read."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with without_notices():
        network: PreTrainedModel = NETWORKS[task].from_pretrained(folder).eval()
    return network, tokenizer, min(longest, longest_of(network, tokenizer))


def _answered(
    folder: str | os.PathLike[str],
    rows: Sequence[Row],
    task: TrainingTask,
    labels: Sequence[str],
    longest: int,
    attention: str,
) -> tuple[Tensor, Tensor]:
    """What a trained network says to every row, and what is right. (row, output), (row, goal)"""
    network, tokenizer, longest = _to_be_asked(folder, task, longest)
    kept = read_rows(rows, task, labels, tokenizer, longest)
    order = sorted(range(len(kept)), key=lambda i: len(kept[i].inputs["input_ids"]))
    outputs: list[Tensor] = [torch.empty(0)] * len(kept)
    with torch.inference_mode(), attention_by(network, attention), HeadAtMask(network, task) as place_masks:
        for start in range(0, len(order), 32):
            cut = order[start : start + 32]
            batch = batch_of([kept[i] for i in cut], tokenizer, task)
            place_masks(batch.goal)
            for i, row in zip(cut, logits_of(network, batch, task), strict=True):
                outputs[i] = row
    return torch.stack(outputs), torch.tensor([row.goal for row in kept])


def _macro_f1(predicted: Tensor, gold: Tensor) -> float:
    """The mean of every label's F1; a label that is neither there nor predicted has none, and is left out."""
    hits, all_predicted, all_gold = (predicted * gold).sum(0), predicted.sum(0), gold.sum(0)
    there = (all_predicted + all_gold) > 0
    return float((2 * hits[there] / (all_predicted + all_gold)[there]).double().mean())


def _measured_answers(
    network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Sequence[Row], longest: int
) -> dict[str, float]:
    exact, overlaps = [], []
    with torch.inference_mode():
        for row in rows:
            predicted = predicted_answer(network, tokenizer, row["text"], row["pair"], longest)
            right = [row["pair"][start:end] for start, end in row["answer"]] or [""]
            exact.append(max(_words(predicted) == _words(answer) for answer in right))
            overlaps.append(max(_overlap(_words(predicted), _words(answer)) for answer in right))
    return {"exact_match": sum(exact) / len(exact), "token_f1": sum(overlaps) / len(overlaps)}


def predicted_answer(
    network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, question: str, context: str, longest: int = 512
) -> str:
    """The words of the context that the network takes for the answer; empty where its first token beats them all."""
    read = tokenizer(
        question,
        context,
        truncation="only_second",
        max_length=longest,
        return_offsets_mapping=True,
        return_tensors="pt",
    )
    parts, offsets = read.sequence_ids(), read.pop("offset_mapping")[0].tolist()
    output = network(**read)
    start, end = output.start_logits[0], output.end_logits[0]
    inside = torch.tensor([part == 1 for part in parts])
    both = start[:, None] + end[None, :]
    allowed = (inside[:, None] & inside[None, :]).triu().tril(LONGEST_ANSWER - 1)
    best = int(both.masked_fill(~allowed, -torch.inf).argmax())
    first, last = divmod(best, len(parts))
    if float(both[0, 0]) > float(both[first, last]):
        return ""
    return context[offsets[first][0] : offsets[last][1]]


def _words(answer: str) -> list[str]:
    """As SQuAD compares answers: in lower case, without punctuation and articles."""
    bare = "".join(character for character in answer.lower() if character not in string.punctuation)
    return [word for word in bare.split() if word not in ("a", "an", "the")]


def _overlap(words: list[str], other: list[str]) -> float:
    if not words or not other:
        return float(words == other)
    common = sum(min(words.count(word), other.count(word)) for word in set(words))
    return 2 * common / (len(words) + len(other))
