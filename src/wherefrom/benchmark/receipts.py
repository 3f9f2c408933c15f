"""Receipts: each says that a part, or a shard of neighbouring parts, is stored, in which files, with which checksums.

    receipts/00012.json          of part 12, in explanations/00012.parquet, scores/00012.parquet, errors/00012.parquet
    receipts/00000-01999.json    of a shard of the parts 0 to 1999

A receipt is written after its files, and removed after them. So what counts is what the receipts say, and where a shard
and one of its parts both have one, which is so until the parts are removed, the shard counts and the part does not.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wherefrom.benchmark.storage import Storage
from wherefrom.benchmark.tables import TABLES, check_columns
from wherefrom.core.files import reading, write_atomically
from wherefrom.errors import BadFile

RECEIPTS = "receipts"
NAME = re.compile(r"(\d{5,})(?:-(\d{5,}))?")


class Damage(NamedTuple):
    """A part, or the parts of a shard, that cannot be trusted."""

    number: int
    why: str
    last: int | None = None  # of a shard, the number of its last part

    @property
    def parts(self) -> int:
        return 1 if self.last is None else self.last - self.number + 1


class StoredParts(NamedTuple):
    """What one receipt speaks of: a part, or a shard of neighbouring parts."""

    first: int
    last: int
    at: str | None = None  # the storage that its tables are in; None: the run's folder
    files: Mapping[str, str] = {}  # table -> its name there, where it is not the usual one
    sums: Mapping[str, str] = {}
    size: int = 0  # of its tables, in bytes

    @property
    def name(self) -> str:
        return name_of(self.first, self.last)

    @property
    def numbers(self) -> range:
        return range(self.first, self.last + 1)

    def storage(self, folder: Path) -> Storage:
        return Storage(folder if self.at is None else self.at)

    def file(self, table: str) -> str:
        """The name of a table's file in its storage."""
        return self.files.get(table, f"{table}/{self.name}.parquet")


class Examined(NamedTuple):
    """The receipts of a run and whether their files are as they say."""

    stored: list[StoredParts]  # by their numbers, none of which occurs twice
    damaged: list[Damage]
    superseded: list[StoredParts]  # what a shard contains as well


def name_of(first: int, last: int) -> str:
    """The name of a part's files, or of a shard's."""
    return f"{first:05d}" if first == last else f"{first:05d}-{last:05d}"


def numbers_in(name: str) -> tuple[int, int] | None:
    """The numbers of the first and the last part in the name of a file; None where it is none of ours."""
    match = NAME.fullmatch(name)
    if match is None:
        return None
    first = int(match[1])
    last = first if match[2] is None else int(match[2])
    return (first, last) if name_of(first, last) == name and first <= last else None


