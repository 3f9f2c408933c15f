"""From units (words, sentences, chosen spans) to masks over tokens. members: the tokens of every unit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wherefrom.core.arrays import Flags

Members = Sequence[Sequence[int]]


def unit_masks(members: Members, tokens: int) -> Flags:
    """Which tokens belong to each unit. (unit, token)"""
    masks = np.zeros((len(members), tokens), dtype=np.bool_)
    for mask, group in zip(masks, members, strict=True):
        mask[list(group)] = True
    return masks


def masks_without(members: Members, choices: Sequence[Sequence[int]], tokens: int) -> Flags:
    """Which tokens are left where the units of each choice are hidden. (choice, token)"""
    masks = np.ones((len(choices), tokens), dtype=np.bool_)
    for mask, choice in zip(masks, choices, strict=True):
        mask[[token for unit in choice for token in members[unit]]] = False
    return masks


def token_masks(keep: Flags, members: Members, tokens: int) -> Flags:
    """Which tokens are left where these units are: every token belongs to one unit. (row, unit) -> (row, token)"""
    unit_of = np.empty(tokens, dtype=np.int64)
    for unit, group in enumerate(members):
        unit_of[list(group)] = unit
    return keep[:, unit_of]
