"""The study of Optimus: train, fit, run, and put together the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wherefrom_studies.bench import SetAndBase, StudyBase, StudyBench, provenance, seconds_of
from wherefrom_studies.optimus.judging import judged
from wherefrom_studies.optimus.measuring import OptimusFound, measured
from wherefrom_studies.optimus.paper import CONTRADICTIONS, DATASETS
from wherefrom_studies.optimus.pictures import pictures
from wherefrom_studies.optimus.tables import tables
from wherefrom_studies.pages import BASES, StudyPage


def study(bench: StudyBench, bases: Sequence[StudyBase], datasets: Sequence[str], seeds: int = 1) -> StudyPage:
    """Train, run, and put together the page. With several seeds, the models of the first are explained, and the others
    only measured.
    """
    for name in datasets:
        bench.splits(name)  # all of them first, so that a missing file is reported before hours of work
    found = {}
    for base in bases:
        for name in datasets:
            for seed in range(1, seeds):
                bench.model(name, base, seed)
            found[(name, base.name)] = measured(bench, name, base)
    return page_of(bench, found, datasets)


def page_of(bench: StudyBench, found: Mapping[SetAndBase, OptimusFound], datasets: Sequence[str]) -> StudyPage:
    runs = {key: [one.runs, *([] if one.sentences is None else [one.sentences])] for key, one in found.items()}
    facts = [
        *bench.facts({key: one.model for key, one in found.items()}, runs),
        "What is explained is the class that the model predicts, of multi-label models every predicted label.",
        f"LIME draws {200 if bench.size.quick else 2000} neighbours.",
    ]
    return StudyPage(
        name="optimus",
        title="Optimus measured again",
        about=(
            'Mylonas, Mollas and Tsoumakas, "An Attention Matrix for Every Decision: Faithfulness-based Arbitration'
            ' Among Multiple Attention-Based Interpretations of Transformers in Text Classification" (2023): its tables'
            " and figures, measured again with other models and fewer texts. B is the baseline (mean of heads, mean of"
            " layers, From), OB Optimus Batch, OP Optimus Prime, OL Optimus Label; a star stands for attention before"
            f" the softmax. {BASES}"
        ),
        facts=facts,
        tables=tables(found),
        claims=judged(found),
        pictures=pictures(bench, found),
        missing=[f"{name}: not measured." for name in DATASETS if name not in datasets],
        contradictions=CONTRADICTIONS,
        made=provenance(seconds_of(runs)),
    )
