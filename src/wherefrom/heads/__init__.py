"""Which heads look at a fixed distance, and which at syntax: found in a corpus, kept in a file, used as masks. Or which
heads relevance had better go through: searched on texts.
"""

from wherefrom.heads.find import find_heads
from wherefrom.heads.head_map import HeadKind, HeadMap, Relation
from wherefrom.heads.search import search_heads
from wherefrom.heads.searched_heads import SearchedHeads
from wherefrom.heads.trees import Tree, Word, parse, read_trees

__all__ = [
    "HeadKind",
    "HeadMap",
    "Relation",
    "SearchedHeads",
    "Tree",
    "Word",
    "find_heads",
    "parse",
    "read_trees",
    "search_heads",
]
