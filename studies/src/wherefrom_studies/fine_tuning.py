"""Fine-tuning of a base model for one task: reproducible by its seed, cached, and resumable after a kill at any point.

The folder of a trained model is named after a digest of everything that decides its weights: the base, the rows, the
recipe and the seed. What is there is not trained again. Every step draws its dropout from the step's number, so that a
training that was killed ends with the same weights as one that was not.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import torch
from filelock import FileLock
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from wherefrom.errors import BadFile, BadOption, UnknownName, WrongModel
from wherefrom.files import read_json, write_atomically
from wherefrom.typing import OnProgress
from wherefrom_studies.sparse.projected_attention import SOFTMAX, attention_by
from wherefrom_studies.sparse.projections import Projection
from wherefrom_studies.training import CHECKPOINT, Training

VERSION = 1  # part of every digest: raise it when what is trained changes
TrainingTask = Literal["one_label", "several_labels", "answer", "two_words"]
TASKS: tuple[TrainingTask, ...] = get_args(TrainingTask)
Row = Mapping[str, Any]  # text, pair, label, foil, answer: as the studies' data have them
RECORD = "training.json"
POOL = 50  # batches are cut from pools of so many batches that are sorted by length
LONGEST_ANSWER = 30  # tokens


@dataclass(frozen=True)
class FineTuning:
    """How a model is fine-tuned: AdamW, a linear warm-up and a linear decay to zero, gradients clipped to length 1."""

    epochs: int = 2
    rate: float = 6e-5
    batch: int = 32
    longest: int = 128  # tokens; a text is cut there while the model is trained, and never afterwards
    warm_up: float = 0.06  # of all steps
    decay: float = 0.01  # of the weights that are matrices

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 1 or self.longest < 8 or self.rate <= 0:
            raise BadOption("Fine-tuning needs at least one epoch, one text a batch, 8 tokens and a rate above 0.")


class TrainedModel(NamedTuple):
    """A folder that `wherefrom.load` takes, and what is known about the model in it."""

    folder: Path
    scores: dict[str, float]  # on the rows for validation: accuracy, macro_f1, exact_match
    rows: int  # that it was trained on
    seconds: float  # of the processor, without what was lost when it was killed


class _Batch(NamedTuple):
    inputs: dict[str, Tensor]
    goal: dict[str, Tensor]


class _TrainingRow(NamedTuple):
    """A row as the network reads it."""

    inputs: dict[str, list[int]]
    goal: tuple[float, ...]  # the class; a number for each label; start and end; the place and both words


def fine_tune(
    base: str | os.PathLike[str],
    rows: Sequence[Row],
    task: TrainingTask,
    labels: Sequence[str],
    seed: int,
    out: str | os.PathLike[str],
    *,
    name: str = "model",
    recipe: FineTuning | None = None,
    validation: Sequence[Row] = (),
    attention: str = SOFTMAX,
    on_progress: OnProgress | None = None,
) -> TrainedModel:
    """Train a base model for a task, or give back the one that was trained before.

    Args:
        base: a folder or a hub id.
        rows: with `text` (and `pair`), and by task: `label`, a name (one_label) or a list of names (several_labels);
            `answer`, spans of characters [start, end) of the pair, none where it has no answer (answer); a text with
            the tokenizer's mask in it, `label` the right word and `foil` the wrong one (two_words).
        task: one of one_label, several_labels, answer, two_words.
        labels: the names of all labels, in the order of the model's outputs; empty for the last two tasks.
        seed: of the new head, the order of the texts and the dropout.
        out: the folder in which trained models are kept, each in its own.
        name: the beginning of the name of its folder.
        recipe: how it is trained.
        validation: rows that the finished model is measured on.
        attention: the projection that makes attention of its scores while the model is trained and measured: softmax,
            sparsemax, entmax:1.5, ... The folder holds the weights alone: whoever asks the model later has to project
            its attention again (`attention_by`).
        on_progress: called with (steps done, all steps).

    Example:
        >>> rows = [{"text": "a fine film", "label": "good"}, {"text": "a dull film", "label": "bad"}]
        >>> fine_tune("some/base", rows, "one_label", ["bad", "good"], 0, "models")  # doctest: +SKIP
    """
    if task not in TASKS:
        raise UnknownName.among("task to train for", task, TASKS)
    if not rows:
        raise BadOption("There is nothing to train on: give at least one row.")
    if task in ("one_label", "several_labels") and len(labels) < 2:
        raise BadOption("A classifier needs the names of at least two labels.")
    recipe = recipe or FineTuning()
    attention = str(Projection.parse(attention))  # raises where there is none of that name, and spells it one way
    facts = {
        "version": VERSION,
        "base": fingerprint(os.fspath(base)),
        "data": _digest([_plain(row) for row in rows]),
        "recipe": asdict(recipe),
        "task": task,
        "labels": list(labels),
        "seed": seed,
    } | ({} if attention == SOFTMAX else {"attention": attention})  # softmax is not named: digests stay what they were
    folder = Path(out) / f"{name}-{_digest(facts)[:12]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadFile(f"The folder {folder} could not be made: {error.strerror or error}.") from error
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        return _trained(
            os.fspath(base), rows, task, labels, seed, folder, recipe, validation, attention, on_progress, facts
        )


def _trained(
    base: str,
    rows: Sequence[Row],
    task: TrainingTask,
    labels: Sequence[str],
    seed: int,
    folder: Path,
    recipe: FineTuning,
    validation: Sequence[Row],
    attention: str,
    on_progress: OnProgress | None,
    made_of: dict[str, Any],
) -> TrainedModel:
    record = folder / RECORD
    known = read_json(record) if record.is_file() else None
    if known is None:
        tokenizer = AutoTokenizer.from_pretrained(base)
        network = _network(base, task, labels, seed)
        kept = _read_rows(rows, task, labels, tokenizer, recipe.longest)
        with attention_by(network, attention):
            seconds = _train(network, tokenizer, kept, task, seed, recipe, folder / CHECKPOINT, on_progress)
        with without_notices():
            _save(network, AutoTokenizer.from_pretrained(base), folder / "model")
        known = {**made_of, "rows": len(kept), "seconds": round(seconds, 1), "scores": {}}
        _keep(record, known)
        (folder / CHECKPOINT).unlink(missing_ok=True)
    measured_on = _digest([_plain(row) for row in validation]) if validation else ""
    if validation and measured_on not in known["scores"]:
        measures = measure(folder / "model", validation, task, labels, attention=attention)
        known["scores"][measured_on] = measures
        _keep(record, known)
    return TrainedModel(folder / "model", known["scores"].get(measured_on, {}), known["rows"], known["seconds"])


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
        network: PreTrainedModel = _NETWORKS[task].from_pretrained(folder).eval()
    return network, tokenizer, min(longest, _longest(network, tokenizer))


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
    kept = _read_rows(rows, task, labels, tokenizer, longest)
    order = sorted(range(len(kept)), key=lambda i: len(kept[i].inputs["input_ids"]))
    outputs: list[Tensor] = [torch.empty(0)] * len(kept)
    with torch.inference_mode(), attention_by(network, attention), _HeadAtMask(network, task) as place_masks:
        for start in range(0, len(order), 32):
            cut = order[start : start + 32]
            batch = _batch([kept[i] for i in cut], tokenizer, task)
            place_masks(batch.goal)
            for i, row in zip(cut, _logits(network, batch, task), strict=True):
                outputs[i] = row
    return torch.stack(outputs), torch.tensor([row.goal for row in kept])


def _macro_f1(predicted: Tensor, gold: Tensor) -> float:
    """The mean of every label's F1; a label that is neither there nor predicted has none, and is left out."""
    hits, all_predicted, all_gold = (predicted * gold).sum(0), predicted.sum(0), gold.sum(0)
    there = (all_predicted + all_gold) > 0
    return float((2 * hits[there] / (all_predicted + all_gold)[there]).double().mean())


