"""The kinds of tables that several studies have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from wherefrom_studies.bench import SetAndBase
from wherefrom_studies.claims import mean_of
from wherefrom_studies.pages import StudyCell, StudyTable, cell

Result = TypeVar("Result")
Row = TypeVar("Row")


def means_table(
    title: str,
    note: str,
    sets: Mapping[SetAndBase, Result],
    rows: Mapping[str, Row],
    values: Callable[[Result, Row], Iterable[float | None]],
    printed: Callable[[SetAndBase, Row], float | None] = lambda _set, _row: None,
    names: Mapping[str, str] | None = None,
) -> StudyTable:
    """A mean over texts for every row and every data set with a base.

    rows: what each row is about, by its title.
    values: one for each text.
    printed: the paper's number.
    names: of the data sets in the head of the table, where they are not their own.
    """
    columns = [f"{names[name] if names else name} {base}" for name, base in sets]
    cells = {
        title: [cell(mean_of(values(result, row)), printed(key, row)) for key, result in sets.items()]
        for title, row in rows.items()
    }
    return StudyTable(title, note, columns, list(cells.items()))


def layers_table(title: str, note: str, rows: Mapping[str, Sequence[Sequence[float]]]) -> StudyTable:
    """A mean over texts for every layer; models may differ in their depth. rows: (text, layer)"""
    depth = max(len(texts[0]) for texts in rows.values() if texts)
    cells = {
        title: [
            cell(mean_of([text[layer] for text in texts])) if texts and layer < len(texts[0]) else StudyCell("")
            for layer in range(depth)
        ]
        for title, texts in rows.items()
    }
    return StudyTable(title, note, layer_columns(depth), list(cells.items()))


def layer_columns(depth: int) -> list[str]:
    return [f"layer {number + 1}" for number in range(depth)]
