"""Files as streams of records, each with the place it was read from: JSON lines, CSV, TSV, Parquet and Hugging Face
data sets.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from wherefrom.core.files import read_json_lines, reading
from wherefrom.errors import BadFile, MissingExtra
from wherefrom.registry import Record

LONGEST_FIELD = 2**30


def read_lines(path: Path, split: str | None) -> Iterator[Record]:
    """JSON lines. With a split, those whose field `split` has that value."""
    yield from of_split(read_json_lines(path), split)


def read_plain(path: Path, split: str | None) -> Iterator[Record]:
    """One text a line; blank lines are skipped."""
    del split
    with reading(path), path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield f"{path}, line {number}", {"text": line.strip()}


def read_csv(path: Path, split: str | None) -> Iterator[Record]:
    """Fields with commas between, by the names in the first line. A rationale or answer is written as JSON."""
    return _read_table(path, split, {"strict": True})


def read_tsv(path: Path, split: str | None) -> Iterator[Record]:
    """The same with tabs between, and without quotation marks that mean anything, whatever the file is called."""
    return _read_table(path, split, {"delimiter": "\t", "quoting": csv.QUOTE_NONE})


def _read_table(path: Path, split: str | None, dialect: dict[str, Any]) -> Iterator[Record]:
    with reading(path), path.open(encoding="utf-8-sig", newline="") as lines:
        rows = csv.reader(lines, **dialect)
        try:
            names = _next_row(rows)
            if names is None:
                return
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise BadFile(f"{path}, line 1: the column {twice[0]!r} is there twice; rename one of them.")
            while (row := _next_row(rows)) is not None:
                where = f"{path}, line {rows.line_num}"
                if not row:
                    continue
                if len(row) != len(names):
                    raise BadFile(
                        f"{where}: {len(row)} fields, but the first line names {len(names)}: {', '.join(names)}."
                    )
                yield from of_split(
                    [(where, {name: _cell(name, cell, where) for name, cell in zip(names, row, strict=True)})], split
                )
        except csv.Error as error:
            raise BadFile(f"{path}, line {rows.line_num}: {error}.") from error


def _next_row(rows: Iterator[list[str]]) -> list[str] | None:
    """The next row, however long its fields are. The limit belongs to the whole process: it is raised for this row
    alone, because whoever reads the rows works on each of them before asking for the next.
    """
    usual = csv.field_size_limit(LONGEST_FIELD)
    try:
        return next(rows, None)
    finally:
        csv.field_size_limit(usual)


def _cell(name: str, cell: str, where: str) -> Any:
    if cell == "":
        return None
    if name in ("label", "gold_label") and re.fullmatch(r"[+-]?\d{1,15}(\.\d*)?", cell.strip()):
        return float(cell) if "." in cell else int(cell)
    if name in ("rationale", "rationale_a", "rationale_b", "pair_rationale", "messages") or (
        name == "answer" and cell[0] in "[{"
    ):
        try:
            return json.loads(cell)
        except (ValueError, RecursionError) as error:
            raise BadFile(f"{where}: the field {name} is not JSON, such as [[0, 4]]: {error}.") from error
    return cell


def read_parquet(path: Path, split: str | None) -> Iterator[Record]:
    """One file, or a folder of them."""
    try:
        import pyarrow.parquet as parquet
        from pyarrow.lib import ArrowException
    except ModuleNotFoundError as error:
        raise MissingExtra("Reading Parquet", "bench") from error
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    for file in files:
        with reading(file):
            try:
                number = 0
                for batch in parquet.ParquetFile(file).iter_batches(batch_size=256):
                    for row in batch.to_pylist():
                        number += 1
                        yield from of_split([(f"{file}, row {number}", row)], split)
            except ArrowException as error:
                raise BadFile(f"{file} is not Parquet, or it is damaged: {error}.") from error


def read_hugging_face(path: Path, split: str | None) -> Iterator[Record]:
    """A data set of the `datasets` library that was saved to a folder."""
    datasets = _library()
    try:
        found = datasets.load_from_disk(str(path))
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} is not a data set that was saved with save_to_disk: {error}.") from error
    yield from _rows(datasets, found, split, str(path))


def read_hub(name: str, split: str | None) -> Iterator[Record]:
    """A data set of the `datasets` library by its name on the hub, such as glue/sst2 (its configuration last)."""
    datasets = _library()
    last_problem: Exception | None = None
    owner, _, configuration = name.rpartition("/")
    for asked in ((name,), (owner, configuration)) if owner else ((name,),):
        try:
            found = datasets.load_dataset(*asked)
        except (
            Exception
        ) as error:  # the library raises many types: no network, an unknown name, a script that is not run
            last_problem = error
            continue
        yield from _rows(datasets, found, split, name)
        return
    raise BadFile(
        f"The data set {name!r} could not be fetched from the hub: {' '.join(str(last_problem).split())[:300]}"
    )


def _library() -> Any:
    try:
        import datasets
    except ModuleNotFoundError as error:
        raise MissingExtra("Reading a Hugging Face data set", "datasets") from error
    return datasets


def _rows(datasets: Any, data: Any, split: str | None, name: str) -> Iterator[Record]:
    if isinstance(data, datasets.DatasetDict):
        if split is None and len(data) == 1:
            split = next(iter(data))
        if split not in data:
            problem = "no split was named" if split is None else f"it has no split {split!r}"
            raise BadFile(f"{name}: {problem}. It has {', '.join(data)}: write {name}@{next(iter(data))}.")
        data, name = data[split], f"{name}@{split}"
    labels = {key: kind.names for key, kind in data.features.items() if isinstance(kind, datasets.ClassLabel)}
    for number, row in enumerate(data, 1):
        where = f"{name}, row {number}"
        yield where, {**row, **{key: _class_name(row[key], names, where) for key, names in labels.items()}}


def _class_name(number: int | None, names: Sequence[str], where: str) -> str | None:
    """In a data set of the `datasets` library, -1 is defined as "no label"."""
    if number is None or number == -1:
        return None
    if not 0 <= number < len(names):
        raise BadFile(f"{where}: the label is {number}, but the data set has {len(names)} classes, numbered from 0.")
    return names[number]


def of_split(records: Iterable[Record], split: str | None) -> Iterator[Record]:
    """The records of a split; all of them where none is asked for."""
    yield from (record for record in records if split is None or record[1].get("split") == split)
