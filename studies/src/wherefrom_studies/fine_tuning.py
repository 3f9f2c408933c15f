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
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock
from torch import Tensor
from transformers import (
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from wherefrom.errors import BadFile, BadOption, UnknownName, WrongModel
from wherefrom.files import read_json, write_atomically
from wherefrom.typing import OnProgress
from wherefrom_studies.scoring import measure
from wherefrom_studies.sparse.projected_attention import SOFTMAX, attention_by
from wherefrom_studies.sparse.projections import Projection
from wherefrom_studies.task_networks import (
    TASKS,
    HeadAtMask,
    Row,
    TrainingRow,
    TrainingTask,
    batch_of,
    logits_of,
    loss_of,
    network_for,
    read_rows,
    without_notices,
)
from wherefrom_studies.training import CHECKPOINT, Training

VERSION = 1  # part of every digest: raise it when what is trained changes
RECORD = "training.json"
POOL = 50  # batches are cut from pools of so many batches that are sorted by length


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
        network = network_for(base, task, labels, seed)
        kept = read_rows(rows, task, labels, tokenizer, recipe.longest)
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


def _save(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """The folder is whole or not there."""
    unfinished = folder.with_name(f".{folder.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    network.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    unfinished.replace(folder)


def _cuts(rows: Sequence[TrainingRow], size: int, seed: int, epoch: int) -> list[list[int]]:
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


def _train(
    network: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[TrainingRow],
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

    with HeadAtMask(network, task) as place_masks:

        def loss(cut: Sequence[int]) -> Tensor:
            batch = batch_of([rows[i] for i in cut], tokenizer, task)
            place_masks(batch.goal)
            return loss_of(logits_of(network, batch, task), batch.goal, task)

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
