"""The study of Mask-LRP: train, find heads, run, and put together the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wherefrom_studies.bench import SetAndBase, StudyBase, StudyBench, StudyModel, provenance, seconds_of
from wherefrom_studies.mask_lrp.judging import judged
from wherefrom_studies.mask_lrp.measuring import MaskFound, measured, parser_check
from wherefrom_studies.mask_lrp.paper import CONTRADICTIONS, DATASETS
from wherefrom_studies.mask_lrp.pictures import pictures
from wherefrom_studies.mask_lrp.tables import tables
from wherefrom_studies.pages import BASES, StudyPage


def study(bench: StudyBench, bases: Sequence[StudyBase], datasets: Sequence[str], seeds: int = 5) -> StudyPage:
    """Train, find heads, run, and put together the page.

    seeds: how many random masks, and corrupted masks of every share.
    """
    for name in datasets:
        bench.splits(name)  # all of them first, so that a missing file is reported before hours of work
    models: dict[SetAndBase, StudyModel] = {}
    found: dict[SetAndBase, MaskFound] = {}
    missing = [f"{name}: not measured." for name in DATASETS if name not in datasets]
    for base in bases:
        for name in datasets:
            key = (name, base.name)
            models[key] = bench.model(name, base)
            one = measured(bench, name, models[key], seeds, missing)
            if one is not None:
                found[key] = one
    parser = parser_check(bench, models[next(iter(models))], missing)
    return page_of(bench, models, found, parser, missing)


def page_of(
    bench: StudyBench,
    models: Mapping[SetAndBase, StudyModel],
    found: Mapping[SetAndBase, MaskFound],
    parser: Sequence[tuple[str, Sequence[str]]],
    missing: Sequence[str],
) -> StudyPage:
    runs = {
        key: [one.runs, *([] if one.corrupted_runs is None else [one.corrupted_runs])] for key, one in found.items()
    }
    facts = [
        *bench.facts(models, runs),
        f"Heads were found on {bench.size.validation} other texts of each set, at most; QQP has duplicates alone.",
        "What is explained is the class that the model predicts; special tokens are never ranked.",
    ]
    return StudyPage(
        name="mask-lrp",
        title="Mask-LRP measured again",
        about=(
            'Song et al., "Better Explain Transformers by Illuminating Important Information" (2024): its tables and'
            f" figures, measured again with other models and fewer texts. {BASES}"
        ),
        facts=facts,
        tables=tables(found, parser),
        claims=judged(found),
        pictures=pictures(bench.out, models, found),
        missing=[*missing, "GPT-2 and RoBERTa on SQuAD (the other columns of Table 2)."],
        contradictions=CONTRADICTIONS,
        made=provenance(seconds_of(runs)),
    )
