"""The study of "Is Sparse Attention more Interpretable?" (Meister et al. 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wherefrom_studies.bench import StudyBench
from wherefrom_studies.sparse import paper
from wherefrom_studies.sparse.judging import judged, of_training
from wherefrom_studies.sparse.measuring import measured
from wherefrom_studies.sparse.pictures import pictures
from wherefrom_studies.sparse.tables import tables
from wherefrom_studies.study import Measured, Study, StudyRequest

QUICK = (
    "This is the quick study: λ was not swept and no adversary was trained, so Tables 2 and 5 and Fig. 3 are missing."
    " Run it without --quick to get them."
)


def measure(bench: StudyBench, request: StudyRequest) -> Measured[Mapping[str, Any]]:
    """Data sets are names; `imdb:1` is trained with that many seeds."""
    return described(measured(bench, request.datasets, request.seeds))


def described(results: Mapping[str, Any]) -> Measured[Mapping[str, Any]]:
    """All numbers, with the facts about their making."""
    made = dict(results["made"])
    seeds = {
        name: len({row["seed"] for row in results["runs"] if row["dataset"] == name}) for name in results["datasets"]
    }
    facts = [
        *(
            f"{paper.DATASETS[name]}: {sizes['train']:,} texts to train on, {sizes['dev']:,} to choose by, and"
            f" {sizes['test']:,} to measure on; {seeds[name]} seed{'' if seeds[name] == 1 else 's'}."
            for name, sizes in results["datasets"].items()
        ),
        f"{made['seconds'] / 60:.0f} minutes of one processor on {made['machine']}, {made['date']}.",
        "Word vectors are learned from random values; the paper starts from pretrained ones. The frozen Transformer's"
        " adversary learns at ten times the rate of the classifier.",
    ]
    missing = [
        *([QUICK] if results["quick"] else []),
        *(f"{title}: not measured." for name, title in paper.DATASETS.items() if name not in results["datasets"]),
        "Projections other than softmax, sparsemax and sparsegen; pretrained word vectors.",
    ]
    return Measured(results, facts, made, missing, trainings=[of_training(row) for row in results["runs"]])


STUDY = Study(
    name="sparse",
    title="Is sparse attention more interpretable? measured again",
    about=(
        'Meister, Lazov, Augenstein and Cotterell, "Is Sparse Attention more Interpretable?" (2021): its tables,'
        " measured again."
    ),
    measure=measure,
    tables=tables,
    judged=judged,
    pictures=pictures,
    contradictions=[f"{title} {words}" for title, words in paper.CONTRADICTIONS],
    intervals="Student's 95% interval over seeds in square brackets, and ± the standard deviation over texts",
)
