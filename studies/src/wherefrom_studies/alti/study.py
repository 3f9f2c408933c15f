"""The study of ALTI: train, run, and put together the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wherefrom_studies.alti.judging import judged
from wherefrom_studies.alti.measuring import AltiFound, measured
from wherefrom_studies.alti.paper import CONTRADICTIONS, DATASETS, SEEDED
from wherefrom_studies.alti.pictures import pictures
from wherefrom_studies.alti.tables import tables
from wherefrom_studies.bench import SetAndBase, StudyBase, StudyBench, StudyModel, provenance, seconds_of
from wherefrom_studies.pages import BASES, StudyPage


def wanted(bases: Sequence[StudyBase], datasets: Sequence[str], *, everything: bool) -> list[tuple[StudyBase, str]]:
    """The first base is measured on all sets, the others on SST-2 alone unless everything is asked for."""
    return [
        (base, name)
        for number, base in enumerate(bases)
        for name in datasets
        if everything or number == 0 or name == SEEDED or SEEDED not in datasets
    ]


def study(bench: StudyBench, bases: Sequence[StudyBase], datasets: Sequence[str], seeds: int = 5) -> StudyPage:
    """Train, run, and put together the page.

    seeds: how many models of SST-2 are trained for the robustness and the bands; all tables are of the first. Like all
    data sets, they are asked of the first base, and of the others where everything is.
    """
    for name in datasets:
        bench.splits(name)  # all of them first, so that a missing file is reported before hours of work
    models: dict[SetAndBase, StudyModel] = {}
    found: dict[SetAndBase, AltiFound] = {}
    missing = [f"{name}: not measured." for name in DATASETS if name not in datasets]
    everything = bench.size.texts >= 1000
    chosen = wanted(bases, datasets, everything=everything)
    for base, name in chosen:
        key = (name, base.name)
        models[key] = bench.model(name, base)
        seeded = name == SEEDED and (everything or base == bases[0])
        found[key] = measured(bench, base, name, models[key], seeds if seeded else 1, missing)
    missing += [
        f"{name} with {base.name}: not measured."
        for base in bases
        for name in datasets
        if (base, name) not in chosen
    ]  # fmt: skip
    return page_of(bench, models, found, missing)


def page_of(
    bench: StudyBench,
    models: Mapping[SetAndBase, StudyModel],
    found: Mapping[SetAndBase, AltiFound],
    missing: Sequence[str],
) -> StudyPage:
    runs = {key: [one.runs] for key, one in found.items()}
    facts = [
        *bench.facts(models, runs),
        "What is explained is the class that the model predicts; of agreement, the right form rather than the wrong"
        " one. Special tokens are never ranked.",
        *(
            f"{name}, {base}: {len(one.curves)} models of different seeds for the bands and the robustness."
            for (name, base), one in found.items()
            if len(one.curves) > 1
        ),
    ]
    return StudyPage(
        name="alti",
        title="ALTI measured again",
        about=(
            'Ferrando, Gállego and Costa-jussà, "Measuring the Mixing of Contextual Information in the Transformer"'
            f" (2022): its tables and figures, measured again with other models and fewer texts. {BASES}"
        ),
        facts=facts,
        tables=tables(found),
        claims=judged(found),
        pictures=pictures(bench.out, models, found),
        missing=list(missing),
        contradictions=CONTRADICTIONS,
        made=provenance(seconds_of(runs)),
    )
