"""Training of a classifier: reproducible by its seed, stopped on the dev texts, and resumable after every epoch."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from wherefrom.errors import BadFile
from wherefrom.files import replacing
from wherefrom_studies.sparse.data import LabelledText, StudyDataset, by_length, padded, shuffled
from wherefrom_studies.sparse.models import Architecture, Classifier, ClassifierOutput, build

Item = TypeVar("Item")
Track = Callable[[Sequence[Item], str], Iterable[Item]]  # shows how far a loop has come
BATCH_TOKENS = 8192  # of a batch without training

RATES = {"bilstm": 1e-3, "transformer": 5e-4}  # the paper's 1e-4 and 1e-5 take many times the epochs


@dataclass(frozen=True)
class Recipe:
    """How a classifier is trained. With the data and the architecture it decides the result."""

    rate: float
    epochs: int = 6
    patience: int = 2  # training ends after so many epochs without a better dev score
    batch: int = 32
    decay: float = 1e-5  # the attention's own parameters have none
    seed: int = 0


@dataclass(frozen=True)
class Epoch:
    loss: float
    dev_score: float  # the higher the better: accuracy, or minus an adversary's loss
    dev_loss: float
    seconds: float  # of the processor

    @property
    def rank(self) -> tuple[float, float]:
        return self.dev_score, -self.dev_loss


def silently(items: Sequence[Item], _: str) -> Iterable[Item]:
    """Shows no progress."""
    return items


def optimiser(model: Classifier, rate: float, decay: float) -> torch.optim.Adam:
    own = {id(parameter) for parameter in model.pooling.parameters()}
    others = [parameter for parameter in model.parameters() if id(parameter) not in own]
    groups = [
        {"params": others, "weight_decay": decay},
        {"params": list(model.pooling.parameters()), "weight_decay": 0.0},
    ]
    return torch.optim.Adam(groups, lr=rate, amsgrad=True)


def train(
    dataset: StudyDataset, architecture: Architecture, recipe: Recipe, folder: Path, *, track: Track[Any] = silently
) -> tuple[Classifier, list[Epoch]]:
    """The best classifier by dev score, and its epochs. What `folder` already holds is not done again."""
    model = build(architecture, len(dataset.words), seed=recipe.seed)
    done = load_finished(model, folder)
    if done is not None:
        return model, done
    weight = torch.tensor(dataset.positive_weight)

    def loss_of(rows: Sequence[int], answer: ClassifierOutput) -> Tensor:
        labels = torch.tensor([float(dataset.train[i].label) for i in rows])
        return functional.binary_cross_entropy_with_logits(answer.logit, labels, pos_weight=weight)

    def dev_score() -> tuple[float, float]:
        logits = answers(model, dataset.dev)[0]
        labels = torch.tensor([float(text.label) for text in dataset.dev])
        dev_loss = functional.binary_cross_entropy_with_logits(logits, labels, pos_weight=weight)
        return ((logits > 0) == (labels > 0)).double().mean().item(), dev_loss.item()

    history = fit(
        model,
        optimiser(model, recipe.rate, recipe.decay),
        dataset.train,
        recipe,
        folder,
        loss_of,
        dev_score,
        track=track,
    )
    return model, history


def fit(
    model: Classifier,
    optimise: torch.optim.Optimizer,
    texts: Sequence[LabelledText],
    recipe: Recipe,
    folder: Path,
    loss_of: Callable[[Sequence[int], ClassifierOutput], Tensor],
    dev_score: Callable[[], tuple[float, float]],
    *,
    track: Track[Any],
) -> list[Epoch]:
    """Run the epochs that are missing, leave the best state in the model and in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished_path = folder / "unfinished.safetensors"
    history, best = _resume(model, optimise, unfinished_path) if unfinished_path.is_file() else ([], _copy(model))
    while len(history) < recipe.epochs and not _stalled(history, recipe.patience):
        started, total = time.process_time(), 0.0
        model.train()
        batches = shuffled(texts, size=recipe.batch, seed=recipe.seed, epoch=len(history))
        for rows in track(batches, f"epoch {len(history) + 1} of at most {recipe.epochs}"):
            optimise.zero_grad()
            loss = loss_of(rows, model(padded([texts[i].ids for i in rows])))
            loss.backward()
            optimise.step()
            total += loss.item() * len(rows)
        score, dev_loss = dev_score()
        epoch = Epoch(total / len(texts), score, dev_loss, time.process_time() - started)
        if not history or epoch.rank > max(past.rank for past in history):
            best = _copy(model)
        history.append(epoch)
        state = {f"now.{name}": value for name, value in _copy(model).items()} | {
            f"best.{name}": value for name, value in best.items()
        }
        _save(state | _moments(optimise), unfinished_path, history)
    model.load_state_dict(best)
    model.eval()
    _save(best, folder / "model.safetensors", history)
    unfinished_path.unlink(missing_ok=True)
    return history


