"""The one shape of every study: what it measures, and how its page is made of the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from wherefrom_studies.bench import (
    SetAndBase,
    StudyBase,
    StudyBench,
    StudyModel,
    StudyRuns,
    provenance,
    seconds_of,
)
from wherefrom_studies.claims import JudgedClaim, corrected
from wherefrom_studies.pages import OVER_TEXTS, StudyPage, StudyPicture, StudyTable

Results = TypeVar("Results")


class StudyRequest(NamedTuple):
    """What a study is to measure."""

    bases: Sequence[StudyBase] = ()
    datasets: Sequence[str] = ()
    seeds: int = 1


@dataclass(frozen=True)
class Measured(Generic[Results]):
    """The results of a study, and what its page says about their making."""

    results: Results
    facts: list[str]
    made: dict[str, Any]
    missing: list[str] = field(default_factory=list)  # what was not reached
    tables: list[StudyTable] = field(default_factory=list)  # beyond those that are made of the results
    trainings: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Study(Generic[Results]):
    """A paper's experiments. `measure` is resumable: it reads from the bench's folder what is there."""

    name: str
    title: str
    about: str
    measure: Callable[[StudyBench, StudyRequest], Measured[Results]]
    tables: Callable[[Results], list[StudyTable]]
    judged: Callable[[Results], list[JudgedClaim]] = lambda _: []
    pictures: Callable[[Results, Path], list[StudyPicture]] = lambda _results, _folder: []
    contradictions: Sequence[str] = ()  # of the paper with itself
    intervals: str = OVER_TEXTS


def run_study(study: Study[Results], bench: StudyBench, request: StudyRequest) -> StudyPage:
    """Measure what is missing, and make the page; its pictures are drawn into the bench's folder."""
    return page_of(study, study.measure(bench, request), bench.out)


def page_of(study: Study[Results], measured: Measured[Results], folder: Path) -> StudyPage:
    """The page of results; its pictures are drawn into a folder."""
    return StudyPage(
        name=study.name,
        title=study.title,
        about=study.about,
        facts=measured.facts,
        tables=[*study.tables(measured.results), *measured.tables],
        claims=corrected(study.judged(measured.results)),
        pictures=study.pictures(measured.results, folder),
        missing=measured.missing,
        contradictions=list(study.contradictions),
        made=measured.made,
        intervals=study.intervals,
        trainings=measured.trainings,
    )


# Studies that measure data sets with bases


class SetResults(Protocol):
    """What such a study keeps of every data set with a base."""

    @property
    def model(self) -> StudyModel: ...

    @property
    def every_run(self) -> Sequence[StudyRuns]:
        """All runs that count as the study's cost; the texts of the first are those measured on."""
        ...


SetResult = TypeVar("SetResult", bound=SetResults)


def each_set(bench: StudyBench, request: StudyRequest) -> list[tuple[StudyBase, str]]:
    """The bases with the data sets, whose files are all read first: a missing one is reported before hours of work."""
    for name in request.datasets:
        bench.splits(name)
    return [(base, name) for base in request.bases for name in request.datasets]


def measured_sets(
    bench: StudyBench,
    results: Mapping[SetAndBase, SetResult],
    known: Sequence[str],
    notes: Sequence[str],
    missing: Sequence[str] = (),
    tables: Sequence[StudyTable] = (),
) -> Measured[Mapping[SetAndBase, SetResult]]:
    """Results by data set and base, with the facts about their models and runs.

    known: the data sets of the study; those without a result are reported as missing.
    notes: more facts.
    """
    runs = {key: result.every_run for key, result in results.items()}
    measured = {name for name, _ in results}
    return Measured(
        results,
        [*bench.facts({key: result.model for key, result in results.items()}, runs), *notes],
        provenance(seconds_of(runs)),
        [*(f"{name}: not measured." for name in known if name not in measured), *missing],
        list(tables),
    )
