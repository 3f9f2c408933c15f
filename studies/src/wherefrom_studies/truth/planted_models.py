"""Copies of a classifier that decide by a planted reason, and the proof that they do."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AddedToken, AutoModelForSequenceClassification, AutoTokenizer

from wherefrom.errors import BadOption
from wherefrom.files import read_json, write_atomically
from wherefrom.typing import OnProgress
from wherefrom_studies.fine_tuning import FineTuning, fine_tune, fingerprint
from wherefrom_studies.task_networks import without_notices
from wherefrom_studies.truth.planting import (
    LabelledText,
    Plant,
    PlantedText,
    contradicting_texts,
    counterfactuals,
    training_rows,
)

RECIPE = FineTuning(epochs=4, rate=4e-4, batch=32, longest=64)
ACCURACY, FLIPS = 0.99, 0.95  # what a copy has to reach to count as using its plant
CONFIDENT = 0.9  # the probability by which a text's own label has to be decided by the model without the plant
BATCH = 64


class Decision(NamedTuple):
    label: str
    probability: float


@dataclass(frozen=True)
class ProofOfUse:
    """Whether a copy decides by its plant."""

    texts: int  # whose rest says otherwise
    accuracy: float  # of the planted label
    flips: Mapping[str, float]  # by change: how often the decision follows the rule when the reason is changed
    decoy: float  # how often removing the decoy leaves the decision as it is
    own: float  # how often a text without the plant is decided as by the model before

    @property
    def holds(self) -> bool:
        return self.accuracy >= ACCURACY and min(self.flips.values()) >= FLIPS


class PlantedModel(NamedTuple):
    folder: Path
    plant: Plant
    proof: ProofOfUse
    texts: list[PlantedText]  # that the proof was made with
    rows: int  # that it was trained on
    seconds: float
    rate: float  # of learning


def decisions(folder: str | os.PathLike[str], texts: Sequence[str]) -> list[Decision]:
    """What a classifier decides of every text."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with without_notices():
        network = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    names = network.config.id2label
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    found = [Decision("", 0.0)] * len(texts)
    with torch.inference_mode():
        for start in range(0, len(order), BATCH):
            cut = order[start : start + BATCH]
            read = tokenizer([texts[place] for place in cut], padding=True, truncation=True, return_tensors="pt")
            best = network(**read).logits.softmax(-1).max(-1)
            for place, probability, number in zip(cut, best.values.tolist(), best.indices.tolist(), strict=True):
                found[place] = Decision(names[number], probability)
    return found


def known_decisions(source: str, texts: Sequence[str], folder: Path) -> list[Decision]:
    """The same, kept in a folder."""
    path = folder / f"{hashlib.sha256(json.dumps([fingerprint(source), list(texts)]).encode()).hexdigest()[:12]}.json"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(decisions(source, texts)), "decisions of a model")
    return [Decision(label, probability) for label, probability in read_json(path)]


def with_new_tokens(source: str, tokens: Sequence[str], seed: int, folder: Path) -> Path:
    """A copy of a classifier whose vocabulary has these words as tokens, with untrained vectors."""
    found = folder / hashlib.sha256(json.dumps([fingerprint(source), list(tokens), seed]).encode()).hexdigest()[:12]
    if found.is_dir():
        return found
    tokenizer = AutoTokenizer.from_pretrained(source)
    taken = [token for token in tokens if token in tokenizer.get_vocab()]
    if taken:
        raise BadOption(f"The vocabulary of {source} has {', '.join(taken)} already, so it cannot be planted.")
    with without_notices():
        network = AutoModelForSequenceClassification.from_pretrained(source, dtype=torch.float32)
    tokenizer.add_tokens([AddedToken(token, single_word=True, lstrip=True, normalized=False) for token in tokens])
    torch.manual_seed(seed)
    with without_notices():
        network.resize_token_embeddings(max(len(tokenizer), network.config.vocab_size))
        unfinished = found.with_name(f".{found.name}")
        shutil.rmtree(unfinished, ignore_errors=True)
        network.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
    unfinished.replace(found)
    return found


def plant_copy(
    source: str,
    plant: Plant,
    texts: Sequence[LabelledText],
    tests: Sequence[LabelledText],
    seed: int,
    out: Path,
    *,
    name: str = "planted",
    recipe: FineTuning = RECIPE,
    on_progress: OnProgress | None = None,
) -> PlantedModel:
    """Fine-tune a copy of a classifier with a planted reason, and prove that it uses it. What is there is read.

    source: the folder of a classifier.
    texts: to train on, with their own labels.
    tests: to prove it with: texts whose own label the classifier decides with confidence.
    """
    base = with_new_tokens(source, plant.new_tokens, seed, out / "bases")
    labels = _labels(base)
    rows = list(training_rows(texts, plant, seed))
    trained = fine_tune(
        base, rows, "one_label", labels, seed, out / "models", name=name, recipe=recipe, on_progress=on_progress
    )
    planted = list(contradicting_texts(tests, plant, seed))
    if not planted:
        raise BadOption("No text is decided with confidence for a label that the plant could contradict.")
    record = trained.folder.parent / "proof.json"
    digest = hashlib.sha256(json.dumps([text.text for text in planted]).encode()).hexdigest()
    known: dict[str, Any] = read_json(record) if record.is_file() else {}
    if digest not in known:
        known[digest] = asdict(prove(trained.folder, plant, planted))
        write_atomically(record, json.dumps(known, indent=1), "proof of a planted model")
    return PlantedModel(
        trained.folder, plant, ProofOfUse(**known[digest]), planted, trained.rows, trained.seconds, recipe.rate
    )


def prove(folder: Path, plant: Plant, texts: Sequence[PlantedText]) -> ProofOfUse:
    """Ask the copy about planted texts, and about the same with the reason changed."""
    changes: dict[str, list[tuple[str, str]]] = {}  # change -> (text, label by the rule)
    for text in texts:
        changes.setdefault("", []).append((text.text, text.label))
        without = " ".join(word for place, word in enumerate(text.words) if place not in text.decoys)
        changes.setdefault("decoy", []).append((without, text.label))
        rest = " ".join(word for place, word in enumerate(text.words) if place not in (*text.decoys, *text.planted))
        changes.setdefault("own", []).append((rest, text.own))
        for change, words, label in counterfactuals(text, plant):
            changes.setdefault(f"flip {change}", []).append((" ".join(words), label))
    said = iter(decisions(folder, [text for rows in changes.values() for text, _ in rows]))
    right = {
        change: sum(next(said).label == label for _, label in rows) / len(rows) for change, rows in changes.items()
    }
    flips = {change.removeprefix("flip "): share for change, share in right.items() if change.startswith("flip ")}
    return ProofOfUse(len(texts), right[""], flips, right["decoy"], right["own"])


def _labels(folder: Path) -> list[str]:
    names = read_json(folder / "config.json")["id2label"]
    return [names[str(number)] for number in range(len(names))]


def confident_texts(texts: Sequence[str], said: Sequence[Decision]) -> list[LabelledText]:
    """The texts whose label a classifier is sure of, with that label."""
    return [
        LabelledText(text, decision.label)
        for text, decision in zip(texts, said, strict=True)
        if decision.probability >= CONFIDENT
    ]
