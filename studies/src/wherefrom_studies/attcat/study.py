"""The study of AttCAT: train, run, and put together the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wherefrom_studies.attcat.judging import judged
from wherefrom_studies.attcat.measuring import entropies_of
from wherefrom_studies.attcat.paper import (
    ANSWER_METHODS,
    ANSWER_METRICS,
    ANSWER_SETS,
    CONTRADICTIONS,
    DATASETS,
    METHODS,
    METRICS,
    TEXT_SETS,
)
from wherefrom_studies.attcat.pictures import pictures
from wherefrom_studies.attcat.tables import tables
from wherefrom_studies.bench import SetAndBase, StudyBase, StudyBench, StudyModel, StudyRuns, provenance, seconds_of
from wherefrom_studies.pages import BASES, StudyPage


def study(bench: StudyBench, bases: Sequence[StudyBase], datasets: Sequence[str], seeds: int = 1) -> StudyPage:
    """Train, run, and put together the page."""
    for name in datasets:
        bench.splits(name)  # all of them first, so that a missing file is reported before hours of work
    models: dict[SetAndBase, StudyModel] = {}
    found: dict[SetAndBase, list[StudyRuns]] = {}
    for base in bases:
        for name in datasets:
            answers = name in ANSWER_SETS
            for seed in range(seeds):
                model = bench.model(name, base, seed)
                models.setdefault((name, base.name), model)
                methods, metrics = (ANSWER_METHODS, ANSWER_METRICS) if answers else (METHODS, METRICS)
                found.setdefault((name, base.name), []).append(bench.run(name, model, methods, metrics, seed=seed))
    return page_of(bench, models, found, bases, datasets)


def page_of(
    bench: StudyBench,
    models: Mapping[SetAndBase, StudyModel],
    found: Mapping[SetAndBase, Sequence[StudyRuns]],
    bases: Sequence[StudyBase],
    datasets: Sequence[str],
) -> StudyPage:
    texts = {key: value for key, value in found.items() if key[0] in TEXT_SETS}
    answers = {key: value for key, value in found.items() if key[0] in ANSWER_SETS}
    entropies = {key: entropies_of(bench, key, models[key], value[0]) for key, value in texts.items()}
    facts = [
        *bench.facts(models, found),
        "What is explained is the class that the model predicts; special tokens are never ranked.",
    ]
    missing = [f"{name}: not measured." for name in DATASETS if name not in datasets]
    missing += [
        f"{name} with {base.name}: not measured."
        for base in bases
        for name in datasets
        if (name, base.name) not in found
    ]
    return StudyPage(
        name="attcat",
        title="AttCAT measured again",
        about=(
            'Qiang, Pan, Li, Li, Jang and Zhu, "AttCAT: Explaining Transformers via Attentive Class Activation'
            f' Tokens" (2022): its tables and figures, measured again with other models and fewer texts. {BASES}'
        ),
        facts=facts,
        tables=tables(texts, answers, entropies),
        claims=judged(texts, answers, entropies),
        pictures=pictures(bench, models),
        missing=missing,
        contradictions=CONTRADICTIONS,
        made=provenance(seconds_of(found)),
    )
