"""The study of "Is Sparse Attention more Interpretable?" (Meister et al. 2021): train, measure, and put together the
page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wherefrom_studies.bench import StudyBench
from wherefrom_studies.pages import StudyPage
from wherefrom_studies.sparse import paper
from wherefrom_studies.sparse.judging import judged, of_training, spreads_table
from wherefrom_studies.sparse.measuring import measured
from wherefrom_studies.sparse.pictures import pictures
from wherefrom_studies.sparse.tables import tables

QUICK = (
    "This is the quick study: λ was not swept and no adversary was trained, so Tables 2 and 5 and Fig. 3 are missing."
    " Run it without --quick to get them."
)


def study(bench: StudyBench, datasets: Sequence[str], seeds: int = 1) -> StudyPage:
    """Train, measure, and put together the page.

    datasets: names; `imdb:1` is trained with that many seeds.
    """
    return page_of(measured(bench, datasets, seeds), bench.out)


def page_of(results: Mapping[str, Any], out: Path) -> StudyPage:
    """The page of all numbers; its pictures are drawn into a folder."""
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
    shown = tables(dict(results))
    if results.get("spreads"):
        shown.insert(0, spreads_table(results))
    return StudyPage(
        name="sparse",
        title="Is sparse attention more interpretable? measured again",
        about=(
            'Meister, Lazov, Augenstein and Cotterell, "Is Sparse Attention more Interpretable?" (2021): its tables,'
            " measured again."
        ),
        facts=facts,
        tables=shown,
        claims=judged(results),
        pictures=pictures(dict(results), out),
        contradictions=[f"{title} {words}" for title, words in paper.CONTRADICTIONS],
        missing=[
            *([QUICK] if results["quick"] else []),
            *(f"{title}: not measured." for name, title in paper.DATASETS.items() if name not in results["datasets"]),
            "Projections other than softmax, sparsemax and sparsegen; pretrained word vectors.",
        ],
        made=made,
        intervals="Student's 95% interval over seeds in square brackets, and ± the standard deviation over texts",
        trainings=[of_training(row) for row in results["runs"]],
    )