def _stalled(history: list[Epoch], patience: int) -> bool:
    best = max(range(len(history)), key=lambda i: history[i].rank, default=0)
    return bool(history) and len(history) - 1 - best >= patience


@torch.no_grad()
def answers(model: Classifier, texts: Sequence[LabelledText]) -> tuple[Tensor, list[Tensor]]:
    """The logit of every text, and its attention over its own places. (text,), [(place,)]"""
    logits, attention = torch.empty(len(texts), dtype=model.decoder.weight.dtype), [torch.empty(0)] * len(texts)
    model.eval()
    for rows in by_length([len(text) for text in texts], tokens=BATCH_TOKENS):
        answer = model(padded([texts[i].ids for i in rows]))
        logits[rows] = answer.logit
        for row, i in enumerate(rows):
            attention[i] = answer.attention[row, : len(texts[i])]
    return logits, attention


def accuracy(model: Classifier, texts: Sequence[LabelledText]) -> float:
    logits, _ = answers(model, texts)
    return ((logits > 0) == torch.tensor([text.label > 0 for text in texts])).double().mean().item()


# Files


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def _moments(optimise: torch.optim.Optimizer) -> dict[str, Tensor]:
    state = optimise.state_dict()["state"]
    return {f"moment.{number}.{name}": value for number, values in state.items() for name, value in values.items()}


def _save(tensors: dict[str, Tensor], path: Path, history: list[Epoch]) -> None:
    """Write a file wholly or not at all, so that it is never damaged when the process is killed."""
    notes = {"history": json.dumps([asdict(epoch) for epoch in history])}
    with replacing(path) as unfinished:
        save_file({name: value.contiguous() for name, value in tensors.items()}, unfinished, metadata=notes)


def _history(path: Path) -> list[Epoch]:
    with safe_open(path, "pt") as file:
        return [Epoch(**epoch) for epoch in json.loads(file.metadata()["history"])]


def load_finished(model: Classifier, folder: Path) -> list[Epoch] | None:
    """Fill the model with what a finished training left in `folder`; None where there is nothing."""
    path = folder / "model.safetensors"
    if not path.is_file():
        return None
    try:
        model.load_state_dict(load_file(path))
        model.eval()
        return _history(path)
    except (SafetensorError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise BadFile(f"{path} is not a classifier of this study: {error}. Delete it to train it again.") from error


def _resume(model: Classifier, optimise: torch.optim.Optimizer, path: Path) -> tuple[list[Epoch], dict[str, Tensor]]:
    try:
        tensors, history = load_file(path), _history(path)
        now = {name.removeprefix("now."): value for name, value in tensors.items() if name.startswith("now.")}
        best = {name.removeprefix("best."): value for name, value in tensors.items() if name.startswith("best.")}
        model.load_state_dict(now)
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("moment."):
                _, number, moment = name.split(".", 2)
                state.setdefault(int(number), {})[moment] = value
        optimise.load_state_dict({"state": state, "param_groups": optimise.state_dict()["param_groups"]})
    except (SafetensorError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise BadFile(
            f"{path} is not a half-trained classifier of this study: {error}. Delete it to start that training again."
        ) from error
    return history, best
