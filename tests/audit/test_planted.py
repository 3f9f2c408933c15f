"""An audit of a model that learnt a planted shortcut lists it first; an audit of its twin without it lists none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wherefrom
from audit.planted import LABELS, WORD, texts, trained
from wherefrom.core.audit import Audit

SEEDS = 10
TEXTS = 400


def audited(seed: int, planted: str, folder: Path) -> Audit:
    generator = np.random.default_rng(seed)
    learnt = texts(600, generator, planted=planted)
    model = wherefrom.load(trained(learnt), labels=LABELS, outputs="probabilities")
    return model.audit(texts(TEXTS, generator, planted="anywhere"), folder / f"{planted}-{seed}")


def count(seeds: int, folder: Path) -> tuple[int, int]:
    """In how many seeds the planted shortcut is listed first, and in how many the twin lists none."""
    first, none = 0, 0
    for seed in range(seeds):
        with_it, without = (audited(seed, planted, folder) for planted in ("positive", "anywhere"))
        first += [(one.kind, one.name, one.label) for one in with_it.shortcuts][:1] == [("misleads", WORD, "POSITIVE")]
        none += without.shortcuts == ()
    return first, none


def test_a_planted_shortcut_is_listed_first_and_its_twin_lists_none(tmp_path: Path) -> None:
    assert count(1, tmp_path) == (1, 1)


@pytest.mark.slow
def test_that_in_ten_seeds(tmp_path: Path) -> None:
    assert count(SEEDS, tmp_path) == (SEEDS, SEEDS)