def checksum(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def receipt_path(folder: Path, first: int, last: int) -> Path:
    return folder / RECEIPTS / f"{name_of(first, last)}.json"


def write_receipt(
    folder: Path, stored: StoredParts, costs: Sequence[Mapping[str, float]], alone: Sequence[Sequence[Any]]
) -> None:
    """costs, alone: of every part. With this, the part or the shard counts."""
    body: dict[str, Any] = {"part": stored.first, "sums": dict(stored.sums), "bytes": stored.size}
    if stored.first == stored.last:
        body |= {"costs": dict(costs[0]), "alone": list(alone[0])}
    else:
        body |= {"last": stored.last, "costs": [dict(one) for one in costs], "alone": [list(one) for one in alone]}
    if stored.at is not None:
        body |= {"at": stored.at, "files": dict(stored.files)}
    written = json.dumps({"body": body, "sum": checksum(body)})
    write_atomically(
        receipt_path(folder, stored.first, stored.last), written, f"receipt of part {stored.name}", durable=True
    )


def read_receipt(folder: Path, first: int, last: int | None = None) -> dict[str, Any]:
    """What the receipt of a part says, or of the shard of the parts from `first` to `last`."""
    last = first if last is None else last
    path = receipt_path(folder, first, last)
    try:
        with reading(path):
            found = json.loads(path.read_bytes())
        body: dict[str, Any] = found["body"]
        if found["sum"] != checksum(body) or (body["part"], body.get("last", body["part"])) != (first, last):
            raise ValueError("its checksum does not match")
        costs, alone = costs_in(body), alone_in(body)
        whole = len(costs) == len(alone) == last - first + 1
        whole = whole and all(isinstance(one, dict) for one in costs) and all(isinstance(one, list) for one in alone)
        if {*TABLES} - body["sums"].keys() or not whole:
            raise ValueError("it does not hold what a receipt holds")
        if "at" in body and not (isinstance(body["at"], str) and {*TABLES} <= body["files"].keys()):
            raise ValueError("it does not say where its tables are")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadFile(f"{path} is damaged: {error}") from error
    return body


def costs_in(body: Mapping[str, Any]) -> list[dict[str, float]]:
    """What each of the receipt's parts cost."""
    return list(body["costs"]) if "last" in body else [body["costs"]]


def alone_in(body: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    """What methods cost alone, for each of the receipt's parts."""
    return list(body["alone"]) if "last" in body else [body["alone"]]


def stored_by(folder: Path, first: int, last: int) -> StoredParts:
    """What a receipt speaks of; raises where the receipt is damaged."""
    body = read_receipt(folder, first, last)
    found = StoredParts(first, last, body.get("at"), body.get("files", {}), body["sums"])
    size = body.get("bytes")
    if size is None:  # a receipt of an earlier version
        storage = found.storage(folder)
        size = sum(storage.size(found.file(table)) or 0 for table in TABLES)
    return found._replace(size=int(size))


def examined(folder: Path, parts: int) -> Examined:
    """Which parts are stored, which are damaged: the files of every receipt are compared with what it says."""
    examination, until = Examined([], [], []), -1
    for first, last in _listed(folder):
        if last >= parts:
            continue
        if last <= until:
            examination.superseded.append(_as_far_as_known(folder, first, last))
            continue
        try:
            if first <= until:
                raise BadFile(f"{receipt_path(folder, first, last)} speaks of parts that another receipt has as well")
            stored = stored_by(folder, first, last)
            _check_files(stored, folder)
        except BadFile as error:
            examination.damaged.append(Damage(first, str(error), None if first == last else last))
        else:
            examination.stored.append(stored)
            until = last
    return examination


def _listed(folder: Path) -> list[tuple[int, int]]:
    """The first and the last number of every receipt: by number, and a shard before what it contains."""
    names = (numbers_in(path.name.removesuffix(".json")) for path in (folder / RECEIPTS).glob("[0-9]*.json"))
    return sorted((pair for pair in names if pair is not None), key=lambda pair: (pair[0], -pair[1]))


def _as_far_as_known(folder: Path, first: int, last: int) -> StoredParts:
    """What a receipt speaks of that nobody relies on, and that may be damaged therefore."""
    try:
        return stored_by(folder, first, last)
    except BadFile:
        return StoredParts(first, last)


def _check_files(stored: StoredParts, folder: Path) -> None:
    storage, size = stored.storage(folder), 0
    for table in TABLES:
        name = stored.file(table)
        there = storage.size(name)
        if there is None:
            raise BadFile(f"{storage.named(name)} is missing")
        size += there
        if storage.remote:  # which keeps checksums itself; reading all of it here would defeat its purpose
            continue
        if storage.digest(name) != stored.sums[table]:
            raise BadFile(f"{storage.named(name)} was cut short or changed")
        with storage.open(name) as file:
            check_columns(file, table, storage.named(name))
    if size != stored.size:
        raise BadFile(f"The files of {receipt_path(folder, stored.first, stored.last)} were cut short or changed")


def examples_kept(folder: Path) -> int:
    """How many examples the receipts in a folder speak of: quick, without looking at the tables."""
    found, until = 0, -1
    for first, last in _listed(folder):
        if last <= until:
            continue
        try:
            found += sum(int(one.get("examples", 0)) for one in costs_in(read_receipt(folder, first, last)))
        except (BadFile, ValueError, TypeError):
            continue
        until = last
    return found
