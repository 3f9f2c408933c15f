"""Explanations with their grades, side by side: plain numbers that can be shown and saved without a model and without
torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from wherefrom.catalogue import floor_method
from wherefrom.core.check import long_enough
from wherefrom.core.explanation import Explanation
from wherefrom.core.plain import from_plain
from wherefrom.core.saved import Format, Saved
from wherefrom.core.units import Span
from wherefrom.errors import BadFile, MissingExtra

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

Rationale = tuple[tuple[Span, ...], tuple[Span, ...]]  # characters that people marked in the text, and in its pair
SHAPE = "shape"  # metrics of this group describe scores and ask nothing of the model: no mean rank counts them
ASKING = ("erasure", "one at a time")  # groups of metrics that ask the model whether the scores are true
STRONG = 0.5  # of a method's largest score: a unit that weighs so much by two methods with opposite signs is disputed


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


Basis = Literal["checks", "floor", "too short", "nothing"]


@dataclass(frozen=True)
class Disagreement:
    """The unit on which methods disagree most: by sign, or by how much it matters.

    Attributes:
        unit: its place among the units.
        first: a method for which it matters (or which has it speak for the target).
        second: one for which it matters little (or which has it speak against the target).
        places: its place by either method, by the size of the scores; None where the two differ by sign.
    """

    unit: int
    first: str
    second: str
    places: tuple[int, int] | None = None


@dataclass(frozen=True)
class Conclusion:
    """What a comparison says about its methods on this text.

    Attributes:
        supported: methods whose scores the model's answers support.
        weak: those that are neither.
        not_supported: methods that are no better than random.
        basis: "checks" where every explanation was put to the test itself; "floor" where grades were compared with
            those of random scores; "too short" where the text has too few units for any verdict; "nothing" where there
            was nothing to judge by.
        agreed: the unit that all methods call the strongest, by its place; None where they differ.
        disagreement: where methods differ most; among those that are supported, where there are two.
    """

    supported: tuple[str, ...] = ()
    weak: tuple[str, ...] = ()
    not_supported: tuple[str, ...] = ()
    basis: Basis = "nothing"
    agreed: int | None = None
    disagreement: Disagreement | None = None


def printed(value: float) -> str:
    """A grade as views print it: three decimals, powers of ten where they would be too long; never "-0.000"."""
    text = f"{value:.3f}" if abs(value) < 10_000 else f"{value:.2e}"
    return text.removeprefix("-") if float(text) == 0 else text


@dataclass(frozen=True)
class Comparison(Saved):
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
        rationale: what people marked, as (start, end) characters of the text and of its pair; None where nobody looked.

    Example:
        ```python
        found = model.compare("A gorgeous, witty film.", ["attcat", "random"], ["aopc", "rft"])
        print(found.grade("attcat", "aopc").value, found.best("rft").method)
        ```
    """

    FORMAT: ClassVar[Format] = Format("comparison", "wherefrom_comparison")

    explanations: tuple[Explanation, ...]
    grades: tuple[tuple[Grade, ...], ...]  # (explanation, metric)
    names: tuple[str, ...]  # of the explanations: the method as it was asked for
    failed: Mapping[str, str] = field(default_factory=dict)  # methods that could not explain this text, and why
    asked: int = 0
    distinct: int = 0
    rows: int = 0
    seconds: float = 0.0  # of the questions; every explanation has its own time
    rationale: Rationale | None = None  # what people marked; None where nobody looked

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
        """The place of every explanation by every metric: 1 is the best; values that are printed alike share a place.

        Returns:
            Of every explanation, its place by every metric; None where there is no value.
        """
        if not self.metrics:
            return [[] for _ in self.names]
        columns = [self._ranked(column) for column in zip(*self.grades, strict=True)]
        return [list(row) for row in zip(*columns, strict=True)]

    def _ranked(self, column: Sequence[Grade]) -> list[int | None]:
        values = [None if grade.value is None else _sign(grade) * float(printed(grade.value)) for grade in column]
        known = [value for value in values if value is not None]
        return [None if value is None else 1 + sum(other < value for other in known) for value in values]

    def mean_ranks(self) -> list[float | None]:
        """The mean place of every explanation over the questions that metrics ask.

        Metrics of one group (such as "erasure") ask the same question in several ways, so each group counts once, by
        the mean of its metrics' places. Metrics that only describe the shape of the scores do not count. A metric
        without a group counts for itself.

        Returns:
            Of every explanation its mean place; None where no metric that counts has a value.
        """
        averages = []
        for ranks, grades in zip(self.ranks(), self.grades, strict=True):
            groups: dict[str, list[int]] = {}
            for rank, grade in zip(ranks, grades, strict=True):
                if rank is not None and grade.group != SHAPE:
                    groups.setdefault(grade.metric if grade.group == "other" else grade.group, []).append(rank)
            means = [sum(group) / len(group) for group in groups.values()]
            averages.append(sum(means) / len(means) if means else None)
        return averages

    def conclusion(self) -> Conclusion:
        """Which methods are supported on this text, which are no better than random, and where they disagree.

        Where the explanations carry a check, its verdict decides. Else grades are compared with those of `random`: a
        method is supported if it does better in every group of metrics that hide words (by more of the group's
        metrics than it does worse), and not supported if it does so in none. `random` is one draw, which a text may
        happen to suit. A text that is too short for a check is too short for any verdict.

        Returns:
            The conclusion as plain data.

        Example:
            ```python
            print(model.compare("A gorgeous, witty film.").conclusion().supported)
            ```
        """
        basis, verdicts = self._verdicts()
        names = {
            verdict: tuple(name for name, reached in verdicts.items() if reached == verdict)
            for verdict in ("supported", "weak", "not supported")
        }
        several = [name for name in self.names if self._explanation(name).method != floor_method()]
        if len(names["supported"]) > 1:
            several = list(names["supported"])
        agreed, disagreement = self._disagreement(several)
        return Conclusion(names["supported"], names["weak"], names["not supported"], basis, agreed, disagreement)

    def _explanation(self, name: str) -> Explanation:
        return self.explanations[self.names.index(name)]

    def _verdicts(self) -> tuple[Basis, dict[str, str]]:
        """By method, `random` left out."""
        judged = [name for name in self.names if self._explanation(name).method != floor_method()]
        checks = {name: check.verdict for name in judged if (check := self._explanation(name).check) is not None}
        if judged and len(checks) == len(judged):
            return ("too short", {}) if set(checks.values()) == {"too short"} else ("checks", dict(checks))
        floor = next(
            (
                row
                for explanation, row in zip(self.explanations, self.grades, strict=True)
                if explanation.method == floor_method()
            ),
            None,
        )
        groups = sorted({grade.group for grade in self.grades[0] if grade.group in ASKING}) if self.grades else []
        if floor is None or not groups:
            return "nothing", {}
        if not long_enough(sum(part >= 0 for part in self.explanations[0].segment)):
            return "too short", {}
        verdicts = {}
        for name in judged:
            grades = self.grades[self.names.index(name)]
            better = [
                sum(_better(a, b) for a, b in zip(grades, floor, strict=True) if a.group == group) > 0
                for group in groups
            ]
            verdicts[name] = "supported" if all(better) else "weak" if any(better) else "not supported"
        return "floor", verdicts

    def _disagreement(self, names: Sequence[str]) -> tuple[int | None, Disagreement | None]:
        """The strongest unit of all methods, where it is one; else where they differ most."""
        shown = [self._explanation(name) for name in names]
        shares = {name: _shares(explanation) for name, explanation in zip(names, shown, strict=True)}
        shares = {name: units for name, units in shares.items() if any(units.values())}
        if (
            len(shares) < 2 or len({tuple(units) for units in shares.values()}) > 1
        ):  # levels that differ cannot be compared
            return None, None
        signed = {name: shares[name] for name in shares if self._explanation(name).signed}
        disputed = _disputed(signed)
        tops = {max(units, key=lambda unit: abs(units[unit])) for units in shares.values()}
        if disputed is not None:
            return None, disputed
        if len(tops) == 1:
            return tops.pop(), None
        places = {name: _places(units) for name, units in shares.items()}
        spread = []
        for unit in sorted(tops):
            first = min(places, key=lambda name: places[name][unit])
            last = max(places, key=lambda name: places[name][unit])
            spread.append((places[last][unit] - places[first][unit], unit, first, last))
        most = max(spread, key=lambda row: row[0])
        return None, Disagreement(*most[1:], places=(places[most[2]][most[1]], places[most[3]][most[1]]))

    def best(self, metric: str) -> Explanation:
        """The explanation with the best grade by a metric.

        Args:
            metric: a name from `metrics`.

        Returns:
            The explanation; the first where several are equally good.
        """
        column = self.metrics.index(metric)
        grades = [row[column] for row in self.grades]
        known = [place for place, grade in enumerate(grades) if grade.value is not None]
        return self.explanations[min(known, key=lambda place: _sign(grades[place]) * (grades[place].value or 0.0))]

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
        return {**super().to_dict(), "explanations": [explanation.to_dict() for explanation in self.explanations]}

    @classmethod
    def _from_plain(cls, data: Mapping[str, Any]) -> Comparison:
        """Explanations check their own format; the rest is plain."""
        inner = data.get("explanations")
        rest = from_plain(cls, {**data, "explanations": []}, "comparison", finite=False)
        if not isinstance(inner, (list, tuple)):
            raise BadFile("This comparison is damaged: its explanations are not a list.")
        return replace(rest, explanations=tuple(map(Explanation.from_dict, inner)))

    def _problems(self) -> Iterator[str]:
        if not len(self.explanations) == len(self.grades) == len(self.names):
            yield "it does not have as many grades and names as explanations"
        if len({tuple((grade.metric, grade.better) for grade in grades) for grades in self.grades}) > 1:
            yield "its explanations are not all graded by the same metrics"
        if self.rationale is None or not self.explanations:
            return
        explanation = self.explanations[0]
        for spans, text in zip(self.rationale, (explanation.text, explanation.pair or ""), strict=True):
            if any(not 0 <= start < end <= len(text) for start, end in spans):
                yield f"its rationale has a span outside the text, which has {len(text)} characters"

    # Views, as an explanation has them.

    def show(self, *, full: bool = False) -> None:
        """Print the table in colour; in a notebook, show the HTML view.

        Args:
            full: print every metric, with ranks and passes, instead of the verdict, three metrics and the time.
        """
        from wherefrom.report.comparison_terminal import print_comparison
        from wherefrom.report.notebook import shown_in_notebook

        if not shown_in_notebook(self):
            print_comparison(self, full=full)

    def to_html(self) -> str:
        """A self-contained HTML page."""
        from wherefrom.report.comparison import page

        return page(self)

    def to_svg(self, *, width: float = 460) -> str:
        """The coloured text of every method below its name, for a paper: a self-contained SVG. width: in points."""
        from wherefrom.report.paper import to_svg

        return to_svg(self._by_name, width=width)

    def to_latex(self) -> str:
        """A table for a paper: each method and the coloured text. The first line names the packages it needs."""
        from wherefrom.report.paper import to_latex

        return to_latex(self._by_name)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the coloured text of every method with matplotlib (extra `report`). ax: the axes to draw on."""
        from wherefrom.report.paper import draw_text

        return draw_text(self._by_name, ax)

    @property
    def _by_name(self) -> list[tuple[str, Explanation]]:
        return list(zip(self.names, self.explanations, strict=True))

    def _repr_html_(self) -> str:
        from wherefrom.report.comparison import fragment

        return fragment(self)


def _sign(grade: Grade) -> int:
    return -1 if grade.better == "higher" else 1


def _better(first_grade: Grade, second_grade: Grade) -> int:
    """1 where the first grade is better, -1 where it is worse, 0 where they are printed alike or there is none."""
    if first_grade.value is None or second_grade.value is None:
        return 0
    first, second = (_sign(grade) * float(printed(grade.value or 0.0)) for grade in (first_grade, second_grade))
    return (first < second) - (first > second)


def _shares(explanation: Explanation) -> dict[int, float]:
    """Each unit's score as a share of the largest, without special tokens."""
    real = {place: score for place, score in enumerate(explanation.scores) if explanation.segment[place] >= 0}
    largest = max((abs(score) for score in real.values()), default=0.0)
    return {place: score / largest if largest else 0.0 for place, score in real.items()}


def _places(shares: Mapping[int, float]) -> dict[int, int]:
    """Each unit's place by the size of its score; equals share one."""
    sizes = {unit: round(abs(share), 6) for unit, share in shares.items()}
    return {unit: 1 + sum(other > size for other in sizes.values()) for unit, size in sizes.items()}


def _disputed(shares: Mapping[str, Mapping[int, float]]) -> Disagreement | None:
    """The unit that weighs most for the target by one method, and against it by another."""
    units = next(iter(shares.values()), {})
    disputed = []
    for unit in units:
        up = max(shares, key=lambda name: shares[name][unit])
        down = min(shares, key=lambda name: shares[name][unit])
        strength = min(shares[up][unit], -shares[down][unit])
        if strength >= STRONG:
            disputed.append((strength, Disagreement(unit, up, down)))
    return max(disputed, key=lambda row: row[0])[1] if disputed else None
