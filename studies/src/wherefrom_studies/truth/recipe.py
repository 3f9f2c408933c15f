"""The recipe for a user's own classifier: plant a reason in a copy of it, and see which methods find it there."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wherefrom import load
from wherefrom.errors import BadFile, BadOption, WrongModel
from wherefrom.files import read_json_lines
from wherefrom.typing import Numbers
from wherefrom_studies.bench import StudyBase, make_folder
from wherefrom_studies.journal import read_records
from wherefrom_studies.progress import Watch, unwatched
from wherefrom_studies.truth.measuring import METHODS, REFERENCES, chosen_texts, measure_planted
from wherefrom_studies.truth.planted_models import (
    RECIPE,
    ProofOfUse,
    confident_texts,
    known_decisions,
    plant_copy,
)
from wherefrom_studies.truth.planting import LabelledText, Plant, PlantKind
from wherefrom_studies.truth.results import NAMES, column, results_of

LEAST_WORDS, HELD_OUT = 4, 5  # of a text; every fifth text is not trained on
LEAST_TESTS = 20  # texts, for a proof


@dataclass(frozen=True)
class FoundPlant:
    """How well a method finds the plant, mean over texts."""

    method: str
    found_all: float  # share of texts where all planted tokens are the strongest
    auprc: float
    passes: float
    texts: int


@dataclass(frozen=True)
class PlantReport:
    """Whether the copy uses its plant, and which methods find it, the best first."""

    folder: Path  # of the copy
    proof: ProofOfUse
    methods: list[FoundPlant]


def plant_and_grade(
    source: str,
    data: Path,
    out: Path,
    *,
    kind: PlantKind = "pair",
    seed: int = 0,
    rows: int = 7000,
    texts: int = 50,
    many_passes: int = 10,
    watch: Watch = unwatched,
) -> PlantReport:
    """Plant a reason in a copy of a classifier, prove that the copy uses it, and grade methods by whether they find it.
    All that is made is kept in a folder; a call that was stopped resumes there.

    source: a folder or hub id, or "embedded".
    data: texts of the kind that the classifier is for: a file with one a line, or JSON lines with `text`.
    rows: that the copy is trained on, at most.
    texts: that methods are graded on.
    many_passes: of these, on how many the slow methods are graded.
    """
    if min(rows, texts) < 1:
        raise BadOption("At least one row to train on and one text to explain are needed.")
    make_folder(out)
    source = StudyBase.read("M3").folder if source == "embedded" else source
    labels = load(source).labels
    if len(labels) < 2:
        raise WrongModel("A reason is planted in a classifier with at least two labels.")
    found = read_texts(data)
    said = known_decisions(source, found, out / "decisions")
    held_out = [_held_out(text) for text in found]
    training = [LabelledText(t, d.label) for t, d, test in zip(found, said, held_out, strict=True) if not test][:rows]
    plant = Plant(kind, (labels[0], labels[1]))
    tests = confident_texts(
        [t for t, test in zip(found, held_out, strict=True) if test],
        [d for d, test in zip(said, held_out, strict=True) if test],
    )
    against = sum(any(plant.can_favour(label) and label != text.label for label in plant.labels) for text in tests)
    if not training or against < LEAST_TESTS:
        raise BadOption(
            f"{data} has {against} texts to test with whose label the model is sure of and the plant contradicts;"
            f" at least {LEAST_TESTS} are needed. Give more texts, of both labels {' and '.join(plant.labels)}."
        )
    with watch("steps of training the copy") as moved:
        copy = plant_copy(source, plant, training, tests, seed, out, name=f"planted-{kind}", recipe=RECIPE,
                          on_progress=moved)  # fmt: skip
    if not copy.proof.holds:
        return PlantReport(copy.folder, copy.proof, [])
    journal = out / f"{copy.folder.parent.name}.jsonl"
    measure_planted(copy, kind, chosen_texts(copy.texts, texts), many_passes, journal, watch)
    values = results_of([], read_records(journal)).values[kind][:texts]
    rows_of = [_found(values, method) for method in (*METHODS, *REFERENCES[:1])]
    return PlantReport(copy.folder, copy.proof, sorted((r for r in rows_of if r), key=lambda row: -row.auprc))


def _found(values: Numbers, method: str) -> FoundPlant | None:
    place = NAMES.index(method)
    numbers = {name: column(values, name)[:, place] for name in ("found_all", "auprc", "passes")}
    known = np.isfinite(numbers["auprc"])
    if not known.any():
        return None
    means = {name: float(value[known].mean()) for name, value in numbers.items()}
    return FoundPlant(method, means["found_all"], means["auprc"], means["passes"], int(known.sum()))


def read_texts(data: Path) -> list[str]:
    """The texts of a file, each once, with at least a few words."""
    if data.suffix in (".jsonl", ".json"):
        texts = []
        for where, row in read_json_lines(data):
            if not isinstance(row.get("text"), str):
                raise BadFile(f"{where}: a line must have a text.")
            texts.append(row["text"])
    else:
        try:
            texts = data.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(f"{data} cannot be read as lines of text: {error}.") from error
    found = [text for text in dict.fromkeys(texts) if len(text.split()) >= LEAST_WORDS]
    if not found:
        raise BadFile(f"{data} has no text of at least {LEAST_WORDS} words.")
    return found


def _held_out(text: str) -> bool:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()[0] % HELD_OUT == 0
