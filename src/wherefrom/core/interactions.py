"""Interactions: pairs of words that do together what neither does alone. Plain values, to be shown and saved without a
model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from wherefrom.core.flip import HiddenUnit
from wherefrom.core.saved import Format, Saved
from wherefrom.core.units import Level
from wherefrom.errors import BadOption


@dataclass(frozen=True)
class UnitPair:
    """Two units by their numbers, and what they do together.

    Attributes:
        first: the number of the earlier unit.
        second: the number of the later one.
        score: the pair's interaction: positive where the two together add more to the target's score than each alone.
        error: the standard error of the score; zero where nothing was drawn.
    """

    first: int
    second: int
    score: float
    error: float = 0.0


@dataclass(frozen=True)
class Interactions(Saved):
    """The Shapley interaction of every two units of a text, and the Shapley value of each unit.

    Attributes:
        text: what the model read.
        units: the words (tokens, sentences), in the order of the text.
        scores: the Shapley value of each, which contains half of its interactions.
        pairs: every two units, in their order.
        target: what is explained.
        probability: the model's probability of it; None for a regression model, which has a value instead.
        value: what a regression model predicts; None for other models.
        exact: whether every combination of units was queried.
        level: token, word, sentence or span.
        fill: how units were hidden: "delete", or the kind of token that was put in their place.
        samples: how many combinations were queried.
        pair: the second text, if there was one.
        model: the model's name.
        seconds: how long it took.

    Example:
        ```python
        found = model.interactions("The film is not bad.")
        for pair in found.top(3):
            print(found.units[pair.first].text, found.units[pair.second].text, pair.score)
        ```
    """

    FORMAT: ClassVar[Format] = Format("set of interactions", "wherefrom_interactions")

    text: str
    units: tuple[HiddenUnit, ...]
    scores: tuple[float, ...]
    pairs: tuple[UnitPair, ...]
    target: str
    probability: float | None
    value: float | None = None
    exact: bool = True
    level: Level = "word"
    fill: str = "delete"
    samples: int = 0
    pair: str | None = None
    model: str = ""
    seconds: float = 0.0

    def top(self, count: int = 5) -> list[UnitPair]:
        """The pairs that weigh most.

        Args:
            count: how many.

        Returns:
            The pairs with the largest interactions in size, of either sign.
        """
        return sorted(self.pairs, key=lambda pair: -abs(pair.score))[:count]

    def between(self, first: int, second: int) -> UnitPair:
        """The pair of two units, by their numbers."""
        places = tuple(sorted((first, second)))
        found = next((pair for pair in self.pairs if (pair.first, pair.second) == places), None)
        if found is None:
            raise BadOption(f"There is no pair of units {first} and {second}: there are {len(self.units)}, from 0.")
        return found

    def show(self) -> None:
        """Print the strongest pairs; in a notebook, show the HTML view."""
        from wherefrom.report.interactions import print_interactions
        from wherefrom.report.notebook import shown_in_notebook

        if not shown_in_notebook(self):
            print_interactions(self)

    def to_html(self) -> str:
        """A self-contained HTML page: the text with an arc between the words of each strong pair."""
        from wherefrom.report.interactions import page

        return page(self)

    def _repr_html_(self) -> str:
        from wherefrom.report.interactions import fragment

        return fragment(self)

    def _problems(self) -> Iterator[str]:
        count, texts = len(self.units), {0: self.text, 1: self.pair}
        if len(self.scores) != count:
            yield "it has not as many scores as units"
        wanted = [(first, second) for first in range(count) for second in range(first + 1, count)]
        if [(pair.first, pair.second) for pair in self.pairs] != wanted:
            yield "its pairs are not every two of its units"
        for unit in self.units:
            text = texts.get(unit.segment)
            if text is None or not 0 <= unit.start <= unit.end <= len(text):
                yield f"its text {unit.segment} has no characters {unit.start} to {unit.end}"
