"""Explanations with their grades, side by side: plain numbers that can be shown and saved without a model and without
torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from wherefrom.core.explanation import Explanation
from wherefrom.core.files import FilePath, read_json, write_atomically
from wherefrom.errors import BadFile, MissingExtra

if TYPE_CHECKING:
    import pandas

FORMAT = 1


@dataclass(frozen=True)
class Grade:
    """What one metric says of one explanation.

    Attributes:
        metric: its name, with options as it was asked for.
        value: the number, or None where the metric is not defined.
        better: "higher" or "lower".
        fill: how units were hidden, where the model was asked.
        why: why there is no value.
        details: a curve, a count, what stood in for a missing token.
        group: which question the metric answers: "erasure", "one at a time", "shape", "plausibility", "robustness",
            "classes" or "other".
    """

    metric: str
    value: float | None
    better: Literal["higher", "lower"]
    fill: str | None = None  # how units were hidden, where the model was asked
    why: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)  # a curve, a count
    group: str = "other"  # which question the metric answers


@dataclass(frozen=True)
class Comparison:
    """Several explanations of one text, each with a grade by every metric.

    Attributes:
        explanations: one for every method.
        grades: of every explanation, one grade for every metric.
        names: of the explanations: the methods as they were asked for.
        failed: methods that could not explain this text, and why.
        asked: how many questions the metrics put to the model.
        distinct: how many of them differ.
        rows: how many rows the model answered.
        seconds: how long the questions took; every explanation has its own time.

    Example:
        ```python
        found = model.compare("A gorgeous, witty film.", ["attcat", "random"], ["aopc", "rft"])
        print(found.grade("attcat", "aopc").value, found.best("rft").method)
        ```
    """

    explanations: tuple[Explanation, ...]
    grades: tuple[tuple[Grade, ...], ...]  # (explanation, metric)
    names: tuple[str, ...]  # of the explanations: the method as it was asked for
    failed: Mapping[str, str] = field(default_factory=dict)  # methods that could not explain this text, and why
    asked: int = 0
    distinct: int = 0
    rows: int = 0
    seconds: float = 0.0  # of the questions; every explanation has its own time

    @property
    def metrics(self) -> list[str]:
        """The metrics' names, in the order of the grades."""
        return [grade.metric for grade in self.grades[0]] if self.grades else []

    def grade(self, method: str, metric: str) -> Grade:
        """What one metric says of one method's explanation.

        Args:
            method: a name from `names`.
            metric: a name from `metrics`.

        Returns:
            The grade.
        """
        return self.grades[self.names.index(method)][self.metrics.index(metric)]

    def ranks(self) -> list[list[int | None]]:
        """The place of every explanation by every metric: 1 is the best, equals share a place.

        Returns:
            Of every explanation, its place by every metric; None where there is no value.
        """
        columns = [self._ranked(column) for column in zip(*self.grades, strict=True)]
        return [list(row) for row in zip(*columns, strict=True)]

    def _ranked(self, column: Sequence[Grade]) -> list[int | None]:
        sign = -1 if column[0].better == "higher" else 1
        known = [sign * grade.value for grade in column if grade.value is not None]
        return [
            None if grade.value is None else 1 + sum(other < sign * grade.value for other in known) for grade in column
        ]

    def best(self, metric: str) -> Explanation:
        """The explanation with the best grade by a metric.

        Args:
            metric: a name from `metrics`.

        Returns:
            The explanation; the first where several are equally good.
        """
        column = self.metrics.index(metric)
        places = [row[column] for row in self.ranks()]
        return self.explanations[places.index(1)]

    def to_pandas(self) -> pandas.DataFrame:
        """A table with one row a method and metric. Needs the extra `report`.

        Returns:
            A frame with the columns method, metric, value, rank, better, fill, why, seconds, forwards, backwards.

        Example:
            ```python
            print(found.to_pandas().pivot(index="metric", columns="method", values="value"))
            ```
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingExtra("A pandas table", "report") from error
        rows = [
            {
                "method": name,
                "metric": grade.metric,
                "value": grade.value,
                "rank": rank,
                "better": grade.better,
                "fill": grade.fill,
                "why": grade.why,
                "seconds": explanation.seconds,
                "forwards": explanation.forwards,
                "backwards": explanation.backwards,
            }
            for name, explanation, grades, ranks in zip(
                self.names, self.explanations, self.grades, self.ranks(), strict=True
            )
            for grade, rank in zip(grades, ranks, strict=True)
        ]
        return pandas.DataFrame(rows).astype({"value": "float64", "rank": "Int64"}) if rows else pandas.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain Python, as `to_json` writes it."""
        return {
            "wherefrom_comparison": FORMAT,
            **asdict(self),
            "explanations": [one.to_dict() for one in self.explanations],
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """The comparison as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    def save(self, path: FilePath) -> None:
        """Write JSON: wholly, or not at all."""
        write_atomically(path, self.to_json(), "comparison")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Comparison:
        """The comparison that `to_dict` wrote."""
        if data.get("wherefrom_comparison") != FORMAT:
            raise BadFile(
                "This is not a comparison saved by this version of Wherefrom (its field"
                " 'wherefrom_comparison' is missing or another)."
            )
        try:
            known = {name: data[name] for name in cls.__dataclass_fields__}
            known["explanations"] = tuple(Explanation.from_dict(one) for one in known["explanations"])
            known["grades"] = tuple(tuple(Grade(**grade) for grade in grades) for grades in known["grades"])
            comparison = cls(**known | {"names": tuple(known["names"])})
        except (KeyError, TypeError, AttributeError) as error:
            raise BadFile(f"This comparison is damaged: {type(error).__name__} {error}.") from error
        if not len(comparison.explanations) == len(comparison.grades) == len(comparison.names):
            raise BadFile("This comparison is damaged: it does not have as many grades and names as explanations.")
        return comparison

    @classmethod
    def load(cls, path: FilePath) -> Comparison:
        """Read a comparison that was saved; needs neither a model nor torch."""
        data = read_json(path)
        if not isinstance(data, dict):
            raise BadFile(f"{path} holds no comparison.")
        try:
            return cls.from_dict(data)
        except BadFile as error:
            raise BadFile(f"{path}: {error}") from error

    # Views, as an explanation has them.

    def show(self) -> None:
        """Print the table in colour."""
        from wherefrom.report.comparison_terminal import print_comparison

        print_comparison(self)

    def to_html(self) -> str:
        """A page that needs nothing else: no network, no other file."""
        from wherefrom.report.comparison import page

        return page(self)

    def _repr_html_(self) -> str:
        from wherefrom.report.comparison import fragment

        return fragment(self)
