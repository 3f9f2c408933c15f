"""Explanations that know the plant: the oracle, its contrary, and a method's scores with the plant's taken away. They
are methods like others, so that they are graded and checked as others are.
"""

from __future__ import annotations

import random
import zlib

import torch
from torch import Tensor

from wherefrom import Case, find_method, method
from wherefrom.errors import BadOption

NOISE = 0.01  # beside scores of 1: an order among equals that knows nothing
BETWEEN = "+"  # of the words of a plant


def reference_names(words: tuple[str, ...]) -> dict[str, str]:
    """The references of a plant, as methods with their options."""
    named = BETWEEN.join(words)
    return {
        "oracle": f"plant_oracle:words={named}",
        "anti-oracle": f"plant_anti_oracle:words={named}",
        "swapped": f"plant_swapped:words={named}",
    }


def _planted(case: Case, words: str) -> list[int]:
    """The places of the planted tokens; of a phrase, where all of its words follow each other."""
    wanted = words.split(BETWEEN)
    tokens = [token.strip("Ġ▁ ").lower() for token in case.encoding.tokens]
    if not words or not set(tokens) & set(wanted):
        raise BadOption(f"The text has none of the planted words {', '.join(wanted)}.")
    for start in range(len(tokens)):
        if tokens[start : start + len(wanted)] == wanted:
            return list(range(start, start + len(wanted)))
    return [place for place, token in enumerate(tokens) if token in wanted]


def _noise(case: Case) -> Tensor:
    generator = torch.Generator().manual_seed(zlib.crc32(case.encoding.text.encode()))
    return NOISE * torch.rand(len(case.encoding), generator=generator)


@method(family="reference", signed=False, per_class=False, reads="nothing", paper="none")
def plant_oracle(case: Case, *, words: str = "") -> Tensor:
    """Plant oracle: 1 for planted tokens, next to nothing for others."""
    scores = _noise(case)
    scores[_planted(case, words)] += 1
    return scores


@method(family="reference", signed=False, per_class=False, reads="nothing", paper="none")
def plant_anti_oracle(case: Case, *, words: str = "") -> Tensor:
    """Plant anti-oracle: 1 for all tokens but the planted ones."""
    scores = 1 - _noise(case)
    scores[_planted(case, words)] -= 1
    return scores


@method(family="reference", signed=True, per_class=True, reads="modified_gradient", paper="none")
def plant_swapped(case: Case, *, words: str = "") -> Tensor:
    """Plant swapped: the scores of AttnLRP, in which planted tokens have changed places with random others."""
    found: Tensor = find_method("attn_lrp")(case).scores.detach().clone()
    planted = _planted(case, words)
    special = case.encoding.special
    others = [place for place in range(len(case.encoding)) if place not in planted and not special[place]]
    chance = random.Random(zlib.crc32(case.encoding.text.encode()))
    for place, other in zip(planted, chance.sample(others, min(len(planted), len(others))), strict=False):
        found[[place, other]] = found[[other, place]]
    return found
