"""Heads that were chosen by a search: plain numbers that can be saved, read back, and used as a mask."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from wherefrom.core.files import FilePath, json_text, read_json, write_atomically
from wherefrom.core.plain import load_plain
from wherefrom.errors import BadFile
from wherefrom.heads.head_map import ByHead, HeadMap

FORMAT = 1
WHAT = "searched_heads"  # what its files are called by


@dataclass(frozen=True)
class SearchedHeads:
    """The heads that were chosen, and what they are worth on texts that they were not chosen by."""

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

    def save(self, path: FilePath) -> None:
        """Write JSON: wholly, or not at all."""
        write_atomically(path, json_text({f"wherefrom_{WHAT}": FORMAT, **asdict(self)}, indent=1), "head mask")

    @classmethod
    def load(cls, path: FilePath) -> SearchedHeads:
        heads = load_plain(cls, path, WHAT, FORMAT)
        if len({len(row) for row in heads.mask}) != 1:
            raise BadFile(f"{path}: this head mask is damaged: it has not one number for every layer and head.")
        return heads


def load_heads(path: FilePath) -> HeadMap | SearchedHeads:
    """The content of a file of `wherefrom heads`: statistics of all heads, or those that a search chose."""
    try:
        data = read_json(path)
    except BadFile:
        data = None  # a head map says what is wrong with it
    searched = isinstance(data, dict) and f"wherefrom_{WHAT}" in data
    return SearchedHeads.load(path) if searched else HeadMap.load(path)
