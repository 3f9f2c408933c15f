"""To which tokens heads attend most, counted over texts: by distance and by syntactic relation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from wherefrom.core.units import Span
from wherefrom.heads.trees import Tree

# Names by which trees call the four core relations (UD v1 and v2, and spaCy's English labels).
RELATIONS: dict[str, tuple[str, ...]] = {
    "nsubj": ("nsubj", "nsubj:pass", "nsubjpass"),
    "obj": ("obj", "dobj"),
    "amod": ("amod",),
    "advmod": ("advmod",),
}


@dataclass
class PositionCounts:
    """How often each head's largest attention falls at each distance (key - query)."""

    counts: Counter[tuple[int, int, int]] = field(default_factory=Counter)  # (layer, head, distance)
    queries: int = 0

    def add(self, attention: Sequence[Tensor], queries: Tensor) -> None:
        """attention: (head, query, key) a layer; queries: True where a token counts. (token,)"""
        places = queries.nonzero()[:, 0]
        self.queries += len(places)
        for layer, probs in enumerate(attention):
            distances = probs[:, places].argmax(-1) - places  # (head, query)
            for head, row in enumerate(distances.tolist()):
                self.counts.update((layer, head, distance) for distance in row)

    def most(self, layer: int, head: int, *, itself: bool) -> tuple[int, float]:
        """The distance that a head attends to most often, and how often; zero only where `itself` is allowed."""
        counts = {d: n for (i, j, d), n in self.counts.items() if (i, j) == (layer, head) and (itself or d != 0)}
        distance = min(counts, key=lambda d: (-counts[d], abs(d), d), default=0)
        return distance, counts.get(distance, 0) / max(self.queries, 1)


@dataclass
class RelationCounts:
    """How often each head's largest attention from a dependent falls on its governor, and where governors stand."""

    hits: dict[str, Tensor] = field(default_factory=dict)  # relation -> (layer, head)
    pairs: Counter[str] = field(default_factory=Counter)
    distances: dict[str, Counter[int]] = field(default_factory=dict)  # in words

    def add(
        self, attention: Sequence[Tensor], tree: Tree, tokens: Sequence[Sequence[int]], *, reverse: bool = False
    ) -> None:
        """tokens: the sub-tokens of each word of the tree. reverse: from the governor to its dependent."""
        looks = torch.stack([probs.argmax(-1) for probs in attention])  # (layer, head, query)
        for number, word in enumerate(tree.words):
            name = next((name for name, labels in RELATIONS.items() if word.relation in labels), None)
            if name is None or word.head < 0:
                continue
            source, goal = (word.head, number) if reverse else (number, word.head)
            if not tokens[source] or not tokens[goal]:  # the text was truncated before the word
                continue
            on_goal = torch.isin(looks[:, :, list(tokens[source])], torch.tensor(tokens[goal], device=looks.device))
            hit = on_goal.double().mean(-1)  # averaged over the sub-tokens of the word
            self.hits[name] = self.hits.get(name, torch.zeros_like(hit)) + hit
            self.pairs[name] += 1
            self.distances.setdefault(name, Counter())[goal - source] += 1


def tokens_of_words(
    words: Sequence[Span], offsets: Sequence[Span], segment: Sequence[int], part: int = 0
) -> list[list[int]]:
    """The tokens that share characters with each word: by their positions in the text, so that two occurrences of a
    word are not confused. part: 0 for words of the text, 1 for those of its pair.
    """
    return [
        [i for i, (start, end) in enumerate(offsets) if segment[i] == part and start < word_end and end > word_start]
        for word_start, word_end in words
    ]
