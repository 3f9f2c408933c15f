"""Adversarial attention: weights as different from a classifier's own as can be, for the same answers (Meister et al.,
App. C.1).

    loss = TVD(y_adversary, y_base) - weight * JSD(alpha_adversary, alpha_base)

- frozen: encoder and decoder stay the base's; only the attention is learned, from new random values (at the base's own
  values the divergence is at its minimum, where its gradient is zero).
- unfrozen: a whole new classifier learns to answer as the base does while it looks elsewhere.

The Jensen-Shannon divergence is used because Kullback-Leibler's is infinite wherever a sparse base has a zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from wherefrom_studies.progress import Watch, unwatched
from wherefrom_studies.sparse.data import LabelledText, StudyDataset
from wherefrom_studies.sparse.models import Classifier, ClassifierOutput, build
from wherefrom_studies.sparse.training import Recipe, answers, fit
from wherefrom_studies.training import DevResult, Epoch

AdversaryMode = Literal["frozen", "unfrozen"]
LEAST = 1e-12  # keeps logarithms finite where a sparse projection gives zero


def divergence(a: Tensor, b: Tensor) -> Tensor:
    """Jensen-Shannon divergence in nats: 0 where equal, ln 2 where nothing is shared. (..., place) -> (...)"""
    middle = ((a + b) / 2).clamp(min=LEAST).log()
    return 0.5 * (a * (a.clamp(min=LEAST).log() - middle) + b * (b.clamp(min=LEAST).log() - middle)).sum(-1)


def distance(logit: Tensor, other: Tensor) -> Tensor:
    """Total variation distance of two yes-or-no answers. (row,)"""
    return (logit.sigmoid() - other.sigmoid()).abs()


def train_adversary(
    dataset: StudyDataset,
    base: Classifier,
    recipe: Recipe,
    folder: Path,
    *,
    mode: AdversaryMode,
    weight: float = 1.0,
    watch: Watch = unwatched,
) -> tuple[Classifier, list[Epoch]]:
    """The adversary with the lowest loss on dev, and its epochs (whose dev score is minus that loss)."""
    # Another seed than the base's: from the same start it would begin where the base began.
    model = build(base.architecture, len(dataset.words), seed=recipe.seed + 1_000)
    if mode == "frozen":
        for part, other in (
            (model.embedding, base.embedding),
            (model.encoder, base.encoder),
            (model.decoder, base.decoder),
        ):
            part.load_state_dict(other.state_dict())
            part.requires_grad_(False)

    @cache
    def base_outputs() -> tuple[tuple[Tensor, list[Tensor]], tuple[Tensor, list[Tensor]]]:
        return answers(base, dataset.train), answers(base, dataset.dev)  # not needed where the adversary is there

    def loss_of(rows: Sequence[int], output: ClassifierOutput) -> Tensor:
        logits, attention = base_outputs()[0]
        attended = pad_sequence([attention[i] for i in rows], batch_first=True)
        return (distance(output.logit, logits[rows]) - weight * divergence(output.attention, attended)).mean()

    def measure() -> DevResult:
        far, apart = compare(answers(model, dataset.dev), base_outputs()[1])
        loss = (far - weight * apart).mean().item()
        return DevResult(-loss, loss)

    return model, fit(model, dataset.train, recipe, folder, loss_of, measure, watch=watch)


def compare(first: tuple[Tensor, list[Tensor]], second: tuple[Tensor, list[Tensor]]) -> tuple[Tensor, Tensor]:
    """Distance of the answers and divergence of the attention of two classifiers, text by text. (text,), (text,)"""
    apart = torch.stack([divergence(a, b) for a, b in zip(first[1], second[1], strict=True)])
    return distance(first[0], second[0]), apart


def measure_adversary(model: Classifier, base: Classifier, texts: Sequence[LabelledText]) -> dict[str, float]:
    """Mean divergence (nats, at most ln 2), mean distance of the answers, and the accuracy of both."""
    outputs, adversary_outputs = answers(base, texts), answers(model, texts)
    far, apart = compare(adversary_outputs, outputs)
    labels = torch.tensor([text.label > 0 for text in texts])

    def accuracy(logits: Tensor) -> float:
        return ((logits > 0) == labels).double().mean().item()

    return {
        "divergence": apart.double().mean().item(),
        "distance": far.double().mean().item(),
        "accuracy": accuracy(adversary_outputs[0]),
        "base_accuracy": accuracy(outputs[0]),
    }
