"""The tables of a run in Parquet: their columns, a part's rows as bytes, and several files as one."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO

from wherefrom.benchmark.columns import EXPLANATION_COLUMNS
from wherefrom.errors import BadFile, MissingExtra

if TYPE_CHECKING:
    import pyarrow

TABLES = ("explanations", "scores", "errors")
OPTIONAL = {column.name for column in EXPLANATION_COLUMNS if column.optional}
ROWS_AT_ONCE = 1024  # that are read of a file, so that a large one takes no more memory than a small one
ROWS_IN_ARRAYS = 2**16  # the same where rows are not made into objects
GROUP = 16 * 2**20  # bytes in memory that become one row group of a merged file


def arrow_and_parquet() -> tuple[Any, Any]:
    """pyarrow and its module for Parquet, or an error that names the extra which brings them."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet as parquet
    except ModuleNotFoundError as error:
        raise MissingExtra("Storing a run", "bench") from error
    return pyarrow, parquet


def schemas() -> Mapping[str, pyarrow.Schema]:
    """The columns of every table; docs/running-a-benchmark.md says what they mean."""
    return _schemas(arrow_and_parquet()[0])


@cache
def _schemas(arrow: Any) -> dict[str, Any]:
    text, real = arrow.string(), arrow.float64()
    types = {
        "text": text,
        "json": text,
        "real": real,
        "int": arrow.int32(),
        "long": arrow.int64(),
        "bool": arrow.bool_(),
        "texts": arrow.list_(text),
        "reals": arrow.list_(real),
        "ints": arrow.list_(arrow.int32()),
        "spans": arrow.list_(arrow.list_(arrow.int32(), 2)),
    }
    return {
        "explanations": arrow.schema({column.name: types[column.type] for column in EXPLANATION_COLUMNS}),
        "scores": arrow.schema(
            {
                "example": text,
                "target": text,
                "method": text,
                "metric": text,
                "value": real,
                "why": text,
                "details": text,
            }
        ),
        "errors": arrow.schema({"example": text, "method": text, "where": text, "error": text}),
    }


def encoded(table: str, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The rows of a part as a Parquet file."""
    arrow, parquet = arrow_and_parquet()
    content = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(rows, schema=schemas()[table]), content, compression="zstd")
    return content.getvalue()


def merged(table: str, contents: Iterable[bytes]) -> Any:
    """Several files of one table as one, row after row, in a buffer of bytes. Columns that a file of an earlier version
    lacks are null. Besides the result, no more is in memory than one file and one row group.
    """
    arrow, parquet = arrow_and_parquet()
    nothing = schemas()[table].empty_table()
    sink, waiting, size = arrow.BufferOutputStream(), [nothing], 0
    with parquet.ParquetWriter(sink, nothing.schema, compression="zstd") as writer:
        for content in contents:
            file = parquet.ParquetFile(arrow.BufferReader(content))
            for batch in file.iter_batches(batch_size=ROWS_AT_ONCE):
                waiting.append(arrow.Table.from_batches([batch]))
                size += batch.nbytes
                if size >= GROUP:
                    writer.write_table(joined(waiting))
                    waiting, size = [nothing], 0
        writer.write_table(joined(waiting))
    return sink.getvalue()


def joined(tables: Sequence[Any]) -> Any:
    """Tables one after the other; columns that only some have are null in the others."""
    arrow, _ = arrow_and_parquet()
    return arrow.concat_tables(tables, promote_options="default")


def check_columns(file: BinaryIO, table: str, name: str) -> None:
    """A file may be as its receipt says and still be no table of a run, where somebody else made both."""
    arrow, parquet = arrow_and_parquet()
    try:
        columns = parquet.read_schema(file)
    except arrow.ArrowException as error:
        raise BadFile(f"{name} is not Parquet: {error}") from error
    wanted = schemas()[table]
    for missing in OPTIONAL - set(columns.names):  # a run of an earlier version
        if missing in wanted.names:
            wanted = wanted.remove(wanted.get_field_index(missing))
    if not columns.equals(wanted):
        raise BadFile(f"{name} has other columns than the {table} of a run")


def batches_of(file: BinaryIO, table: str, columns: Sequence[str]) -> Iterator[Any]:
    """These columns of a file, many rows at a time, in this order. Those that a file of an earlier version lacks are
    null.
    """
    arrow, parquet = arrow_and_parquet()
    schema = arrow.schema([schemas()[table].field(name) for name in columns])
    stored = parquet.ParquetFile(file)
    there = [name for name in columns if name in stored.schema_arrow.names]
    for batch in stored.iter_batches(batch_size=ROWS_IN_ARRAYS, columns=there):
        arrays = [batch[field.name] if field.name in there else arrow.nulls(len(batch), field.type) for field in schema]
        yield arrow.RecordBatch.from_arrays(arrays, schema=schema)


def rows_of(
    file: BinaryIO, columns: Sequence[str] | None, chosen: Mapping[str, Sequence[str]]
) -> Iterator[dict[str, Any]]:
    """The rows of a file as plain Python; a few at a time are in memory. chosen: column -> what may stand in it."""
    arrow, parquet = arrow_and_parquet()
    names = None if columns is None else list(columns)
    for batch in parquet.ParquetFile(file).iter_batches(batch_size=ROWS_AT_ONCE, columns=names):
        found = batch
        for name, among in chosen.items():
            found = found.filter(arrow.compute.is_in(found.column(name), arrow.array(among, arrow.string())))
        yield from found.to_pylist()
