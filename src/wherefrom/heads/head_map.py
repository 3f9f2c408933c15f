"""What was found about a model's heads in a corpus: plain numbers that can be saved, read back, and turned into
masks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from wherefrom.core.saved import Format, Saved
from wherefrom.errors import BadOption

HeadCounts = Literal["capped", "sum"]
HeadKind = Literal["all", "positional", "syntactic"]
ByHead = tuple[tuple[float, ...], ...]  # one number for every head: (layer, head)


@dataclass(frozen=True)
class Relation:
    """How the heads follow one syntactic relation."""

    follows: ByHead  # alpha: how often a head's largest attention from the dependent falls on its governor
    baseline: float  # max lambda: how often the governor is at its most frequent distance
    distance: int  # that distance, in words
    count: int  # how many pairs were seen
    distances: tuple[tuple[int, int], ...] = ()  # every distance, and how many governors are there


@dataclass(frozen=True)
class HeadMap(Saved):
    """How often every head attends to one distance, and how often to the governor of a syntactic relation."""

    FORMAT: ClassVar[Format] = Format(
        "head map",
        "wherefrom_heads",
        advice="Head maps are written by 'wherefrom heads'.",
        indent=1,
        checksum=True,
    )

    model: str
    fingerprint: str
    texts: int
    tokens: int  # queries counted
    offset: tuple[tuple[int, ...], ...]  # the distance a head looks at most, in tokens: (layer, head)
    frequency: ByHead  # how often it does
    relations: Mapping[str, Relation] = field(default_factory=dict)
    positional_threshold: float = 0.8
    syntactic_threshold: float = 0.1
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def positional(self) -> ByHead:
        """One where a head looks at one distance most of the time (Eq. 8)."""
        return tuple(tuple(float(often > self.positional_threshold) for often in row) for row in self.frequency)

    def syntactic_for(self, name: str) -> ByHead:
        """One where a head finds the governor more often than its most usual distance would (Eq. 7)."""
        relation = self.relations[name]
        enough = relation.baseline + self.syntactic_threshold
        return tuple(tuple(float(relation.count > 0 and often > enough) for often in row) for row in relation.follows)

    def mask(self, *, counts: HeadCounts = "capped", only: HeadKind = "all") -> ByHead:
        """Eq. 6: one where a head is positional or follows a relation; with counts="sum", for how many reasons it is
        kept. only: heads of one kind.
        """
        masks = [self.positional] if only != "syntactic" else []
        masks += [self.syntactic_for(name) for name in self.relations] if only != "positional" else []
        summed = [[sum(mask[i][j] for mask in masks) for j in range(len(row))] for i, row in enumerate(self.frequency)]
        return tuple(tuple(min(n, 1.0) if counts == "capped" else n for n in row) for row in summed)

    def kinds(self) -> list[list[str]]:
        """The kind of every head, for the head map (Fig. 5): positional, syntactic, both or other."""
        syntactic = [self.syntactic_for(name) for name in self.relations]

        def kind(i: int, j: int) -> str:
            follows = any(mask[i][j] for mask in syntactic)
            if self.positional[i][j]:
                return "both" if follows else "positional"
            return "syntactic" if follows else "other"

        return [[kind(i, j) for j in range(len(row))] for i, row in enumerate(self.frequency)]

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain Python, with the mask and the kinds of heads that follow from it."""
        return {**super().to_dict(), "mask": self.mask(), "kinds": self.kinds()}

    def _problems(self) -> Iterator[str]:
        tables = (self.offset, self.frequency, *(relation.follows for relation in self.relations.values()))
        if len({tuple(map(len, table)) for table in tables}) > 1 or len(set(map(len, self.frequency))) != 1:
            yield "its tables are not all of one number for every layer and head"


def by_head(rows: Any) -> ByHead:
    table = tuple(tuple(map(float, row)) for row in rows)
    if len({len(row) for row in table}) > 1:
        raise BadOption("A head mask needs one number for every head, and the same number of heads in every layer.")
    return table
