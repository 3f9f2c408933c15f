"""Data sets by name, file or folder, as examples. Errors name the file and the line."""

from __future__ import annotations

import hashlib
import random
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wherefrom.benchmark.formats import (
    read_csv,
    read_hub,
    read_hugging_face,
    read_lines,
    read_parquet,
    read_plain,
    read_tsv,
)
from wherefrom.benchmark.layouts import (
    read_conllu,
    read_eraser,
    read_eraser_query,
    read_esnli,
    read_hatexplain,
    read_squad,
)
from wherefrom.core.example import Example, example_of
from wherefrom.core.files import exists
from wherefrom.core.tables import PAIR_COLUMNS, TEXT_COLUMNS
from wherefrom.errors import BadFile, BadOption, UnknownName
from wherefrom.registry import DataReader, Record, all_readers, register_reader
from wherefrom.samples import resolve

# How a file is read: written in front of its path, as in squad:dev-v2.0.json, or known by how its name ends. Other
# packages add theirs by `wherefrom.register_reader` or the entry point `wherefrom.readers`.
OUR_READERS = (
    DataReader("jsonl", read_lines, (".jsonl", ".ndjson")),
    DataReader("csv", read_csv, (".csv",)),
    DataReader("tsv", read_tsv, (".tsv",)),
    DataReader("lines", read_plain, (".txt",)),
    DataReader("parquet", read_parquet, (".parquet",)),
    DataReader("disk", read_hugging_face),
    DataReader("eraser", read_eraser),
    DataReader("eraser_query", read_eraser_query),
    DataReader("hatexplain", read_hatexplain),
    DataReader("esnli", read_esnli),
    DataReader("squad", read_squad),
    DataReader("conllu", read_conllu, (".conllu",)),
)
for _reader in OUR_READERS:
    register_reader(_reader)

HUB = "hf:"

# The names that a field may have in a file. The first of them that a row has is used, unless --columns names another.
FIELDS = {
    "id": ("id", "idx", "guid", "pairID"),
    "text": TEXT_COLUMNS,
    "pair": PAIR_COLUMNS,
    "label": ("label", "gold_label", "labels"),
    "rationale": ("rationale", "rationale_a"),
    "pair_rationale": ("pair_rationale", "rationale_b"),
    "answer": ("answer",),
    "explain": ("explain",),
    "foil": ("foil",),
    "mask_span": ("mask_span", "verb_span"),
    "messages": ("messages",),
}


class ReadyDataSet(NamedTuple):
    """A data set that is known by name, given the folder it is in."""

    file: str
    splits: tuple[str, ...] = ()  # given where splits must not be pooled, so that one has to be named
    classes: bool = True  # whether its labels are classes of a model


READY = {
    "sst2": ReadyDataSet("sst2_dev"),
    "sst2_dev": ReadyDataSet("sst2_dev"),
    "sst2_train": ReadyDataSet("sst2_train"),
    "sst_trees": ReadyDataSet("sst_trees"),
    "imdb": ReadyDataSet("imdb"),
    "yelp_polarity": ReadyDataSet("yelp_polarity"),
    "amazon_reviews": ReadyDataSet("amazon_reviews"),
    "eraser_movies": ReadyDataSet(
        "eraser_movies", ("val", "test")
    ),  # test marks three times as much of a text as the others
    "eraser_movies_train": ReadyDataSet("eraser_movies_train"),
    "esnli": ReadyDataSet("esnli"),
    "mnli": ReadyDataSet("mnli"),
    "qqp": ReadyDataSet("qqp"),
    "ethos": ReadyDataSet("ethos", ("all", "multi_label")),  # one label, or several
    "hatexplain": ReadyDataSet("hatexplain"),
    "hoc": ReadyDataSet("hoc"),
    "hummingbird": ReadyDataSet(
        "hummingbird", ("anger", "disgust", "fear", "joy", "offensive", "politeness", "sadness", "sentiment"), False
    ),
    "newsgroups20_sports": ReadyDataSet("newsgroups20_sports"),
    "ais_mri": ReadyDataSet("ais_mri"),
    "squad_v1.1": ReadyDataSet("squad_v1.1", classes=False),
    "squad_v2": ReadyDataSet("squad_v2", classes=False),
    "agreement_linzen": ReadyDataSet("agreement_linzen", classes=False),
    "ud_en_ewt": ReadyDataSet("ud_en_ewt", classes=False),
    **{
        f"jw_{name}_{part}": ReadyDataSet(f"jw_{name}_{part}")
        for name in ("sst", "20news", "imdb")
        for part in ("train", "dev", "test")
    },
}


