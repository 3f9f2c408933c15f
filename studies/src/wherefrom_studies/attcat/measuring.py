"""What the study of AttCAT measures: its methods by its metrics, and how even the impact of each layer is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wherefrom.typing import Numbers
from wherefrom_studies.attcat.paper import ANSWER_METHODS, ANSWER_METRICS, ANSWER_SETS, DATASETS, METHODS, METRICS, OWN
from wherefrom_studies.bench import SetAndBase, StudyBench, StudyModel, StudyRuns, open_model
from wherefrom_studies.study import Measured, StudyRequest, each_set, measured_sets


@dataclass(frozen=True)
class AttcatResult:
    """All results of one data set with one base."""

    model: StudyModel  # of the first seed
    every_run: Sequence[StudyRuns]  # one for each seed
    entropies: Sequence[Sequence[float]] = ()  # of each layer's impact: (text, layer); of the first seed

    def table(self, metric: str, methods: Sequence[str], detail: str = "") -> Numbers:
        """The texts of all seeds below each other. (text, method)"""
        return np.concatenate([runs.table(metric, methods, detail) for runs in self.every_run])


AttcatResults = Mapping[SetAndBase, AttcatResult]


def text_sets(results: AttcatResults) -> dict[SetAndBase, AttcatResult]:
    return {key: result for key, result in results.items() if key[0] not in ANSWER_SETS}


def answer_sets(results: AttcatResults) -> dict[SetAndBase, AttcatResult]:
    return {key: result for key, result in results.items() if key[0] in ANSWER_SETS}


def measure(bench: StudyBench, request: StudyRequest) -> Measured[AttcatResults]:
    results = {}
    for base, name in each_set(bench, request):
        answers = name in ANSWER_SETS
        methods, metrics = (ANSWER_METHODS, ANSWER_METRICS) if answers else (METHODS, METRICS)
        models = [bench.model(name, base, seed) for seed in range(request.seeds)]
        runs = [bench.run(name, model, methods, metrics, seed=seed) for seed, model in enumerate(models)]
        entropies = [] if answers else entropies_of(bench, (name, base.name), models[0], runs[0])
        results[name, base.name] = AttcatResult(models[0], runs, entropies)
    explained = "What is explained is the class that the model predicts; special tokens are never ranked."
    return measured_sets(bench, results, DATASETS, [explained])


def layer_entropies(layers: Sequence[Sequence[float]], special: Sequence[bool]) -> list[float]:
    """How evenly the size of a layer's impact is spread over the tokens of the text: 1 where all are alike, 0 where one
    has everything.
    """
    entropies = []
    for layer in layers:
        sizes = np.abs(np.array([score for score, left_out in zip(layer, special, strict=True) if not left_out]))
        shares = sizes / sizes.sum() if sizes.sum() else np.full(len(sizes), 1 / max(len(sizes), 1))
        known = shares[shares > 0]
        entropies.append(float(-(known * np.log(known)).sum() / np.log(len(sizes))) if len(sizes) > 1 else 0.0)
    return entropies


def entropies_of(bench: StudyBench, key: SetAndBase, model: StudyModel, runs: StudyRuns) -> list[list[float]]:
    """Of every text, the entropy of each layer's impact."""
    rows = [(row["text"], row["pair"]) for row in runs.explanations() if row["method"] == OWN]

    def compute() -> list[list[float]]:
        loaded = open_model(model)
        values = []
        for text, pair in rows:
            explanation = loaded.explain(text if pair is None else (text, pair), OWN)
            values.append(layer_entropies(explanation.layers or (), explanation.special))
        return values

    kept: list[list[float]] = bench.kept(f"entropies-{key[0]}-{key[1]}", [model.source, rows], compute)
    return kept
