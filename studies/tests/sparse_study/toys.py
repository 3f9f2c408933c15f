"""A small made-up dataset and small classifiers: quick to train, with texts of several lengths."""

from __future__ import annotations

import json
import random
from pathlib import Path

import torch

from wherefrom_studies.sparse.data import END, START, LabelledText
from wherefrom_studies.sparse.models import Alignment, Architecture, Classifier, EncoderKind, build

GOOD, BAD = ["good", "fine", "lovely"], ["bad", "dull", "awful"]
FILLERS = ["the", "film", "was", "a", "plot", "with", "some", "actors"]
ENCODERS: list[tuple[EncoderKind, Alignment]] = [("bilstm", "additive"), ("transformer", "dot")]


def write_dataset(folder: Path, name: str = "sst", *, texts: int = 48) -> None:
    chance = random.Random(1)
    for split in ("train", "dev", "test"):
        lines = []
        for number in range(texts):
            label = number % 2
            words = [*chance.choices(FILLERS, k=6 + number % 5), chance.choice(GOOD if label else BAD)]
            chance.shuffle(words)
            lines.append(json.dumps({"text": " ".join(words), "label": label}))
        (folder / f"jw_{name}_{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_texts(*lengths: int, vocabulary: int = 20) -> list[LabelledText]:
    chance = random.Random(2)
    return [LabelledText((START, *(chance.randrange(4, vocabulary) for _ in range(n)), END), n % 2) for n in lengths]


def make_classifier(
    encoder: EncoderKind, alignment: Alignment, projection: str = "softmax", *, inside: bool = True
) -> Classifier:
    """Lively weights in double precision, so that nothing is small by chance."""
    model = build(Architecture(encoder, projection, alignment, inside=inside, size=6), 20, seed=4).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(name))) * 0.8)
    return model
