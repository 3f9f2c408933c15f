"""What the study of ALTI measures on one data set with one base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wherefrom import Run
from wherefrom.errors import WherefromError
from wherefrom.heads import Tree, parse
from wherefrom.typing import Numbers
from wherefrom_studies.alti.paper import (
    ANISOTROPY_TEXTS,
    AOPC,
    DATASETS,
    METHODS,
    METRICS,
    MOST_ATTRACTORS,
    NAMES,
    RUNS,
    SEEDED,
)
from wherefrom_studies.bench import (
    LABELLED,
    PREDICTED,
    SetAndBase,
    StudyBase,
    StudyBench,
    StudyModel,
    StudyRuns,
    open_model,
)
from wherefrom_studies.data import MASK, Rows
from wherefrom_studies.decomposition import anisotropy, robustness
from wherefrom_studies.study import Measured, StudyRequest, each_set, measured_sets
from wherefrom_studies.subject_verb_agreement import subject_of


@dataclass(frozen=True)
class AltiResult:
    """All results of one data set with one base."""

    model: StudyModel
    runs: StudyRuns
    outputs: Sequence[Sequence[float]] = ()  # mean cosine of what two positions hold: (text, layer)
    parts: Sequence[Sequence[float]] = ()  # of what two tokens brought to one position
    jaccard: Numbers | None = None  # (text, method): mean over pairs of seeds
    spearman: Numbers | None = None
    curves: Sequence[Mapping[str, Numbers]] = ()  # one for each seed: how far the probability has fallen, by method
    lengths: Sequence[float] | Numbers = ()  # tokens of every text
    subjects: Sequence[tuple[int, Mapping[str, float]]] = ()  # a text's attractors, and which methods hit the subject

    @property
    def every_run(self) -> Sequence[StudyRuns]:
        return [self.runs]


AltiResults = Mapping[SetAndBase, AltiResult]


def wanted(request: StudyRequest, *, everything: bool) -> list[tuple[StudyBase, str]]:
    """The first base is measured on all sets, the others on SST-2 alone unless everything is asked for."""
    return [
        (base, name)
        for number, base in enumerate(request.bases)
        for name in request.datasets
        if everything or number == 0 or name == SEEDED or SEEDED not in request.datasets
    ]


def measure(bench: StudyBench, request: StudyRequest) -> Measured[AltiResults]:
    """Seeds: how many models of SST-2 are trained for the robustness and the bands; all tables are of the first. Like
    all data sets, they are asked of the first base, and of the others where everything is.
    """
    results: dict[SetAndBase, AltiResult] = {}
    missing: list[str] = []
    everything = bench.size.texts >= 1000
    every_set, chosen = each_set(bench, request), wanted(request, everything=everything)
    for base, name in chosen:
        seeded = name == SEEDED and (everything or base == request.bases[0])
        model = bench.model(name, base)
        results[name, base.name] = measured(bench, base, name, model, request.seeds if seeded else 1, missing)
    missing += [f"{name} with {base.name}: not measured." for base, name in every_set if (base, name) not in chosen]
    notes = [
        "What is explained is the class that the model predicts; of agreement, the right form rather than the wrong"
        " one. Special tokens are never ranked.",
        *(
            f"{name}, {base}: {len(result.curves)} models of different seeds for the bands and the robustness."
            for (name, base), result in results.items()
            if len(result.curves) > 1
        ),
    ]
    return measured_sets(bench, results, DATASETS, notes, missing)


def measured(
    bench: StudyBench, base: StudyBase, name: str, model: StudyModel, seeds: int, missing: list[str]
) -> AltiResult:
    def run(model: StudyModel, metrics: Sequence[str], seed: int = 0, target: str = PREDICTED) -> StudyRuns:
        parts = [bench.run(name, model, methods, metrics, seed=seed, target=target) for methods in RUNS]
        return StudyRuns([block for part in parts for block in part.blocks])

    runs = run(model, METRICS, target=LABELLED if name == "agreement" else PREDICTED)
    others = []
    if base.sentiment and name == SEEDED and seeds > 1:
        missing.append(f"{base.name} comes trained, once: nothing is said about its seeds.")
        seeds = 1
    for seed in range(1, seeds):
        others.append(run(bench.model(name, base, seed), [AOPC], seed))
    every = [runs, *others]
    outputs, parts = _anisotropies(bench, name, model) if name != "agreement" else ([], [])
    jaccard, spearman = similarities(every) if others else (None, None)
    subjects = _subjects(bench, model, runs, missing) if name == "agreement" else []
    curves = [drop_curves(set_runs) for set_runs in every]
    return AltiResult(model, runs, outputs, parts, jaccard, spearman, curves, runs.lengths(), subjects)


def _anisotropies(bench: StudyBench, name: str, model: StudyModel) -> tuple[list[list[float]], list[list[float]]]:
    rows = bench.texts(name, model, min(bench.size.texts, ANISOTROPY_TEXTS))

    def compute() -> list[list[list[float]]]:
        loaded, values = open_model(model), []
        for row in rows:
            similarity = anisotropy([case for _, case in loaded.cases([row["text"]], reads=["attention"])])
            values.append([similarity.outputs.tolist(), similarity.parts.tolist()])
        return values

    kept = bench.kept(f"anisotropy-{name}-{model.base}", [model.source, [row["id"] for row in rows]], compute)
    return [pair[0] for pair in kept], [pair[1] for pair in kept]


def similarities(runs: Sequence[StudyRuns]) -> tuple[Numbers, Numbers]:
    """How alike the explanations of models of different seeds are: the mean over pairs of models, for every text on
    which all of them say the same. Jaccard of the top quarters, Spearman's correlation: (text, method) each
    """
    by_seed: list[dict[str, dict[str, Any]]] = []
    for run in runs:
        by_method: dict[str, dict[str, Any]] = {method: {} for method in METHODS}
        for row in run.explanations():
            by_method[row["method"]][row["example"]] = Run.explanation(row)
        by_seed.append(by_method)
    jaccards, spearmans = [], []
    for method in METHODS:
        common = [text for text in by_seed[0][method] if all(text in seed[method] for seed in by_seed)]
        scores = robustness([[seed[method][text] for text in common] for seed in by_seed])
        with np.errstate(invalid="ignore"):
            jaccards.append(scores.jaccard.mean(0))
            there = ~np.isnan(scores.spearman)
            spearmans.append(np.where(there, scores.spearman, 0.0).sum(0) / there.sum(0))  # nan where no pair has one
    if len({len(column) for column in jaccards}) > 1:
        raise WherefromError("The methods were not run on the same texts of all seeds: some of them failed.")
    return np.stack(jaccards, 1), np.stack(spearmans, 1)


def drop_curves(runs: StudyRuns) -> dict[str, Numbers]:
    """Of every method by the paper's name, how far the probability has fallen with 0, 10, ... 100% of the text gone."""
    curves = runs.curves(AOPC)
    return {name: curves[ours] for name, ours in NAMES.items() if ours in curves}


