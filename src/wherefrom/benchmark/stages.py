"""How far a worker is within a part. All examples of a part are asked together, so that none is finished before the
others: what moves is the part's work.
"""

from __future__ import annotations

import time
from collections.abc import Callable

OnShare = Callable[[float], None]  # called with the share of a part's work that is done, from 0 to 1
EXPLAINING, ASKING, ALONE = range(3)  # methods explain; the metrics' questions are asked; each method alone, for costs
FIRST_GUESS = (0.4, 0.4, 0.2)  # the stages' shares of the work, before any of it was seen


class Stages:
    """The share of a part's work that is done. How much a stage is of the whole is known from the part before."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock, self._shares = clock, FIRST_GUESS
        self.begin(None)

    def begin(self, moved: OnShare | None) -> None:
        """A new part; moved: is told the share, whenever it has grown."""
        self._moved, self._told, self._seconds = moved, 0.0, [0.0, 0.0, 0.0]
        self._last, self._problem = self._clock(), None

    _problem: Exception | None

    def reached(self, stage: int, done: int, everything: int) -> None:
        """So much of a stage is done. What is tried again moves nothing until it is further than before."""
        now = self._clock()
        self._seconds[stage] += now - self._last
        self._last = now
        share = sum(self._shares[:stage]) + self._shares[stage] * done / everything
        if self._moved is None or share <= self._told or self._problem is not None:
            return
        self._told = share
        try:
            self._moved(min(share, 1.0))
        except Exception as error:  # it is no fault of an example, which the worker would look for
            self._problem = error

    def end(self) -> None:
        """The part is done; raises what the listener raised."""
        whole = sum(self._seconds)
        if whole > 0:
            explaining, asking, alone = (seconds / whole for seconds in self._seconds)
            self._shares = (explaining, asking, alone)
        if self._problem is not None:
            raise self._problem
