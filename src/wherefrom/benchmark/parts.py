"""A part of a run: the rows of some examples, and where they are once somebody has stored them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wherefrom.benchmark.receipts import StoredParts
from wherefrom.benchmark.shards import new_files
from wherefrom.benchmark.tables import TABLES, encoded


@dataclass(frozen=True)
class Part:
    """The results of some examples: rows of each table, and what they cost."""

    explanations: list[dict[str, Any]] = field(default_factory=list)
    scores: list[dict[str, Any]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    costs: Mapping[str, float] = field(default_factory=dict)  # examples, asked, distinct, rows, seconds
    alone: list[dict[str, Any]] = field(
        default_factory=list
    )  # what each method costs for one of the examples when nothing is shared with other methods
    passes: float = 0.0  # forward passes of one row, for methods and metrics: for an estimate, and not kept


@dataclass(frozen=True)
class PartInStorage:
    """A part whose tables are written already; it counts once its receipt is."""

    stored: StoredParts
    costs: Mapping[str, float]
    alone: list[dict[str, Any]]
    passes: float


def store_tables(part: Part, number: int, folder: Path, at: str | None) -> PartInStorage:
    """Write the tables of a part: into the run's folder, or into the storage at `at`, where a worker does it itself."""
    stored, sums, size = new_files(number, number, at), {}, 0
    storage = stored.storage(folder)
    for table in TABLES:
        content = encoded(table, getattr(part, table))
        storage.write(stored.file(table), content, f"part {number} of the run")
        sums[table] = hashlib.sha256(content).hexdigest()
        size += len(content)
    return PartInStorage(stored._replace(sums=sums, size=size), part.costs, part.alone, part.passes)
