"""Which heads look at a fixed distance, and which at syntax: found in a corpus, kept in a file, used as masks."""

from whence.heads.find import find_heads
from whence.heads.head_map import HeadMap

__all__ = ["HeadMap", "find_heads"]
