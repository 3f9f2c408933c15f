"""The columns in which a run keeps explanations: the one list of them, from an explanation to a row and back.

docs/running-a-benchmark.md says what they mean to a reader.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from wherefrom.core.comparison import Rationale
from wherefrom.core.explanation import Explanation

# How a column is stored. "json" is text that contains JSON; "spans" is a list of [start, end].
ColumnType = Literal["text", "real", "int", "long", "bool", "texts", "reals", "ints", "spans", "json"]


class StoredColumn(NamedTuple):
    """A column of the table of explanations."""

    name: str
    type: ColumnType
    field: bool = True  # whether it is a field of `Explanation` of the same name
    optional: bool = False  # whether runs of earlier versions lack it


EXPLANATION_COLUMNS = (
    StoredColumn("example", "text", field=False),
    StoredColumn("target", "text"),
    StoredColumn("method", "text"),
    StoredColumn("prediction", "text"),
    StoredColumn("predicted", "texts", field=False),
    StoredColumn("probability", "real"),
    StoredColumn("value", "real"),
    StoredColumn("label", "text", field=False),
    StoredColumn("rationale", "spans", field=False, optional=True),
    StoredColumn("pair_rationale", "spans", field=False, optional=True),
    StoredColumn("text", "text"),
    StoredColumn("pair", "text"),
    StoredColumn("level", "text"),
    StoredColumn("tokens", "texts"),
    StoredColumn("scores", "reals"),
    StoredColumn("offsets", "spans"),
    StoredColumn("segment", "ints"),
    StoredColumn("input_ids", "ints", field=False),
    StoredColumn("signed", "bool"),
    StoredColumn("params", "json"),
    StoredColumn("notes", "json"),
    StoredColumn("gap", "real"),
    StoredColumn("unassigned", "real"),
    StoredColumn("cut", "int"),
    StoredColumn("seconds", "real"),
    StoredColumn("forwards", "long"),
    StoredColumn("backwards", "long"),
    StoredColumn("turns", "json", optional=True),
)

_PLAIN = [column.name for column in EXPLANATION_COLUMNS if column.field and column.type != "json"]
_JSON = [column.name for column in EXPLANATION_COLUMNS if column.field and column.type == "json"]


def row_of(
    explanation: Explanation,
    *,
    example: str,
    method: str,
    label: str | None,
    predicted: Sequence[str],
    input_ids: Sequence[int] | None,
    rationale: Rationale | None,
) -> dict[str, Any]:
    """A row of the table. method: as it was asked for, with its options. predicted: every label that is.
    rationale: what people marked as the reason for this target.
    """
    marked = rationale or (None, None)
    kept = {name: getattr(explanation, name) for name in _PLAIN} | {
        name: _as_json(getattr(explanation, name)) for name in _JSON
    }
    return kept | {
        "example": example,
        "method": method,
        "label": label,
        "predicted": list(predicted),
        "input_ids": input_ids,
        "rationale": marked[0],
        "pair_rationale": marked[1],
    }


def rationale_of(row: Mapping[str, Any]) -> Rationale | None:
    """What people marked in the texts of a row; None where nobody looked, and in runs of earlier versions."""
    marked = row.get("rationale"), row.get("pair_rationale")
    if marked == (None, None):
        return None
    first, second = (tuple((int(start), int(end)) for start, end in spans or ()) for spans in marked)
    return first, second


def _as_json(value: Any) -> str:
    if not value:
        return "{}" if isinstance(value, Mapping) else "[]"
    return json.dumps(dict(value) if isinstance(value, Mapping) else value, default=str)


def explanation_of(row: Mapping[str, Any]) -> Explanation:
    """The explanation that a row of the table was made of, as far as the table keeps it."""
    return Explanation(**{column.name: _restored(column, row) for column in EXPLANATION_COLUMNS if column.field})


def _restored(column: StoredColumn, row: Mapping[str, Any]) -> Any:
    value: Any = row.get(column.name) if column.optional else row[column.name]
    if column.name == "turns":
        return tuple((role, start, end) for role, start, end in json.loads(value or "[]"))
    if column.type == "json":
        value = json.loads(value)
    if column.type == "spans":
        return tuple((start, end) for start, end in value)
    return tuple(value) if isinstance(value, list) else value
