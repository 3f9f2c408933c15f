"""What an explanation says it was chosen among, as it must be for the views to show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from wherefrom.core.plain import from_plain
from wherefrom.errors import BadFile


@dataclass(frozen=True)
class _Table:
    """The score of every combination of head and layer operations, by matrix operation."""

    heads: tuple[str | int, ...]
    layers: tuple[str | int, ...]
    scores: Mapping[str, tuple[tuple[float | None, ...], ...]]


@dataclass(frozen=True)
class _Operations:
    """What `optimus` chose among."""

    chosen: str
    scores: Mapping[str, _Table] = field(default_factory=dict)


@dataclass(frozen=True)
class _Candidates:
    """What `best` chose among."""

    chosen: str
    runner_up: str | None
    metrics: tuple[str, ...]
    better: tuple[Literal["higher", "lower"], ...]
    grades: Mapping[str, tuple[float | None, ...]]
    failed: Mapping[str, str]


def selection_problems(selection: Mapping[str, Any]) -> Iterator[str]:
    """What does not fit together in a selection that was read from a file."""
    try:
        for table in from_plain(_Operations, selection, "selection").scores.values():
            rows = [row for matrix in table.scores.values() for row in matrix]
            heads = {len(matrix) for matrix in table.scores.values()}
            if heads - {len(table.heads)} or {len(row) for row in rows} - {len(table.layers)}:
                yield "a map of its selection has not as many scores as heads and layers"
        if "grades" in selection:
            candidates = from_plain(_Candidates, selection, "selection", finite=False)
            if {len(candidates.better), *map(len, candidates.grades.values())} != {len(candidates.metrics)}:
                yield "the candidates of its selection are not graded by every metric"
    except BadFile as error:
        yield str(error).removesuffix(".")
