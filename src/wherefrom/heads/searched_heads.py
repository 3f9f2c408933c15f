"""Heads that were chosen by a search: plain numbers that can be saved, read back, and used as a mask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from wherefrom.core.files import FilePath, read_json
from wherefrom.core.saved import Format, Saved
from wherefrom.errors import BadFile
from wherefrom.heads.head_map import ByHead, HeadMap


@dataclass(frozen=True)
class SearchedHeads(Saved):
    """The heads that were chosen, and what they are worth on texts that they were not chosen by."""

    FORMAT: ClassVar[Format] = Format("head mask", "wherefrom_searched_heads", indent=1, checksum=True)

    model: str
    fingerprint: str
    metric: str
    mask: ByHead
    texts: int  # searched on
    tried: int  # masks
    score: float  # of the mask on these texts, higher is better: minus the metric where lower is
    score_of_all: float  # of all heads there
    # On texts that were held out: of each text the mask's value less that of all heads, by the same sign.
    held_out: tuple[float, ...] = ()

    @property
    def heads(self) -> int:
        return sum(1 for row in self.mask for weight in row if weight)

    def _problems(self) -> Iterator[str]:
        if len({len(row) for row in self.mask}) != 1:
            yield "it has not one number for every layer and head"


def load_heads(path: FilePath) -> HeadMap | SearchedHeads:
    """The content of a file of `wherefrom heads`: statistics of all heads, or those that a search chose."""
    try:
        data = read_json(path)
    except BadFile:
        data = None  # a head map says what is wrong with it
    searched = isinstance(data, dict) and SearchedHeads.FORMAT.field in data
    return SearchedHeads.load(path) if searched else HeadMap.load(path)
