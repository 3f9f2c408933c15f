"""What a run will cost: how many forward passes, said before it begins, and how long, said after its first part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wherefrom.progress import duration_left

WORTH_A_TRIAL = 4  # parts from which on one example is tried beforehand, which then costs less than a sixtieth of them


@dataclass(frozen=True)
class CostEstimate:
    """What the examples that are still to be done will cost."""

    examples: int
    methods: int
    metrics: int
    passes: float  # forward passes of one text each, as methods and metrics need them, those that they share once
    seconds: float | None = None  # by the first part; None before it is done

    def __str__(self) -> str:
        if self.seconds is not None:
            return (
                f"by the first part: about {_rounded(self.passes)} forward passes"
                f" and {duration_left(self.seconds)} for the other {self.examples:,} examples"
            )
        sizes = (self.examples, "example"), (self.methods, "method"), (self.metrics, "metric")
        return (
            f"{' x '.join(f'{count:,} {what}' + 's' * (count != 1) for count, what in sizes)}:"
            f" about {_rounded(self.passes)} forward passes, by one example of middling length"
        )


OnEstimate = Callable[[CostEstimate], None]


def _rounded(count: float) -> str:
    """To two digits: more would claim more than is known."""
    return f"{int(float(f'{count:.2g}')):,}"