@dataclass(frozen=True)
class DataSet:
    """Examples that are read from the file in every iteration, so that a large file takes no memory."""

    source: str  # a ready name, a path, layout:path, hf:name; followed by @split
    folder: Path | None = None  # where ready names are
    limit: int | None = None
    seed: int | None = None  # with a limit: take a random part instead of the first
    columns: Mapping[str, str] = field(default_factory=dict)  # our field -> the file's
    ignore_labels: bool = False  # then they may be anything, such as -1 for none
    metadata: Sequence[str] = ()  # other columns that examples carry along

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise BadOption(f"The limit must be at least 1, not {self.limit}.")
        for name in self.columns:
            if name not in FIELDS:
                raise UnknownName.among("field of an example", name, FIELDS)

    def __iter__(self) -> Iterator[Example]:
        everything = self._examples()
        if self.limit is None:
            return everything
        return islice(everything, self.limit) if self.seed is None else self._sampled(everything, self.limit, self.seed)

    @property
    def name(self) -> str:
        """Short, for tables."""
        source, split = _name_and_split(self.source)
        last = Path(source.rpartition(":")[2])
        short = last.stem if last.suffix.lower() in (*_suffixes(), ".json") else last.name
        return f"{short}@{split}" if split else short

    @cached_property
    def classes(self) -> bool:
        """Whether its labels are classes of a model."""
        ready = READY.get(_name_and_split(self.source)[0])
        return ready is None or ready.classes

    def checked(self, look: Callable[[Example], None] | None = None) -> tuple[int, str]:
        """Read everything once, and return how many examples there are and a digest of them.

        look: is called with every example, and may raise.
        """
        digest, seen = hashlib.sha256(), array("Q")  # of every id eight bytes: a million of them take no more than 8 MB
        for example in self:
            if look is not None:
                look(example)
            seen.append(_short_digest(example.id))
            digest.update(
                repr((example.id, example.asked, example.label, example.rationale, example.answer)).encode(
                    "utf-8", "replace"
                )
            )
            digest.update(repr((example.target, example.mask_span)).encode("utf-8", "replace"))
        if not seen:
            raise BadFile(f"{self.source} has no examples{self._why_none()}.")
        self._check_ids(seen)
        return len(seen), digest.hexdigest()

    def _check_ids(self, seen: array[int]) -> None:
        """Raise where two examples have the same id. seen: a short digest of each. Only where two of these are alike,
        the ids themselves are read again and compared.
        """
        ordered = np.sort(np.frombuffer(seen, dtype=np.uint64))
        alike = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
        places: dict[str, str] = {}
        for example in self if alike else ():
            if example.id in places:
                raise BadFile(
                    f"{example.where}: the id {example.id!r} is used already, at"
                    f" {places[example.id]}. Every example needs an id of its own."
                )
            if _short_digest(example.id) in alike:
                places[example.id] = example.where.rpartition(", ")[2]

    def _why_none(self) -> str:
        split = _name_and_split(self.source)[1]
        return f" in the split {split!r}" if split else ""

    def _examples(self) -> Iterator[Example]:
        for number, (where, row) in enumerate(self._records(), 1):
            example = example_of(self._fields(row, where), where=where, number=number)
            yield replace(example, metadata=self._metadata(row, where)) if self.metadata else example

    def _metadata(self, row: Mapping[str, object], where: str) -> dict[str, str]:
        for name in self.metadata:
            if name not in row:
                raise BadFile(f"{where}: there is no column {name!r}; there are: {', '.join(map(str, row)) or 'none'}.")
        return {name: str(row[name]) for name in self.metadata if row[name] is not None}

    def _records(self) -> Iterator[Record]:
        source, split = _name_and_split(self.source)
        source = resolve(source)
        if source.startswith(HUB):
            return read_hub(source.removeprefix(HUB), split)
        if source in READY:
            return self._ready(source, split)
        layout, colon, rest = source.partition(":")
        if colon and layout in all_readers():
            return all_readers()[layout](Path(rest), split)
        path = Path(source)
        if not exists(path):
            if self.folder is not None and exists(self.folder / f"{source}.jsonl"):
                return read_lines(self.folder / f"{source}.jsonl", split)
            raise UnknownName(
                f"There is no file or folder {_shortened(source)!r}, and no data set of that name. Ready"
                f" names (with --data-dir): {', '.join(READY)}."
                f" Layouts, written layout:path: {', '.join(all_readers())}. From the hub: {HUB}NAME."
            )
        return all_readers()[_layout(path)](path, split)

    def _ready(self, name: str, split: str | None) -> Iterator[Record]:
        ready = READY[name]
        if self.folder is None:
            raise BadOption(
                f"{name} is read from a folder that holds {ready.file}.jsonl: name the folder with --data-dir."
            )
        if ready.splits and split is None:
            raise BadOption(
                f"The splits of {name} must not be pooled; choose one:"
                f" {', '.join(f'{name}@{part}' for part in ready.splits)}."
            )
        return read_lines(self.folder / f"{ready.file}.jsonl", split)

    def _fields(self, row: Mapping[str, object], where: str) -> dict[str, object]:
        fields: dict[str, object] = {}
        for ours, theirs in _names_in(tuple(row)):
            if ours in self.columns:
                if self.columns[ours] not in row:
                    raise BadFile(
                        f"{where}: there is no field {self.columns[ours]!r}; there are:"
                        f" {', '.join(map(str, row)) or 'none'}."
                    )
                fields[ours] = row[self.columns[ours]]
            else:
                fields[ours] = next((row[name] for name in theirs if row[name] is not None), None)
        # A question about a context without a class: data for a model that answers it.
        fields["question"] = fields["label"] is None and {"question", "context"} <= row.keys()
        if fields["explain"] is None and fields["foil"] is not None:  # why the label rather than the foil
            fields["explain"] = fields["label"]
        if self.ignore_labels:
            fields["label"] = None
        if fields["text"] is None and fields["messages"] is None:
            return fields | dict.fromkeys(row)  # the names of its fields, for the error message
        return fields

    @staticmethod
    def _sampled(everything: Iterator[Example], limit: int, seed: int) -> Iterator[Example]:
        """A random sample in the order of the file, without holding the rest in memory (reservoir sampling)."""
        generator, kept = random.Random(seed), list[tuple[int, Example]]()
        for number, example in enumerate(everything):
            if len(kept) < limit:
                kept.append((number, example))
            elif (place := generator.randrange(number + 1)) < limit:
                kept[place] = (number, example)
        return iter([example for _, example in sorted(kept, key=lambda pair: pair[0])])


