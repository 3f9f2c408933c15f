"""The queue of the study of methods: which data sets, models and numbers of texts are wanted, most valuable first.

Every step adds a block of texts to the results of one data set, base and seed, which are stored at once. So the queue
can be stopped at any time, and continues on another machine from the stored results alone: what they contain is not
measured again, and a model that is needed once more is trained by its recipe.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from wherefrom_studies.bench import BLOCK, StudyBase, StudyBench
from wherefrom_studies.data import SETS
from wherefrom_studies.methods import STUDY, TASKS, measure_set
from wherefrom_studies.results import ResultKey, StoredResults, read_results, store_results

STAGES = (25, 50, 100, 200)  # every data set reaches a stage before any is taken to the next
SHORT = ("one sentence", "pairs of texts")
TEXTS = {name: 200 if task in SHORT else 100 for task, names in TASKS.items() for name in names}
# The data sets, most valuable first: short texts that every method can afford, then the others.
ORDER = (
    *("sst2", "mnli", "hatexplain", "qqp", "esnli", "yelp", "amazon", "ethos", "ais", "hummingbird", "agreement"),
    *("squad1", "squad2", "imdb", "movies", "hoc", "next_word"),
)
SEEDS = 3  # of the first base, for the short texts
SEEDED = tuple(name for task in SHORT for name in TASKS[task])


class Job(NamedTuple):
    """So many texts of a data set, with a model of a base."""

    base: StudyBase
    dataset: str
    texts: int
    seed: int = 0

    @property
    def key(self) -> ResultKey:
        return ResultKey(STUDY.name, self.dataset, self.base.name, self.seed)


def jobs(bases: Sequence[StudyBase], datasets: Sequence[str]) -> list[Job]:
    """Everything that is wanted, most valuable first: few texts of every set before many of any, and one seed of every
    base before the others of the first.
    """
    found = []
    for stage in STAGES:
        for seed in range(SEEDS):
            for base in bases[: 1 if seed else None]:
                for name in datasets:
                    if base.causal != (SETS[name].task == "next_word") or (seed and name not in SEEDED):
                        continue
                    found.append(Job(base, name, min(stage, TEXTS[name]), seed))
    return list(dict.fromkeys(found))


def steps(wanted: Sequence[Job], stored: Mapping[ResultKey, StoredResults]) -> Iterator[Job]:
    """The jobs that are missing, cut into blocks of texts."""
    done = {key: one.texts for key, one in stored.items()}
    for job in wanted:
        start = done.get(job.key, 0)
        for texts in range(start - start % BLOCK + BLOCK, job.texts + BLOCK, BLOCK):
            yield job._replace(texts=min(texts, job.texts))
        done[job.key] = max(start, job.texts)


def work(
    bench: StudyBench,
    results: Path,
    wanted: Sequence[Job],
    seconds: float | None = None,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[Job]:
    """Measure what is missing and store it, a block at a time; yields every step when its results are stored.

    seconds: begin no step after so long, by the clock `now`.
    """
    end = None if seconds is None else now() + seconds
    for job in steps(wanted, read_results(results, STUDY.name)):
        if end is not None and now() >= end:
            return
        found = measure_set(replace(bench, size=bench.size._replace(texts=job.texts)), job.base, job.dataset, job.seed)
        store_results(results, job.key, found.model, found.every_run)
        yield job


class Progress(NamedTuple):
    """How far the results of one data set, base and seed are."""

    key: ResultKey
    texts: int
    wanted: int
    seconds: float | None  # that the rest takes, without training; unknown where nothing was measured


def progress(wanted: Sequence[Job], stored: Mapping[ResultKey, StoredResults]) -> list[Progress]:
    """How far every data set, base and seed is, in the order in which they are begun."""
    goals: dict[ResultKey, int] = {}
    for job in wanted:
        goals[job.key] = max(goals.get(job.key, 0), job.texts)
    found = []
    for key, goal in goals.items():
        texts = stored[key].texts if key in stored else 0
        each = stored[key].runs.seconds / texts if texts else None
        found.append(Progress(key, texts, goal, None if each is None else each * max(0, goal - texts)))
    return found
