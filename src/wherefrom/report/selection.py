"""What an explanation was chosen among: the head by layer map of every attention operation, or the methods that were
tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from wherefrom.core.explanation import Explanation
from wherefrom.core.labels import visible
from wherefrom.report.colour import Side, largest, shade
from wherefrom.report.wording import ARROWS


class MapCell(NamedTuple):
    """The score of one combination in a map."""

    side: Side
    strength: str
    tip: str
    chosen: bool


class OperationMap(NamedTuple):
    """One matrix operation: rows are head operations, columns layer operations."""

    title: str
    heads: list[str]
    layers: list[str]
    cells: list[list[MapCell]]


class Candidate(NamedTuple):
    """One candidate: its name and its grades as text, that of the choosing metric first."""

    name: str
    grades: list[str]
    mark: str  # chosen, runner-up, or nothing


class CandidateTable(NamedTuple):
    """All candidates with their grades, and those that failed with the reason."""

    metrics: list[str]
    rows: list[Candidate]
    failed: list[tuple[str, str]]


def operation_maps(explanation: Explanation) -> list[OperationMap]:
    """A map for each kind of matrix and each matrix operation, all on one scale; none where the scores were not
    kept.
    """
    maps = []
    for selection in explanation.selection:
        tables: Mapping[str, Any] = selection.get("scores", {})
        scale = largest(
            score or 0.0
            for table in tables.values()
            for rows in table["scores"].values()
            for row in rows
            for score in row
        )
        for raw, table in tables.items():
            for matrix, rows in table["scores"].items():
                cells = [
                    [
                        _cell(
                            f"{raw}, {_named('head', head)}, {_named('layer', layer)}, {matrix}",
                            score,
                            scale,
                            selection["chosen"],
                        )
                        for layer, score in zip(table["layers"], row, strict=True)
                    ]
                    for head, row in zip(table["heads"], rows, strict=True)
                ]
                maps.append(
                    OperationMap(f"{raw}, {matrix}", [*map(str, table["heads"])], [*map(str, table["layers"])], cells)
                )
    return maps


def _named(what: str, number_or_operation: str | int) -> str:
    return (
        f"{what} {number_or_operation}" if isinstance(number_or_operation, int) else f"{number_or_operation} of {what}s"
    )


def _cell(name: str, score: float | None, scale: float, chosen: str) -> MapCell:
    side, strength = shade(score or 0.0, scale, signed=True)
    return MapCell(
        side, f"{strength:.3f}", f"{name}: {'not defined' if score is None else f'{score:+.4g}'}", name == chosen
    )


def candidate_tables(explanation: Explanation) -> list[CandidateTable]:
    """The candidates of `best`, the best first."""
    return [_candidate_table(selection) for selection in explanation.selection if "grades" in selection]


def _candidate_table(selection: Mapping[str, Any]) -> CandidateTable:
    marks = {selection["chosen"]: "chosen", selection["runner_up"]: "runner-up"}
    metrics = [
        f"{name} {ARROWS[better]}" for name, better in zip(selection["metrics"], selection["better"], strict=True)
    ]
    rows = [
        Candidate(visible(name), ["-" if value is None else f"{value:.4g}" for value in values], marks.get(name, ""))
        for name, values in selection["grades"].items()
    ]
    return CandidateTable(metrics, rows, [(visible(name), visible(why)) for name, why in selection["failed"].items()])
