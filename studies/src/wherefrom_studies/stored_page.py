"""The page of the study of methods, made of stored results alone: the same page on every machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas

from wherefrom.errors import BadFile
from wherefrom_studies.bench import StudyBench, StudyRuns, model_facts, seconds_of
from wherefrom_studies.methods import DATASETS, EXPLAINED, OF_CLASSES, STUDY, MethodsResult, MethodsResults
from wherefrom_studies.results import ResultKey, StoredResults, StoredRuns, read_results
from wherefrom_studies.study import Measured, Study, StudyRequest


def stored_study(folder: Path) -> Study[MethodsResults]:
    """The study of methods that reads its results from a folder, and measures nothing."""
    stored = read_results(folder, STUDY.name)
    if not stored:
        raise BadFile(f"There are no results in {folder / STUDY.name}: run 'wherefrom study queue' first.")
    results = {(key.dataset, column_of(key)): result_of(one) for key, one in stored.items()}
    runs = {key: result.every_run for key, result in results.items()}
    machines = sorted({str(made["machine"]) for one in stored.values() for made in one.made})
    measured = {name for name, _ in results}

    def measure(bench: StudyBench, request: StudyRequest) -> Measured[MethodsResults]:
        del request
        facts = [
            *model_facts({key: result.model for key, result in results.items()}),
            bench.texts_fact({key: result.runs.texts for key, result in results.items()}),
            f"{seconds_of(runs) / 60:.0f} minutes of measuring on {'; '.join(machines)}, one thread;"
            f" {sum(one.runs.errors for one in results.values())} errors.",
            EXPLAINED,
        ]
        made = {one.key.file: list(one.made) for one in stored.values()}
        return Measured(results, facts, made, [f"{name}: not measured." for name in DATASETS if name not in measured])

    return replace(STUDY, measure=measure)


def column_of(key: ResultKey) -> str:
    """The base as a column of the page names it. Models of several seeds are shown apart."""
    return f"{key.base} seed {key.seed}" if key.seed else key.base


def result_of(stored: StoredResults) -> MethodsResult:
    """The results of a file. Those by class are in the same table, and their cost is counted with the others."""
    if OF_CLASSES not in set(stored.runs.scores["metric"]):
        return MethodsResult(stored.model, stored.runs)
    free = StoredRuns(stored.runs.scores, stored.runs.alone(), pandas.DataFrame({"seconds": [0.0]}))
    return MethodsResult(stored.model, stored.runs, StudyRuns([free]))
