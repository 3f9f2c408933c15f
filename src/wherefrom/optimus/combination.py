"""Combinations of attention operations: which there are, what one is called, and one that was fitted and kept in a
file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal, get_args

from wherefrom.core.saved import Format, Saved
from wherefrom.errors import BadOption

Raw = Literal["A", "A*"]
Reduction = Literal["mean", "multi"] | int  # over heads or layers; a number takes that one alone, counted from 0
MatrixOperation = Literal["from", "to", "mean_columns", "max_columns"]
MATRICES: tuple[MatrixOperation, ...] = get_args(MatrixOperation)
_WRITTEN = re.compile(
    r"(?P<raw>A\*?), (?:(?P<heads>mean|multi) of heads|head (?P<head>\d+)),"
    r" (?:(?P<layers>mean|multi) of layers|layer (?P<layer>\d+))"
    rf", (?P<matrix>{'|'.join(MATRICES)})"
)


@dataclass(frozen=True)
class Combination:
    """One way from a model's attention matrices to one weight a token."""

    raw: Raw
    head: Reduction
    layer: Reduction
    matrix: MatrixOperation

    def __str__(self) -> str:
        head, layer = (
            f"{what} {choice}" if isinstance(choice, int) else f"{choice} of {what}s"
            for what, choice in self._reductions
        )
        return f"{self.raw}, {head}, {layer}, {self.matrix}"

    @classmethod
    def read(cls, text: str) -> Combination | None:
        """The combination that is written so or has this name; None if it is something else, such as a file."""
        if text.strip() in NAMED:
            return NAMED[text.strip()]
        match = _WRITTEN.fullmatch(text.strip())
        if match is None:
            return None
        head, layer = (
            name or int(number) for name, number in (match.group("heads", "head"), match.group("layers", "layer"))
        )
        return cls(match["raw"], head, layer, match["matrix"])  # type: ignore[arg-type]  # the pattern has only what there is

    @property
    def _reductions(self) -> tuple[tuple[str, Reduction], tuple[str, Reduction]]:
        return ("head", self.head), ("layer", self.layer)

    def check(self, layers: int, heads: int) -> None:
        """Raise where a model of so many layers and heads does not have it."""
        for (what, choice), count in zip(self._reductions, (heads, layers), strict=True):
            if isinstance(choice, int) and not 0 <= choice < count:
                raise BadOption(f"There is no {what} {choice}: the model has {count}, numbered from 0.")
        if self.raw == "A*" and "multi" in (self.head, self.layer):
            raise BadOption(
                "A* has signs, and a product's sign says nothing of a token: take the mean, or one head and one layer."
            )


BASELINE = Combination("A", "mean", "mean", "from")  # what the literature does most; the paper's B
# Names without commas, for lists on the command line.
NAMED = {"baseline": BASELINE, "A-baseline": BASELINE, "A*-baseline": Combination("A*", "mean", "mean", "from")}


def reductions(raw: Raw, count: int) -> list[Reduction]:
    """What can be done over so many heads or layers.

    A* has no products: its numbers have signs, so a product's sign says how many factors were negative and nothing of
    the token.
    """
    return ["mean", *(["multi"] if raw == "A" else []), *range(count)]


@cache
def combinations(raw: Raw, layers: int, heads: int) -> tuple[Combination, ...]:
    """All of them in the order of the paper's Algorithm 1: heads outermost, then layers, then matrix operations."""
    return tuple(
        Combination(raw, h, m, o) for h in reductions(raw, heads) for m in reductions(raw, layers) for o in MATRICES
    )


@dataclass(frozen=True)
class Fitted(Saved):
    """The combination that was best over a set of texts (Optimus Batch), and how it was found."""

    FORMAT: ClassVar[Format] = Format(
        "combination",
        "wherefrom_optimus",
        advice="Combinations are written by 'wherefrom optimus'.",
        indent=1,
        checksum=True,
    )

    combination: Combination
    score: float  # its mean score over the texts
    baseline: float  # that of the baseline
    metric: str
    level: str
    layers: int
    heads: int
    texts: int
    model: str = ""
    fingerprint: str = ""  # of the model it was fitted on; others of the same shape may use it, and are told so

    def _problems(self) -> Iterator[str]:
        try:
            self.combination.check(self.layers, self.heads)
        except BadOption as error:
            yield str(error).rstrip(".")