def _subjects(
    bench: StudyBench, model: StudyModel, runs: StudyRuns, missing: list[str]
) -> list[tuple[int, dict[str, float]]]:
    """Whether each method's strongest token is the subject of the masked verb."""
    rows = bench.texts("agreement", model, bench.size.texts)
    try:
        kept = bench.kept("subjects", [row["id"] for row in rows], lambda: _spans(rows))
    except WherefromError as error:  # no parser is installed
        missing.append(f"Whether the strongest token is the subject: {error}")
        return []
    spans = {row["id"]: span for row, span in zip(rows, kept, strict=True) if span is not None}
    attractors = {row["id"]: min(int(row.get("attractors") or 0), MOST_ATTRACTORS) for row in rows}
    hits: dict[str, dict[str, float]] = {text: {} for text in spans}
    for row in runs.explanations():
        if row["example"] in spans:
            hits[row["example"]][row["method"]] = float(hits_subject(row, spans[row["example"]]))
    return [(attractors[text], counts) for text, counts in hits.items() if counts]


def _spans(rows: Rows) -> list[list[int] | None]:
    """Where the subject of each masked verb stands in its text; None where no parse names one noun in front of it."""
    places = [row["text"].index(MASK) for row in rows]
    whole = [row["text"].replace(MASK, row["label"], 1) for row in rows]
    spans = []
    for place, row, tree in zip(places, rows, parse([Tree(text) for text in whole]), strict=True):
        span = subject_of(tree, place, place + len(row["label"]))
        spans.append(None if span is None else list(span))  # it stands in front of the mask: nothing has moved
    return spans


def hits_subject(row: Mapping[str, Any], span: Sequence[int]) -> bool:
    """Whether the token with the highest score, special ones and the mask left out, lies in the span."""
    ranked = [
        (score, start, end)
        for score, (start, end), part in zip(row["scores"], row["offsets"], row["segment"], strict=True)
        if part >= 0 and not np.isneginf(score) and row["text"][start:end] != MASK
    ]
    if not ranked:
        return False
    _, start, end = max(ranked, key=lambda entry: entry[0])
    return int(start) < span[1] and int(end) > span[0]
