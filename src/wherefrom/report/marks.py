"""What people marked in a text, for its views: lines are cut where a mark begins and ends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from wherefrom.core.units import Span
from wherefrom.report.pieces import TextRun

MARKED_BY_PEOPLE = "marked by people"
NOTHING_MARKED = "people marked nothing"


class MarkedRuns(NamedTuple):
    """Neighbouring runs of a line that are all marked by people, or all unmarked."""

    marked: bool
    runs: list[TextRun]


def joined(spans: Sequence[Span], text: str) -> list[Span]:
    """The spans in the order of the text, none outside of it. Those that overlap are one, and so are those with nothing
    but white space between them: where every word has its own mark, a box around each would hide the text.
    """
    marks: list[Span] = []
    for start, end in sorted((max(0, start), min(end, len(text))) for start, end in spans):
        if start >= end:
            continue
        if marks and (start <= marks[-1][1] or not text[marks[-1][1] : start].strip()):
            marks[-1] = marks[-1][0], max(end, marks[-1][1])
        else:
            marks.append((start, end))
    return marks


def with_marks(line: Sequence[TextRun], spans: Sequence[Span]) -> list[MarkedRuns]:
    """A line of a text in stretches that are marked and stretches that are not. A run that is marked in part is cut."""
    marks = joined(spans, "".join(run.text for run in line))
    edges = {edge for mark in marks for edge in mark}
    parts: list[tuple[bool, TextRun]] = []
    start = 0
    for run in line:
        end = start + len(run.text)
        cuts = [start, *sorted(edge for edge in edges if start < edge < end), end]
        for first, last in pairwise(cuts):
            # A special token has no characters: it is inside a mark that continues after it.
            inside = any(a <= first and last <= b and (first < last or a < first < b) for a, b in marks)
            parts.append((inside, run._replace(text=run.text[first - start : last - start])))
        start = end
    return [MarkedRuns(marked, [run for _, run in group]) for marked, group in groupby(parts, key=lambda part: part[0])]
