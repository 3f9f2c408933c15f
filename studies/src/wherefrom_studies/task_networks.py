"""The networks that are fine-tuned, by task: how they are made, how rows are read for them, and their loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from wherefrom.errors import BadFile, BadOption

TrainingTask = Literal["one_label", "several_labels", "answer", "two_words"]
TASKS: tuple[TrainingTask, ...] = get_args(TrainingTask)
Row = Mapping[str, Any]  # text, pair, label, foil, answer: as the studies' data have them


class Batch(NamedTuple):
    inputs: dict[str, Tensor]
    goal: dict[str, Tensor]


class TrainingRow(NamedTuple):
    """A row as the network reads it."""

    inputs: dict[str, list[int]]
    goal: tuple[float, ...]  # the class; a number for each label; start and end; the place and both words


NETWORKS: dict[TrainingTask, Any] = {
    "one_label": AutoModelForSequenceClassification,
    "several_labels": AutoModelForSequenceClassification,
    "answer": AutoModelForQuestionAnswering,
    "two_words": AutoModelForMaskedLM,
}


@contextmanager
def without_notices() -> Iterator[None]:
    """Without the list of weights that a new head adds, and without bars."""
    usual, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(usual)
        if bars:
            transformers_logging.enable_progress_bar()


def network_for(base: str, task: TrainingTask, labels: Sequence[str], seed: int) -> PreTrainedModel:
    options: dict[str, Any] = {"num_labels": 2} if task == "answer" else {}  # a start and an end
    if labels:
        options = {
            "num_labels": len(labels),
            "id2label": dict(enumerate(labels)),
            "label2id": {label: number for number, label in enumerate(labels)},
            "problem_type": "single_label_classification" if task == "one_label" else "multi_label_classification",
        }
    torch.manual_seed(seed)  # the new head's weights
    with without_notices():
        network: PreTrainedModel = NETWORKS[task].from_pretrained(
            base, ignore_mismatched_sizes=True, dtype=torch.float32, **options
        )
    return network


def longest_of(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    return min(getattr(network.config, "max_position_embeddings", 512), tokenizer.model_max_length)


class HeadAtMask:
    """For two words, have the head computed at one place of every text: with all places, each times the whole
    vocabulary, it is many times slower than the rest of the network. Gives back what has to be called with the places
    of a batch before the network is.
    """

    def __init__(self, network: PreTrainedModel, task: TrainingTask) -> None:
        self.network, self.wanted = network, task == "two_words"
        self.places = torch.empty(0, dtype=torch.long)

    def __enter__(self) -> Callable[[Mapping[str, Tensor]], None]:
        if self.wanted:
            self.hook = self.network.base_model.register_forward_hook(self._cut)

        def place_masks(goal: Mapping[str, Tensor]) -> None:
            if self.wanted:
                self.places = goal["place"]

        return place_masks

    def __exit__(self, *_: object) -> None:
        if self.wanted:
            self.hook.remove()

    def _cut(self, _module: nn.Module, _inputs: Any, output: Any) -> Any:
        states = output.last_hidden_state
        output["last_hidden_state"] = states[torch.arange(len(states)), self.places][:, None]
        return output


def logits_of(network: PreTrainedModel, batch: Batch, task: TrainingTask) -> Tensor:
    """One row for each text: labels; start and end; the right and the wrong word."""
    output = network(**batch.inputs)
    if task == "answer":
        return torch.stack([output.start_logits, output.end_logits], 1)
    if task == "two_words":
        at_mask: Tensor = output.logits[:, 0]
        return at_mask.gather(1, batch.goal["words"])
    logits: Tensor = output.logits
    return logits


def loss_of(logits: Tensor, goal: Mapping[str, Tensor], task: TrainingTask) -> Tensor:
    if task == "several_labels":
        return functional.binary_cross_entropy_with_logits(logits, goal["labels"])
    if task == "answer":
        return functional.cross_entropy(logits.flatten(0, 1), goal["span"].flatten())
    if task == "two_words":
        return functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))
    return functional.cross_entropy(logits, goal["label"])


def read_rows(
    rows: Sequence[Row],
    task: TrainingTask,
    labels: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    longest: int,
) -> list[TrainingRow]:
    """Rows as the network reads them. Answers that were cut away, and words of several tokens, are left out."""
    rows_read = []
    for number, row in enumerate(rows, 1):
        pair = row.get("pair")
        read = tokenizer(
            row["text"],
            pair,
            truncation="only_second" if task == "answer" else True,
            max_length=longest,
            return_offsets_mapping=task == "answer",
        )
        goal = _goal(row, number, task, labels, tokenizer, read)
        if goal is not None:
            wanted = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in read]
            rows_read.append(TrainingRow({name: list(read[name]) for name in wanted}, goal))
    if not rows_read:
        raise BadOption("None of the rows can be trained on: answers are cut away, or words are not single tokens.")
    return rows_read


def _goal(
    row: Row, number: int, task: TrainingTask, labels: Sequence[str], tokenizer: PreTrainedTokenizerBase, read: Any
) -> tuple[float, ...] | None:
    if task == "one_label":
        return (float(_place(row["label"], labels, number)),)
    if task == "several_labels":
        there = {_place(label, labels, number) for label in row["label"]}
        return tuple(float(i in there) for i in range(len(labels)))
    if task == "answer":
        return _span(row["answer"], read)
    mask = tokenizer.mask_token_id
    places = [i for i, token in enumerate(read["input_ids"]) if token == mask]
    words = [tokenizer(" " + row[name], add_special_tokens=False)["input_ids"] for name in ("label", "foil")]
    if len(places) != 1 or any(len(word) != 1 for word in words):
        return None
    return (float(places[0]), float(words[0][0]), float(words[1][0]))


def _place(label: Any, labels: Sequence[str], number: int) -> int:
    if label not in labels:
        raise BadFile(f"Row {number} has the label {label!r}; the labels are {', '.join(labels)}.")
    return list(labels).index(label)


def _span(answer: Sequence[Sequence[int]], read: Any) -> tuple[float, float] | None:
    """The tokens at which the first answer starts and ends; both 0, the first token, where there is none."""
    if not answer:
        return (0.0, 0.0)
    start, end = answer[0]
    inside = [
        token
        for token, ((first, last), part) in enumerate(zip(read["offset_mapping"], read.sequence_ids(), strict=True))
        if part == 1 and first < end and last > start
    ]
    last_seen = max(
        (last for (_, last), part in zip(read["offset_mapping"], read.sequence_ids(), strict=True) if part == 1),
        default=0,
    )
    return (float(inside[0]), float(inside[-1])) if inside and last_seen >= end else None


def batch_of(rows: Sequence[TrainingRow], tokenizer: PreTrainedTokenizerBase, task: TrainingTask) -> Batch:
    longest = max(len(row.inputs["input_ids"]) for row in rows)
    fills = {"input_ids": tokenizer.pad_token_id or 0, "attention_mask": 0, "token_type_ids": 0}
    inputs = {
        name: torch.tensor([row.inputs[name] + [fill] * (longest - len(row.inputs[name])) for row in rows])
        for name, fill in fills.items()
        if name in rows[0].inputs
    }
    goal = torch.tensor([row.goal for row in rows])
    if task == "one_label":
        return Batch(inputs, {"label": goal[:, 0].long()})
    if task == "several_labels":
        return Batch(inputs, {"labels": goal})
    if task == "answer":
        return Batch(inputs, {"span": goal.long()})
    return Batch(inputs, {"place": goal[:, 0].long(), "words": goal[:, 1:].long()})
