"""The study's texts: read, filtered by length, turned into ids, and cut into batches of similar length."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wherefrom.errors import BadFile, UnknownName
from wherefrom_studies.data import read_rows

PAD, UNKNOWN, START, END = range(4)
SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class LengthFilter:
    """Which texts of a dataset are used: those strictly longer than `longer_than` tokens and strictly shorter than
    `shorter_than`.
    """

    documents: int  # a word is known if so many training texts have it
    longer_than: int
    shorter_than: int | None = None  # without one: the longest text of the split


LENGTH_FILTERS = {"sst": LengthFilter(1, 5), "20news": LengthFilter(2, 6, 500), "imdb": LengthFilter(10, 6)}


@dataclass(frozen=True)
class LabelledText:
    ids: tuple[int, ...]  # START, the words, END
    label: int

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class StudyDataset:
    name: str
    words: tuple[str, ...]  # by id
    train: tuple[LabelledText, ...]
    dev: tuple[LabelledText, ...]
    test: tuple[LabelledText, ...]
    fingerprint: str  # of the files: results of other data are never taken for these

    @property
    def positive_weight(self) -> float:
        """How much more a positive example weighs, so that both classes weigh the same."""
        return len(self.train) / sum(text.label for text in self.train) - 1


def read_dataset(folder: Path, name: str) -> StudyDataset:
    if name not in LENGTH_FILTERS:
        raise UnknownName.among("dataset", name, LENGTH_FILTERS)
    paths = {split: folder / f"jw_{name}_{split}.jsonl" for split in SPLITS}
    missing = [path.name for path in paths.values() if not path.is_file()]
    if missing:
        raise BadFile(
            f"The folder {folder} lacks {', '.join(missing)}. Each line of such"
            f" a file is {{'text': ..., 'label': 0 or 1}}."
        )
    source, digest = LENGTH_FILTERS[name], hashlib.sha256()
    rows = {}
    for split, path in paths.items():
        digest.update(path.read_bytes())
        rows[split] = _filtered(labelled_texts(path, labels=2), source)
        if len({label for _, label in rows[split]}) < 2:
            raise BadFile(
                f"{path} has {len(rows[split])} texts of more than {source.longer_than} words left, not of both labels:"
                " nothing can be learned or measured on it."
            )
    count = Counter(word for words, _ in rows["train"] for word in set(words))
    known = (
        "<pad>",
        "<unknown>",
        "<start>",
        "<end>",
        *sorted(word for word, texts in count.items() if texts >= source.documents),
    )
    number = {word: i for i, word in enumerate(known)}

    def texts(split: str) -> tuple[LabelledText, ...]:
        return tuple(
            LabelledText((START, *(number.get(word, UNKNOWN) for word in words), END), label)
            for words, label in rows[split]
        )

    return StudyDataset(name, known, texts("train"), texts("dev"), texts("test"), digest.hexdigest())


def labelled_texts(
    path: Path, *, labels: int | None = None, names: Sequence[str] = (), hint: str = ""
) -> list[tuple[str, int]]:
    """The texts of a file with the numbers of their labels: below `labels`, if that is given.

    names: of the labels in their order, for files that name them.
    """

    def parse(row: Mapping[str, Any]) -> tuple[str, int]:
        text, label = row["text"], row["label"]
        number = names.index(label) if label in names else int(label)
        if not isinstance(text, str):
            raise TypeError(f"the text is {text!r}")
        if number < 0 or (labels is not None and number >= labels):
            raise ValueError(f"the label is {number}")
        return text, number

    numbers = "a number from 0 on" if labels is None else " or ".join(map(str, range(labels)))
    return read_rows(path, parse, f"{{'text': ..., 'label': {numbers}}}", hint)


def _filtered(texts: Sequence[tuple[str, int]], source: LengthFilter) -> list[tuple[list[str], int]]:
    """The words and the label of every text whose length is within the bounds."""
    listed = [(text.split(), label) for text, label in texts]
    below = source.shorter_than or max((len(words) for words, _ in listed), default=0)
    return [(words, label) for words, label in listed if source.longer_than < len(words) < below]


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """(row, place)"""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def is_word(ids: Tensor) -> Tensor:
    """True at the words of the text, known or not: the places that are attended to and counted."""
    return (ids == UNKNOWN) | (ids > END)


def by_length(lengths: Sequence[int], *, tokens: int) -> list[list[int]]:
    """Places in batches of similar length, each of at most `tokens` with its padding."""
    batches: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if not batches or (len(batches[-1]) + 1) * lengths[place] > tokens:
            batches.append([])
        batches[-1].append(place)
    return batches


def shuffled(texts: Sequence[LabelledText], *, size: int, seed: int, epoch: int) -> list[list[int]]:
    """One epoch's batches: random, yet of similar length, and the same whenever seed and epoch are."""
    chance = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    order: list[int] = torch.randperm(len(texts), generator=chance).tolist()
    pool = size * 20
    cuts = []
    for start in range(0, len(order), pool):
        ordered = sorted(order[start : start + pool], key=lambda i: len(texts[i]))
        cuts += [ordered[i : i + size] for i in range(0, len(ordered), size)]
    return [cuts[i] for i in torch.randperm(len(cuts), generator=chance).tolist()]
