"""Masks over tokens from units, by hand."""

from __future__ import annotations

import numpy as np

from wherefrom.core.masks import masks_without, token_masks, unit_masks

MEMBERS = ((0,), (1, 3), (2,))  # the second unit is in two pieces


def test_masks_by_hand() -> None:
    assert unit_masks(MEMBERS, 4).astype(int).tolist() == [[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0]]
    hidden = masks_without(MEMBERS, [(1,), (0, 2), ()], 4)
    assert hidden.astype(int).tolist() == [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]


def test_masks_of_tokens_follow_their_units() -> None:
    keep = np.array([[True, False, True], [False, True, False]])
    assert token_masks(keep, MEMBERS, 4).astype(int).tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]
    choices = [np.flatnonzero(~row).tolist() for row in keep]
    np.testing.assert_array_equal(token_masks(keep, MEMBERS, 4), masks_without(MEMBERS, choices, 4))


def test_no_units() -> None:
    assert unit_masks((), 2).shape == (0, 2)
    assert masks_without((), [], 2).shape == (0, 2)
