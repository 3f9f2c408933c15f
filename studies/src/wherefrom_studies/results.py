"""Results that outlive a machine: every text's values as Parquet, without texts, models and run folders.

One file for each data set, base and seed of a study. A row is the value of one text, method and metric; the cost of a
method is the mean over texts, in rows without a text. Files have the same columns, so that a folder of them can be read
as one table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wherefrom.errors import BadFile, BadOption, MissingExtra
from wherefrom.files import replacing
from wherefrom_studies.bench import StudyModel, StudyRuns, make_folder, provenance

if TYPE_CHECKING:
    import pandas
    import pyarrow

KEYS = ("study", "dataset", "base", "seed")
COLUMNS = (*KEYS, "example", "method", "metric", "value")
COSTS = ("seconds", "forwards", "backwards")  # "metrics" of the rows without a text
ABOUT = b"wherefrom_study"  # the key of what a file says about itself, in its metadata
VERSION = 1


class ResultKey(NamedTuple):
    """What a file contains the results of."""

    study: str
    dataset: str
    base: str
    seed: int = 0

    @property
    def file(self) -> str:
        return f"{self.dataset}-{self.base}{f'-seed{self.seed}' if self.seed else ''}.parquet"


@dataclass(frozen=True)
class StoredRuns:
    """A file of results, in the form in which a study reads its runs."""

    scores: pandas.DataFrame
    alone: pandas.DataFrame  # the mean cost of every method
    costs: pandas.DataFrame
    errors: Sequence[str] = ()

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        raise BadOption(f"Stored results contain no {table}: measure them again with --data-dir.")


@dataclass(frozen=True)
class StoredResults:
    """The results of one data set, base and seed."""

    key: ResultKey
    model: StudyModel
    runs: StudyRuns
    made: Sequence[Mapping[str, Any]]  # where and when, one entry for each time that texts were added

    @property
    def texts(self) -> int:
        return self.runs.texts


def store_results(folder: Path, key: ResultKey, model: StudyModel, several: Sequence[StudyRuns]) -> Path:
    """Write the results of runs on the same texts into a folder, in place of those that are there."""
    pandas, pyarrow, parquet = _packages()
    path = folder / key.study / key.file
    earlier = list(read_file(path).made) if path.is_file() else []
    # The frames of a run have more columns; an example with several targets counts by their mean.
    scores = pandas.concat([runs.scores[list(COLUMNS[4:])] for runs in several])
    scores = scores.groupby(["example", "method", "metric"], as_index=False, sort=True, dropna=False)["value"].mean()
    alone = pandas.concat([runs.alone() for runs in several[:1]])
    means = alone.groupby("method", as_index=False)[list(COSTS)].mean()
    costs = means.melt(id_vars="method", var_name="metric", value_name="value").assign(example="")
    frame = pandas.concat([scores, costs], ignore_index=True)
    frame = frame.assign(**dict(zip(KEYS, key, strict=True)))[list(COLUMNS)]
    seconds = sum(runs.seconds for runs in several)
    about = {
        "version": VERSION,
        "model": model._asdict() | {"source": Path(model.source).name},
        "seconds": seconds,
        "errors": sum(runs.errors for runs in several),
        "made": [*earlier, provenance(seconds) | {"texts": int(scores["example"].nunique())}],
    }
    table = pyarrow.Table.from_pandas(frame, schema=_schema(), preserve_index=False)
    make_folder(path.parent)
    with replacing(path) as unfinished:
        parquet.write_table(
            table.replace_schema_metadata({ABOUT: json.dumps(about)}),
            unfinished,
            compression="zstd",
            use_dictionary=True,
        )
    return path


def read_results(folder: Path, study: str) -> dict[ResultKey, StoredResults]:
    """All results of a study in a folder, by data set, base and seed."""
    found = sorted((read_file(path) for path in (folder / study).glob("*.parquet")), key=lambda stored: stored.key)
    return {stored.key: stored for stored in found}


def read_file(path: Path) -> StoredResults:
    pandas, pyarrow, parquet = _packages()
    try:
        table = parquet.read_table(path)
        about = json.loads((table.schema.metadata or {})[ABOUT])
        frame = table.cast(_schema()).to_pandas()
        key = ResultKey(*frame[list(KEYS)].iloc[0])
        is_cost = frame["example"].astype(str) == ""
        alone = (
            frame[is_cost].pivot_table(index="method", columns="metric", values="value", observed=True).reset_index()
        )
        stored = StoredRuns(
            scores=frame[~is_cost].astype(dict.fromkeys(("example", "method", "metric"), str)),
            alone=alone.astype({"method": str}),
            costs=pandas.DataFrame({"seconds": [float(about["seconds"])]}),
            errors=[""] * int(about["errors"]),
        )
        model = StudyModel(**about["model"])
    except (OSError, KeyError, TypeError, ValueError, IndexError, pyarrow.ArrowException) as error:
        raise BadFile(f"{path} does not contain results of a study: {error}.") from error
    return StoredResults(key, model, StudyRuns([stored]), about["made"])


def _schema() -> pyarrow.Schema:
    _, pyarrow, _ = _packages()
    names = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    kinds = {"seed": pyarrow.int32(), "value": pyarrow.float32()}
    return pyarrow.schema([(name, kinds.get(name, names)) for name in COLUMNS])


def _packages() -> tuple[Any, Any, Any]:
    try:
        import pandas
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise MissingExtra("A study", "bench") from error
    return pandas, pyarrow, pyarrow.parquet