# What decides the result


def fingerprint(base: str) -> str:
    """Of a folder the content of its files, of a hub id the id."""
    if not os.path.isdir(base):
        return base
    if not Path(base, "config.json").is_file():
        raise WrongModel(f"The folder {base} holds no model: it has no config.json.")
    digest = hashlib.sha256()
    wanted = ("config.json", "tokenizer.json", "vocab.txt", "spm.model", "model.safetensors", "pytorch_model.bin")
    for path in sorted(Path(base).iterdir()):
        if path.name in wanted or path.suffix == ".safetensors":
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def _plain(row: Row) -> dict[str, Any]:
    return {name: row.get(name) for name in ("text", "pair", "label", "foil", "answer")}


def _keep(path: Path, content: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps(content, indent=1), "record of a training", durable=True)


# The network

_NETWORKS: dict[TrainingTask, Any] = {
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


def _network(base: str, task: TrainingTask, labels: Sequence[str], seed: int) -> PreTrainedModel:
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
        network: PreTrainedModel = _NETWORKS[task].from_pretrained(
            base, ignore_mismatched_sizes=True, dtype=torch.float32, **options
        )
    return network


def _save(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """The folder is whole or not there."""
    unfinished = folder.with_name(f".{folder.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    network.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    unfinished.replace(folder)


def _longest(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    return min(getattr(network.config, "max_position_embeddings", 512), tokenizer.model_max_length)


class _HeadAtMask:
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


def _logits(network: PreTrainedModel, batch: _Batch, task: TrainingTask) -> Tensor:
    """One row for each text: labels; start and end; the right and the wrong word."""
    output = network(**batch.inputs)
    if task == "answer":
        return torch.stack([output.start_logits, output.end_logits], 1)
    if task == "two_words":
        at_mask: Tensor = output.logits[:, 0]
        return at_mask.gather(1, batch.goal["words"])
    logits: Tensor = output.logits
    return logits


def _loss(logits: Tensor, goal: Mapping[str, Tensor], task: TrainingTask) -> Tensor:
    if task == "several_labels":
        return functional.binary_cross_entropy_with_logits(logits, goal["labels"])
    if task == "answer":
        return functional.cross_entropy(logits.flatten(0, 1), goal["span"].flatten())
    if task == "two_words":
        return functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))
    return functional.cross_entropy(logits, goal["label"])


# Rows


def _read_rows(
    rows: Sequence[Row],
    task: TrainingTask,
    labels: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    longest: int,
) -> list[_TrainingRow]:
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
            rows_read.append(_TrainingRow({name: list(read[name]) for name in wanted}, goal))
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


def _batch(rows: Sequence[_TrainingRow], tokenizer: PreTrainedTokenizerBase, task: TrainingTask) -> _Batch:
    longest = max(len(row.inputs["input_ids"]) for row in rows)
    fills = {"input_ids": tokenizer.pad_token_id or 0, "attention_mask": 0, "token_type_ids": 0}
    inputs = {
        name: torch.tensor([row.inputs[name] + [fill] * (longest - len(row.inputs[name])) for row in rows])
        for name, fill in fills.items()
        if name in rows[0].inputs
    }
    goal = torch.tensor([row.goal for row in rows])
    if task == "one_label":
        return _Batch(inputs, {"label": goal[:, 0].long()})
    if task == "several_labels":
        return _Batch(inputs, {"labels": goal})
    if task == "answer":
        return _Batch(inputs, {"span": goal.long()})
    return _Batch(inputs, {"place": goal[:, 0].long(), "words": goal[:, 1:].long()})


def _cuts(rows: Sequence[_TrainingRow], size: int, seed: int, epoch: int) -> list[list[int]]:
    """The batches of an epoch: shuffled, sorted by length within pools so that there is little padding, cut, and the
    cuts shuffled.
    """
    chance = random.Random(f"{seed} {epoch}")
    order = list(range(len(rows)))
    chance.shuffle(order)
    cuts = []
    for start in range(0, len(order), size * POOL):
        pool = sorted(order[start : start + size * POOL], key=lambda i: len(rows[i].inputs["input_ids"]))
        cuts += [pool[i : i + size] for i in range(0, len(pool), size)]
    chance.shuffle(cuts)
    return cuts


# Training


def _train(
    network: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[_TrainingRow],
    task: TrainingTask,
    seed: int,
    recipe: FineTuning,
    checkpoint: Path,
    on_progress: OnProgress | None,
) -> float:
    """Train to the end, from the checkpoint if there is one; returns the seconds of the processor that it took."""
    matrices = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim <= 1]
    optimiser = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": recipe.decay}, {"params": others, "weight_decay": 0.0}], lr=recipe.rate
    )

    def before_step(step: int, steps: int) -> None:
        # Every step has a seed, so that the dropout does not depend on where a training was stopped.
        torch.manual_seed(int.from_bytes(hashlib.sha256(f"{seed} {step}".encode()).digest()[:7]))
        warm_up = min(1.0, (step + 1) / max(1.0, recipe.warm_up * steps))
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate * warm_up * (1 - step / steps)

    with _HeadAtMask(network, task) as place_masks:

        def loss(cut: Sequence[int]) -> Tensor:
            batch = _batch([rows[i] for i in cut], tokenizer, task)
            place_masks(batch.goal)
            return _loss(_logits(network, batch, task), batch.goal, task)

        training = Training(
            network,
            optimiser,
            recipe.epochs,
            lambda epoch: _cuts(rows, recipe.batch, seed, epoch),
            loss,
            before_step,
            clip=1.0,
        )
        return sum(epoch.seconds for epoch in training.run(checkpoint, on_progress))


# Answers


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
