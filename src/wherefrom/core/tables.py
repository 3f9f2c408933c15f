"""Texts from a table in memory: a `datasets.Dataset`, a frame of pandas or polars, an Arrow table, or anything that
hands itself over as Arrow. None of these packages is imported unless the table needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wherefrom.core.encoding import TextOrPair
from wherefrom.errors import BadOption, MissingExtra, UnknownName

# The names that columns of texts may have. The first that there is is taken, unless one is named.
TEXT_COLUMNS = ("text", "text_a", "sentence", "sentence1", "premise", "question", "question1", "review", "content")
PAIR_COLUMNS = ("pair", "text_b", "sentence2", "hypothesis", "context", "question2", "choices")


def is_table(value: Any) -> bool:
    """Whether a value is a table with named columns, and not one column or a list."""
    if isinstance(value, str | list | tuple):
        return False
    return bool(_names(value)) or _is_splits(value) or hasattr(value, "__dataframe__")


def _is_splits(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(hasattr(part, "column_names") for part in value.values())


def _names(table: Any) -> list[str]:
    """The names of the columns of a table whose way to give them is known."""
    if isinstance(table, Mapping):
        return []
    for attribute in ("column_names", "columns"):
        names = getattr(table, attribute, None)
        if names is not None and not callable(names) and not isinstance(names, str):
            return [name for name in names if isinstance(name, str)]
    return []


def columns_of(table: Any) -> dict[str, list[Any]]:
    """All columns of a table, by their names, as lists of plain values."""
    if _is_splits(table):
        if len(table) > 1:
            raise BadOption(
                f"This is a table of {len(table)} splits: take one of them, such as data[{next(iter(table))!r}]."
                f" There are {', '.join(map(str, table))}."
            )
        table = next(iter(table.values()))
    if hasattr(table, "to_pydict"):  # Arrow
        return dict(table.to_pydict())
    if hasattr(table, "to_dict") and hasattr(table, "iloc"):  # pandas
        _check_unique([str(name) for name in table.columns])
        return {str(name): table[name].tolist() for name in table.columns}
    if hasattr(table, "column_names"):  # datasets
        return {name: list(table[name]) for name in table.column_names}
    if hasattr(table, "__arrow_c_stream__"):  # polars and others
        return columns_of(_from_stream(table))
    if hasattr(table, "__dataframe__"):
        return columns_of(_from_interchange(table))
    raise BadOption(f"The columns of a {type(table).__name__} cannot be read.")


def _from_stream(table: Any) -> Any:
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise MissingExtra("Reading this table", "bench") from error
    return pyarrow.table(table)


def _from_interchange(table: Any) -> Any:
    try:
        from pyarrow.interchange import from_dataframe
    except ModuleNotFoundError as error:
        raise MissingExtra("Reading this table", "bench") from error
    return from_dataframe(table)


def _check_unique(names: Sequence[str]) -> None:
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise BadOption(f"Two columns of the table are called {twice!r}.")


def texts_of(
    table: Any, text_column: str | None = None, pair_column: str | None = None, label_column: str | None = None
) -> tuple[list[TextOrPair], list[str | int] | None]:
    """The texts of a table, or the pairs, and their labels where a column of them is named.

    Unless a column of texts is named, the first with a usual name is taken, and a column of pairs likewise.
    """
    columns = columns_of(table)
    for name in (text_column, pair_column, label_column):
        if name is not None and name not in columns:
            raise UnknownName.among("column", name, columns)
    if text_column is None:
        text_column = next((name for name in TEXT_COLUMNS if name in columns), None)
        if text_column is None:
            raise BadOption(f"Name the column of the texts: text_column=. There are {', '.join(columns) or 'none'}.")
        pair_column = pair_column or next((name for name in PAIR_COLUMNS if name in columns), None)
    texts = _texts(columns, text_column)
    pairs = None if pair_column is None else _texts(columns, pair_column)
    labels = (
        None if label_column is None else [_label(value, place) for place, value in enumerate(columns[label_column])]
    )
    return (list(texts) if pairs is None else list(zip(texts, pairs, strict=True))), labels


def _texts(columns: Mapping[str, Sequence[Any]], name: str) -> list[str]:
    for place, value in enumerate(columns[name]):
        if not isinstance(value, str):
            raise BadOption(f"Row {place} of the column {name!r} (counted from 0) is {value!r:.40}, not a text.")
    return list(columns[name])


def _label(value: Any, place: int) -> str | int:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise BadOption(f"The label of row {place} (counted from 0) is {value!r:.40}, neither a name nor a whole number.")


def rows_of(table: Any) -> list[dict[str, Any]]:
    """The rows of a table, each with all of its columns."""
    columns = columns_of(table)
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
