"""Numbers of the study of AttCAT that a run does not give: seeds together, and how even each layer is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wherefrom.typing import Numbers
from wherefrom_studies.attcat.paper import OWN
from wherefrom_studies.bench import SetAndBase, StudyBench, StudyModel, StudyRuns, open_model


def stacked(runs: Sequence[StudyRuns], metric: str, methods: Sequence[str], detail: str = "") -> Numbers:
    """The texts of all seeds below each other. (text, method)"""
    return np.concatenate([one.table(metric, methods, detail) for one in runs])


def layer_entropies(layers: Sequence[Sequence[float]], special: Sequence[bool]) -> list[float]:
    """How evenly the size of a layer's impact is spread over the tokens of the text: 1 where all are alike, 0 where one
    has everything.
    """
    found = []
    for layer in layers:
        sizes = np.abs(np.array([one for one, left_out in zip(layer, special, strict=True) if not left_out]))
        shares = sizes / sizes.sum() if sizes.sum() else np.full(len(sizes), 1 / max(len(sizes), 1))
        known = shares[shares > 0]
        found.append(float(-(known * np.log(known)).sum() / np.log(len(sizes))) if len(sizes) > 1 else 0.0)
    return found


def entropies_of(bench: StudyBench, key: SetAndBase, model: StudyModel, runs: StudyRuns) -> list[list[float]]:
    """Of every text, the entropy of each layer's impact."""
    rows = [(row["text"], row["pair"]) for row in runs.explanations() if row["method"] == OWN]

    def compute() -> list[list[float]]:
        loaded = open_model(model)
        found = []
        for text, pair in rows:
            explanation = loaded.explain(text if pair is None else (text, pair), OWN)
            found.append(layer_entropies(explanation.layers or (), explanation.special))
        return found

    kept: list[list[float]] = bench.kept(f"entropies-{key[0]}-{key[1]}", [model.source, rows], compute)
    return kept
