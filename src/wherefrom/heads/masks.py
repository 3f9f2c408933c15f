"""Head masks: from a head map, random ones of the same size, and corrupted ones."""

from __future__ import annotations

import random as chance
from collections.abc import Sequence
from pathlib import Path

from wherefrom.errors import BadOption
from wherefrom.heads.head_map import ByHead, HeadCounts, HeadKind, HeadMap, by_head
from wherefrom.heads.searched_heads import SearchedHeads, load_heads
from wherefrom.model.fingerprint import known_fingerprint
from wherefrom.model.text_model import TextModel


def mask_of(
    heads: object,
    model: TextModel,
    *,
    shape: tuple[int, int],
    only: HeadKind = "all",
    counts: HeadCounts = "capped",
    corrupt: float = 0.0,
    random: int | None = None,
    seed: int = 0,
) -> ByHead:
    """The mask that a head map, searched heads, a file of either or plain numbers stand for, checked against the
    model. (layer, head)

    only, counts: which heads of a head map, and how they count.
    corrupt: switch on this share of the heads that the mask leaves out, drawn by `seed`.
    random: take as many heads at random instead, drawn by this number.
    """
    if corrupt and random is not None:
        raise BadOption("A mask is corrupted (corrupt=) or drawn at random (random=), not both.")
    if isinstance(heads, (str, Path)):
        heads = load_heads(heads)
    if isinstance(heads, HeadMap | SearchedHeads) and heads.fingerprint != known_fingerprint(model):
        raise BadOption(
            f"These heads were found in another model ({heads.model}) than the one that is explained."
            " Other weights have other heads: run 'wherefrom heads' on this model."
        )
    if isinstance(heads, HeadMap):
        heads = heads.mask(counts=counts, only=only)
    elif only != "all" or counts != "capped":
        raise BadOption(
            "only= and counts= choose among the heads of a head map: give heads= a file of 'wherefrom heads' that was"
            " not searched."
        )
    elif isinstance(heads, SearchedHeads):
        heads = heads.mask
    try:
        mask = by_head(heads.tolist() if hasattr(heads, "tolist") else heads)
    except (TypeError, ValueError) as error:
        raise BadOption(
            f"heads must be a file, a HeadMap or numbers of shape (layer, head), not {type(heads).__name__}: {error}."
        ) from error
    size = (len(mask), len(mask[0]) if mask else 0)
    if size != shape:
        raise BadOption(
            f"The head mask is for {size[0]} layers of {size[1]} heads; the model has {shape[0]} of {shape[1]}."
        )
    if any(weight < 0 for row in mask for weight in row):
        raise BadOption("The weights in a head mask must be zero or more.")
    if not any(map(any, mask)):
        raise BadOption(
            "The head mask is empty: no head is left for relevance to go through. Lower"
            " the thresholds (--positional, --syntactic) or"
            " use more data for 'wherefrom heads'."
        )
    if random is not None:
        return random_mask(mask, seed=random)
    return corrupted_mask(mask, corrupt, seed=seed) if corrupt else mask


def random_mask(mask: Sequence[Sequence[float]], *, seed: int) -> ByHead:
    """A mask of as many heads, drawn at random from all of them (the Random row of the paper's Table 1)."""
    places = [(i, j) for i, row in enumerate(mask) for j in range(len(row))]
    kept = sum(1 for row in mask for weight in row if weight)
    chosen = set(chance.Random(seed).sample(places, kept))
    return tuple(tuple(float((i, j) in chosen) for j in range(len(row))) for i, row in enumerate(mask))


def corrupted_mask(mask: Sequence[Sequence[float]], share: float, *, seed: int) -> ByHead:
    """The mask with this share of its zeros switched on (Fig. 4); all of them give the mask of ones."""
    if not 0 <= share <= 1:
        raise BadOption(f"The share of heads to switch on must be between 0 and 1, not {share}.")
    zeros = [(i, j) for i, row in enumerate(mask) for j, weight in enumerate(row) if not weight]
    chosen = set(chance.Random(seed).sample(zeros, round(share * len(zeros))))
    return tuple(
        tuple(float(weight) or float((i, j) in chosen) for j, weight in enumerate(row)) for i, row in enumerate(mask)
    )
