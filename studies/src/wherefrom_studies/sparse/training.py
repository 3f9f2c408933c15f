"""Training of a classifier: reproducible by its seed, stopped on the dev texts, and resumable after every epoch."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from wherefrom.errors import BadFile
from wherefrom.files import replacing
from wherefrom_studies.progress import Watch, unwatched
from wherefrom_studies.sparse.data import LabelledText, StudyDataset, by_length, padded, shuffled
from wherefrom_studies.sparse.models import Architecture, Classifier, ClassifierOutput, build
from wherefrom_studies.training import CHECKPOINT, DevResult, Epoch, Training

BATCH_TOKENS = 8192  # of a batch without training
FINISHED = "model.safetensors"
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


def optimiser(model: Classifier, rate: float, decay: float) -> torch.optim.Adam:
    pooling = {id(parameter) for parameter in model.pooling.parameters()}
    others = [parameter for parameter in model.parameters() if id(parameter) not in pooling]
    groups = [
        {"params": others, "weight_decay": decay},
        {"params": list(model.pooling.parameters()), "weight_decay": 0.0},
    ]
    return torch.optim.Adam(groups, lr=rate, amsgrad=True)


def train(
    dataset: StudyDataset, architecture: Architecture, recipe: Recipe, folder: Path, *, watch: Watch = unwatched
) -> tuple[Classifier, list[Epoch]]:
    """The best classifier by dev score, and its epochs. What `folder` already contains is not done again."""
    model = build(architecture, len(dataset.words), seed=recipe.seed)
    weight = torch.tensor(dataset.positive_weight)

    def loss_of(rows: Sequence[int], output: ClassifierOutput) -> Tensor:
        labels = torch.tensor([float(dataset.train[i].label) for i in rows])
        return functional.binary_cross_entropy_with_logits(output.logit, labels, pos_weight=weight)

    def measure() -> DevResult:
        logits = answers(model, dataset.dev)[0]
        labels = torch.tensor([float(text.label) for text in dataset.dev])
        loss = functional.binary_cross_entropy_with_logits(logits, labels, pos_weight=weight)
        return DevResult(((logits > 0) == (labels > 0)).double().mean().item(), loss.item())

    return model, fit(model, dataset.train, recipe, folder, loss_of, measure, watch=watch)


def fit(
    model: Classifier,
    texts: Sequence[LabelledText],
    recipe: Recipe,
    folder: Path,
    loss_of: Callable[[Sequence[int], ClassifierOutput], Tensor],
    measure: Callable[[], DevResult],
    *,
    watch: Watch,
) -> list[Epoch]:
    """Run the epochs that are missing, and leave the best weights in the model and in `folder`."""
    history = load_finished(model, folder)
    if history is not None:
        return history
    folder.mkdir(parents=True, exist_ok=True)
    training = Training(
        model,
        optimiser(model, recipe.rate, recipe.decay),
        recipe.epochs,
        lambda epoch: shuffled(texts, size=recipe.batch, seed=recipe.seed, epoch=epoch),
        lambda rows: loss_of(rows, model(padded([texts[i].ids for i in rows]))),
        measure=measure,
        patience=recipe.patience,
    )
    with watch(f"steps of training, at most {recipe.epochs} epochs") as report:
        history = training.run(folder / CHECKPOINT, report)
    notes = {"history": json.dumps([asdict(epoch) for epoch in history])}
    with replacing(folder / FINISHED) as unfinished:
        weights = {name: value.contiguous() for name, value in model.state_dict().items()}
        save_file(weights, unfinished, metadata=notes)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return history


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


def load_finished(model: Classifier, folder: Path) -> list[Epoch] | None:
    """Fill the model with what a finished training left in `folder`; None where there is nothing."""
    path = folder / FINISHED
    if not path.is_file():
        return None
    try:
        model.load_state_dict(load_file(path))
        model.eval()
        with safe_open(path, "pt") as file:
            return [Epoch(**epoch) for epoch in json.loads(file.metadata()["history"])]
    except (SafetensorError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise BadFile(f"{path} is not a classifier of this study: {error}. Delete it to train it again.") from error
