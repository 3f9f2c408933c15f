"""Shards: neighbouring parts of a run in one file a table, so that a large run has few files.

Merging is safe at every moment. The tables of a shard are written first; they count for nothing until the shard's
receipt is there, from when on the parts count for nothing; and only then are the parts removed, each before its
receipt. A run that resumes after a kill finds the parts, or the shard and remains of the parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

from wherefrom.benchmark.receipts import (
    StoredParts,
    alone_in,
    costs_in,
    name_of,
    read_receipt,
    receipt_path,
    write_receipt,
)
from wherefrom.benchmark.tables import TABLES, merged
from wherefrom.core.files import reading
from wherefrom.errors import BadFile

SHARD_BYTES = 64 * 2**20  # about as large as a shard becomes
PARTS_WAITING = 2000  # that are merged even if they are small, so that their files do not become too many

# Writes the tables of a shard: by what it is made of, the run's folder, and the storage it goes to.
Merging = Callable[[Sequence[StoredParts], Path, str | None], StoredParts]


def groups(stored: Sequence[StoredParts], size: int = SHARD_BYTES) -> Iterator[list[StoredParts]]:
    """What is merged into one shard each: neighbours without a gap, until they are large enough. What is at least half
    as large already stays as it is. stored: by number.
    """
    group, total = list[StoredParts](), 0
    for candidate in stored:
        adjacent = bool(group) and group[-1].last + 1 == candidate.first
        if not adjacent or candidate.size >= size / 2 or total >= size:
            if len(group) > 1:
                yield group
            group, total = [], 0
        if candidate.size < size / 2:
            group.append(candidate)
            total += candidate.size
    if len(group) > 1:
        yield group


def merge_tables(group: Sequence[StoredParts], folder: Path, at: str | None) -> StoredParts:
    """Write the tables of a shard, without a receipt. Every file it is made of is held against its own checksum: damage
    must not get a new checksum that is right.
    """
    first, last = group[0].first, group[-1].last
    shard = new_files(first, last, at)
    sums, size = {}, 0
    for table in TABLES:
        content = merged(table, (_checked_content(part, table, folder) for part in group))
        shard.storage(folder).write(shard.file(table), content, f"shard {shard.name} of the run")
        sums[table] = hashlib.sha256(content).hexdigest()
        size += len(content)
    return shard._replace(sums=sums, size=size)


def new_files(first: int, last: int, at: str | None) -> StoredParts:
    """Names for the files of a part or a shard. In a storage that several write to, nobody else has the same: a worker
    that was given up and is still writing changes nothing that counts.
    """
    if at is None:
        return StoredParts(first, last)
    own = f"{name_of(first, last)}-{uuid4().hex[:12]}"
    return StoredParts(first, last, at, {table: f"{table}/{own}.parquet" for table in TABLES})


def _checked_content(stored: StoredParts, table: str, folder: Path) -> bytes:
    storage, name = stored.storage(folder), stored.file(table)
    with storage.open(name) as file:
        content = file.read()
    if hashlib.sha256(content).hexdigest() != stored.sums[table]:
        raise BadFile(
            f"{storage.named(name)} was cut short or changed. Run 'wherefrom run' again with --out {folder}: it sets"
            " damaged parts aside and computes them again."
        )
    return content


def merge(
    group: Sequence[StoredParts], folder: Path, at: str | None = None, merging: Merging = merge_tables
) -> StoredParts:
    """Make one shard of neighbouring parts and shards, and remove these."""
    bodies = [read_receipt(folder, entry.first, entry.last) for entry in group]
    shard = merging(group, folder, at)
    costs = [part for body in bodies for part in costs_in(body)]
    alone = [part for body in bodies for part in alone_in(body)]
    write_receipt(folder, shard, costs, alone)
    for entry in group:
        remove(entry, folder)
    return shard


def remove(stored: StoredParts, folder: Path) -> None:
    """Remove a part or a shard that another shard contains: tables first, because the receipt says where they are."""
    storage = stored.storage(folder)
    for table in TABLES:
        storage.remove(stored.file(table))
    path = receipt_path(folder, stored.first, stored.last)
    with reading(path):
        path.unlink(missing_ok=True)
