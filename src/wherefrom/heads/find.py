"""Find the heads of a model that look at a fixed distance or along a syntactic relation."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from wherefrom.case.case import make_cases
from wherefrom.errors import WherefromError
from wherefrom.heads.head_map import HeadMap, Relation
from wherefrom.heads.statistics import RELATIONS, PositionCounts, RelationCounts, tokens_of_words
from wherefrom.heads.trees import Tree
from wherefrom.model.fingerprint import fingerprint
from wherefrom.model.text_model import TextModel


def find_heads(
    model: TextModel,
    trees: Sequence[Tree],
    *,
    positional: float = 0.8,
    syntactic: float = 0.1,
    itself: bool = False,
    special: bool = False,
    reverse: bool = False,
    syntax: bool = True,
) -> HeadMap:
    """Count to which tokens every head attends in these texts.

    Args:
        model: the model whose heads are examined.
        trees: texts, with their syntax where it is known; those with a pair are read as the model reads pairs, and
            relations are counted in both.
        positional: the threshold of positional heads, xi of Eq. 8.
        syntactic: the threshold of syntactic heads, xi of Eq. 7.
        itself: whether a token's own position counts as a distance.
        special: whether the tokenizer's own tokens count as queries.
        reverse: follow relations from governor to dependent instead.
        syntax: False looks for positional heads only.
    """
    if syntax and not any(tree.words or (tree.pair and tree.pair.words) for tree in trees):
        raise WherefromError(
            "The corpus has texts but no trees, so syntactic heads cannot be found. Give"
            " gold trees (CoNLL-U, or JSON lines with tokens),"
            " let a parser make them (--parser), or look for positional heads only (--no-syntax)."
        )
    positions, relations = PositionCounts(), RelationCounts()
    encodings = [
        model.encode(tree.text) if tree.pair is None else model.encode(tree.text, tree.pair.text) for tree in trees
    ]
    for cases in make_cases(model, encodings, [None] * len(encodings), reads=["head_attention"]):
        with torch.no_grad():
            for place, case in cases.items():
                attention = case.attention(scores=False)
                positions.add(attention, torch.ones_like(case.special) if special else ~case.special)
                for part, tree in enumerate((trees[place], trees[place].pair)):
                    if not syntax or tree is None or not tree.words:
                        continue
                    encoding, words = case.encoding, [(w.start, w.end) for w in tree.words]
                    tokens = tokens_of_words(words, encoding.offsets, encoding.segment, part)
                    relations.add(attention, tree, tokens, reverse=reverse)
    layers, heads = len(attention), len(attention[0])
    most = [[positions.most(i, j, itself=itself) for j in range(heads)] for i in range(layers)]
    return HeadMap(
        model=model.name,
        fingerprint=fingerprint(model),
        texts=len(trees),
        tokens=positions.queries,
        offset=tuple(tuple(distance for distance, _ in row) for row in most),
        frequency=tuple(tuple(often for _, often in row) for row in most),
        relations={name: _relation(relations, name) for name in RELATIONS if relations.pairs[name]} if syntax else {},
        positional_threshold=positional,
        syntactic_threshold=syntactic,
        settings={"itself": itself, "special": special, "reverse": reverse},
    )


def _relation(counts: RelationCounts, name: str) -> Relation:
    pairs, distances = counts.pairs[name], counts.distances[name]
    distance = min(distances, key=lambda d: (-distances[d], abs(d), d))
    follows = tuple(map(tuple, (counts.hits[name] / pairs).tolist()))
    return Relation(
        follows=follows,
        baseline=distances[distance] / pairs,
        distance=distance,
        count=pairs,
        distances=tuple(sorted(distances.items())),
    )
