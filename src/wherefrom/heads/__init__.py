"""Which heads look at a fixed distance, and which at syntax: found in a corpus, kept in a file, used as masks."""

from wherefrom.heads.find import find_heads
from wherefrom.heads.head_map import HeadMap

__all__ = ["HeadMap", "find_heads"]
