"""A flip: the words without which a model decides otherwise. Plain values, to be shown and saved without a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from wherefrom.core.saved import Format, Saved
from wherefrom.core.units import Level, Span


@dataclass(frozen=True)
class HiddenUnit:
    """A unit that was hidden, and where it stands: in the text, or in its pair where `segment` is 1."""

    text: str
    start: int
    end: int
    segment: int


@dataclass(frozen=True)
class Flip(Saved):
    """The smallest set of units that was found whose hiding changes the decision.

    Attributes:
        text: what the model read.
        decision: what it decides with the whole text.
        probability: its probability of that.
        hidden: the units whose hiding changes it, in the order of the text; none where no set was found.
        becomes: what it decides without them; None where no set was found.
        becomes_probability: its probability of that, then.
        remaining: its probability of the first decision, then.
        smallest: True where it is certain that no smaller set does, or, without a set, that none does at all.
        level: token, word, sentence or span.
        units: how many there are, special tokens not counted.
        fill: how units were hidden: "delete", or the kind of token that was put in their place.
        method: the method whose scores the search followed; empty where every set was tried.
        params: its options.
        rows: how many rows were sent through the model.
        seconds: how long it took.
        pair: the second text, if there was one.
        model: the model's name.

    Example:
        ```python
        found = model.flip("A gorgeous, witty film, but the plot drags.")
        print(found.decision, "becomes", found.becomes, "without", [unit.text for unit in found.hidden])
        ```
    """

    FORMAT: ClassVar[Format] = Format("flip", "wherefrom_flip")

    text: str
    decision: str
    probability: float
    hidden: tuple[HiddenUnit, ...] = ()
    becomes: str | None = None
    becomes_probability: float | None = None
    remaining: float | None = None
    smallest: bool = False
    level: Level = "word"
    units: int = 0
    fill: str = "delete"
    method: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    rows: int = 0
    seconds: float = 0.0
    pair: str | None = None
    model: str = ""

    @property
    def found(self) -> bool:
        """Whether a set was found."""
        return bool(self.hidden)

    def spans(self, segment: int = 0) -> list[Span]:
        """Characters of the hidden units in the text, or in its pair."""
        return [(unit.start, unit.end) for unit in self.hidden if unit.segment == segment]

    def left(self, segment: int = 0) -> str:
        """What is left of the text, or of its pair, without the hidden units; spaces are closed up."""
        text, reached, parts = (self.text, self.pair or "")[segment], 0, []
        for start, end in self.spans(segment):
            parts.append(text[reached:start])
            reached = end
        return " ".join("".join([*parts, text[reached:]]).split())

    def show(self) -> None:
        """Print the text with the hidden units struck out, and what the model decides without them."""
        from wherefrom.report.flip import print_flip
        from wherefrom.report.notebook import shown_in_notebook

        if not shown_in_notebook(self):
            print_flip(self)

    def to_html(self) -> str:
        """A self-contained HTML page."""
        from wherefrom.report.flip import page

        return page(self)

    def _repr_html_(self) -> str:
        from wherefrom.report.flip import fragment

        return fragment(self)

    def _problems(self) -> Iterator[str]:
        texts = {0: self.text, 1: self.pair}
        for unit in self.hidden:
            text = texts.get(unit.segment)
            if text is None or not 0 <= unit.start <= unit.end <= len(text):
                yield f"its text {unit.segment} has no characters {unit.start} to {unit.end}"
