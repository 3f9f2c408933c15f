"""The texts that an audit shows: the surest errors, and some right decisions."""

from __future__ import annotations

import hashlib
import heapq
from itertools import count

from wherefrom.audit.rows import ProbedRow
from wherefrom.core.audit import AuditExample

ERRORS = 10
RIGHT = 5
LONGEST = 1500  # characters of a text that is shown


class ExampleTable:
    """The surest errors and a few right decisions of all rows, without keeping more."""

    def __init__(self, regression: bool) -> None:
        self.regression = regression
        self._errors: list[tuple[float, int, ProbedRow]] = []
        self._right: list[tuple[float, int, ProbedRow]] = []
        self._number = count()

    def add(self, row: ProbedRow) -> None:
        explanation = row.explanation
        if len(explanation.text) + len(explanation.pair or "") > LONGEST:
            return
        if self.regression and row.gold.value is not None:
            self._keep(self._errors, abs(row.gold.value - explanation.output), row, ERRORS)
        elif row.wrong:
            self._keep(self._errors, explanation.output, row, ERRORS)
        else:
            drawn = int(hashlib.sha256(row.example.encode("utf-8", "surrogatepass")).hexdigest()[:12], 16)
            self._keep(self._right, -float(drawn), row, RIGHT)

    def _keep(self, kept: list[tuple[float, int, ProbedRow]], rank: float, row: ProbedRow, most: int) -> None:
        heapq.heappush(kept, (rank, -next(self._number), row))
        if len(kept) > most:
            heapq.heappop(kept)

    def result(self) -> tuple[AuditExample, ...]:
        chosen = [row for _, _, row in sorted(self._errors, reverse=True)]
        chosen += [row for _, _, row in sorted(self._right, reverse=True)]
        return tuple(_example(row) for row in chosen)


def _example(row: ProbedRow) -> AuditExample:
    flip = row.details.get("flip")
    hidden, becomes = (tuple(flip[0]), flip[1]) if flip else ((), None)
    gold = row.gold
    label = ", ".join(gold.labels) if gold.labels is not None else None if gold.value is None else f"{gold.value:g}"
    fixed = row.puts_right(flip is not None, becomes)
    return AuditExample(row.example, label, row.wrong, row.explanation, hidden, becomes, fixed)
