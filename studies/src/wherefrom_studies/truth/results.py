"""The measurements of the study as arrays, and as one small file that can be kept beside the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from wherefrom.errors import BadFile, MissingExtra
from wherefrom.files import replacing
from wherefrom.typing import Numbers
from wherefrom_studies.truth.measuring import METHODS, METRICS, RANDOM, REFERENCES, Record

NAMES = (*METHODS, *RANDOM, *REFERENCES)
TRUTH = ("precision", "found_all", "found_one", "rank", "decoy")
VERDICTS = ("too short", "not supported", "weak", "supported")
COLUMNS = (*TRUTH, *METRICS, "verdict", "passes", "seconds")
TEXT_COLUMNS = ("units", "planted", "probability")


@dataclass(frozen=True)
class TruthResults:
    """Every planted model with its proof, and the values of every text, method and column of those that use it."""

    models: Sequence[Record]
    values: Mapping[str, Numbers]  # by model: (text, method, column), NaN where there is none

    @cached_property
    def used(self) -> dict[str, Record]:
        """The models that use their plant and have texts."""
        return {row["model"]: row for row in self.models if row["holds"] and row["model"] in self.values}

    def kinds(self) -> list[str]:
        return list(dict.fromkeys(row["kind"] for row in self.used.values()))

    def of_kind(self, kind: str | None) -> dict[str, Numbers]:
        """The values of the models of a kind; of all kinds."""
        return {name: self.values[name] for name, row in self.used.items() if kind in (None, row["kind"])}


def results_of(models: Sequence[Record], texts: Sequence[Record]) -> TruthResults:
    """From the records of the journals."""
    by_model: dict[str, list[Numbers]] = {}
    for record in texts:
        if "methods" in record:
            by_model.setdefault(record["model"], []).append(_row(record["methods"]))
    return TruthResults(models, {name: np.array(rows) for name, rows in by_model.items()})


def _row(methods: Mapping[str, Mapping[str, Any]]) -> Numbers:
    found = np.full((len(NAMES), len(COLUMNS)), np.nan)
    for place, name in enumerate(NAMES):
        for number, column in enumerate(COLUMNS):
            value = methods.get(name, {}).get(column)
            if value is not None:
                found[place, number] = VERDICTS.index(value) if column == "verdict" else value
    return found


def write_results(results: TruthResults, path: Path) -> None:
    """One Parquet file: the models' records beside one row for each text and method."""
    pandas = _pandas()
    parts = []
    for name, values in results.values.items():
        texts, methods = values.shape[:2]
        frame = pandas.DataFrame(values.reshape(-1, len(COLUMNS)).astype(np.float32), columns=list(COLUMNS))
        frame.insert(0, "method", np.tile(NAMES, texts))
        frame.insert(0, "text", np.repeat(np.arange(texts), methods))
        frame.insert(0, "model", name)
        parts.append(frame[frame[list(COLUMNS)].notna().any(axis=1)])
    together = pandas.concat(parts, ignore_index=True)
    together.attrs = {"models": list(results.models)}
    for column in ("model", "method"):
        together[column] = together[column].astype("category")
    with replacing(path) as unfinished:
        together.to_parquet(unfinished, compression="zstd", index=False)


def read_results(path: Path) -> TruthResults:
    """What `write_results` wrote."""
    pandas = _pandas()
    try:
        frame = pandas.read_parquet(path)
        models = frame.attrs["models"]
    except (OSError, ValueError, KeyError) as error:
        raise BadFile(f"{path} does not hold the results of this study: {error}.") from error
    values = {}
    for name, rows in frame.groupby("model", observed=True, sort=False):
        found = np.full((int(rows["text"].max()) + 1, len(NAMES), len(COLUMNS)), np.nan)
        places = [NAMES.index(method) for method in rows["method"]]
        for number, column in enumerate(COLUMNS):
            found[rows["text"].to_numpy(), places, number] = rows[column].to_numpy()
        values[str(name)] = found
    return TruthResults(models, values)


def _pandas() -> Any:
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise MissingExtra("A study", "bench") from error
    return pandas


def column(values: Numbers, name: str) -> Numbers:
    """One column. (text, method)"""
    found: Numbers = values[:, :, COLUMNS.index(name)]
    return found