@lru_cache(maxsize=64)  # the records of a file mostly have the same fields
def _names_in(names: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """Each of our fields, with those of its names that a record has."""
    return [(ours, [name for name in theirs if name in names]) for ours, theirs in FIELDS.items()]


def _short_digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest())


def _name_and_split(source: str) -> tuple[str, str | None]:
    """The name, and the split after its last @; no split where the @ belongs to a path that exists."""
    name, at, split = source.rpartition("@")
    return (source, None) if not at or exists(source) or "/" in split else (name, split)


def _shortened(source: str) -> str:
    return source if len(source) <= 200 else f"{source[:100]}...{source[-40:]}"


def _suffixes() -> dict[str, str]:
    """The reader for files whose names end so."""
    return {suffix: reader.name for reader in all_readers().values() for suffix in reader.suffixes}


def _layout(path: Path) -> str:
    if path.is_dir():
        if (path / "docs").is_dir() or (path / "docs.jsonl").is_file():
            return "eraser"
        if (path / "post_id_divisions.json").is_file():
            return "hatexplain"
        if any((path / name).is_file() for name in ("dataset_dict.json", "state.json")):
            return "disk"
        if any(path.glob("*.parquet")):
            return "parquet"
        raise BadFile(
            f"{path} is a folder, but its layout is not known. Name it:"
            f" {', '.join(all_readers())}, as in eraser:{path}."
        )
    known = _suffixes().get(path.suffix.lower())
    if known is None:
        raise BadFile(
            f"The name of {path} does not tell its format. Name it: one"
            f" of {', '.join(all_readers())}, as in jsonl:{path}."
        )
    return known
