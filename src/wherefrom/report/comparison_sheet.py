"""A comparison prepared for the views: cells with ranks, footnotes for metrics that are not defined, and the cost of
each method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wherefrom.core.comparison import Comparison, Conclusion, Grade
from wherefrom.core.comparison import printed as figure
from wherefrom.core.explanation import Explanation
from wherefrom.core.labels import token_label, visible
from wherefrom.core.names import join_names
from wherefrom.report.effect import gap_warning
from wherefrom.report.wording import duration

GAP_MARK = "(!)"  # after the name of a method whose scores do not add up
MANY = 4  # methods that a footnote names before it counts the rest


class GradeCell(NamedTuple):
    """One grade. Where there is none, `note` is the number of the footnote with the reason."""

    text: str
    value: float | None
    rank: int | None  # None also where there is only one explanation
    best: bool  # False also where all are equally good
    note: int | None
    tip: str


class MetricColumn(NamedTuple):
    """A metric."""

    name: str
    better: str
    tip: str
    group: str = "other"


class MethodLine(NamedTuple):
    """A method with its grades."""

    name: str
    explanation: Explanation
    cells: tuple[GradeCell, ...]
    mean_rank: float | None
    time: str
    passes: str
    verdict: str  # empty where nothing was judged


@dataclass(frozen=True)
class Sheet:
    """The whole table, the best mean rank first."""

    conclusion: str  # in one or two sentences; empty where there is nothing to conclude from
    lines: tuple[MethodLine, ...]
    columns: tuple[MetricColumn, ...]
    footnotes: tuple[str, ...]  # numbered from one
    remarks: tuple[str, ...]  # without a number: methods that failed, fills that replaced others
    counts: str

    @property
    def ranked(self) -> bool:
        return len(self.lines) > 1


def sheet(comparison: Comparison) -> Sheet:
    columns = tuple(zip(*comparison.grades, strict=True))  # (metric, explanation)
    notes = _notes(comparison)
    ranks, averages = comparison.ranks(), comparison.mean_ranks()
    several = len(comparison.names) > 1
    conclusion = comparison.conclusion()
    lines = []
    for place, (name, explanation, grades) in enumerate(
        zip(comparison.names, comparison.explanations, comparison.grades, strict=True)
    ):
        cells = tuple(_cell(grade, ranks[place][i], columns[i], notes, explanation) for i, grade in enumerate(grades))
        average = averages[place] if several else None
        shown = f"{name} {GAP_MARK}" if explanation.gap_stays else name
        cost = _cost(explanation, several=several)
        verdict = _verdict(name, explanation, conclusion)
        lines.append(MethodLine(visible(shown), explanation, cells, average, *cost, verdict))
    lines.sort(key=lambda line: (line.mean_rank is None, line.mean_rank))
    return Sheet(
        visible(in_words(comparison)),
        tuple(lines),
        tuple(
            MetricColumn(visible(column[0].metric), column[0].better, _tip(column), column[0].group)
            for column in columns
        ),
        tuple(_footnote(comparison, why) for why in notes),
        _remarks(comparison, columns),
        _counts(comparison),
    )


def _verdict(name: str, explanation: Explanation, conclusion: Conclusion) -> str:
    """That of the explanation's own test; else what the grades beside those of `random` say."""
    if explanation.check is not None:
        return explanation.check.verdict
    if conclusion.basis == "too short":
        return "too short"
    judged = {"supported": conclusion.supported, "weak": conclusion.weak, "not supported": conclusion.not_supported}
    return next((verdict for verdict, names in judged.items() if name in names), "")


def mean(rank: float | None) -> str:
    return "" if rank is None else f"{rank:.1f}"


def in_words(comparison: Comparison) -> str:
    """What the comparison concludes, before any number."""
    conclusion = comparison.conclusion()
    sentences = [_judgement(comparison, conclusion), _difference(comparison, conclusion)]
    return " ".join(sentence for sentence in sentences if sentence)


def _judgement(comparison: Comparison, conclusion: Conclusion) -> str:
    if conclusion.basis == "nothing":
        return ""
    if conclusion.basis == "too short":
        return "The text is too short to tell whether a method is better than random."
    groups = [
        (conclusion.supported, "supported on this text"),
        (conclusion.weak, "weakly supported"),
        (conclusion.not_supported, "no better than random"),
    ]
    clauses = [f"{join_names(names)} {'is' if len(names) == 1 else 'are'} {what}" for names, what in groups if names]
    if len(clauses) == 1 and len(conclusion.supported + conclusion.weak + conclusion.not_supported) > 1:
        judged, what = next((names, what) for names, what in groups if names)
        others = [name for name in comparison.names if name not in judged]  # such as `random`, which is the yardstick
        return f"Every method{f' but {join_names(others)}' if others else ''} is {what}."
    return "; ".join(clauses) + "." if clauses else ""


def _difference(comparison: Comparison, conclusion: Conclusion) -> str:
    whose = "Those that are supported" if len(conclusion.supported) > 1 else "The methods"
    if conclusion.agreed is not None:
        return f"{whose} agree that “{_unit(comparison, conclusion.agreed)}” matters most."
    if conclusion.disagreement is None:
        return ""
    where = conclusion.disagreement
    unit = _unit(comparison, where.unit)
    if where.places is None:
        return (
            f"{whose} disagree most on “{unit}”: by {where.first} it speaks for {comparison.explanations[0].target},"
            f" by {where.second} against."
        )
    units = sum(segment >= 0 for segment in comparison.explanations[0].segment)
    first, second = (f"{ordinal(place)}" for place in where.places)
    ranks = f"of {units} it is the {first} by {where.first}, the {second} by {where.second}"
    return f"{whose} disagree most on “{unit}”: {ranks}."


def _unit(comparison: Comparison, place: int) -> str:
    """The text of a unit."""
    explanation = comparison.explanations[0]
    start, end = explanation.offsets[place]
    text = explanation.text if explanation.segment[place] == 0 else explanation.pair or ""
    return token_label(text[start:end], explanation.tokens[place])


def ordinal(place: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = "th" if 10 <= place % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"


def _cost(explanation: Explanation, *, several: bool) -> tuple[str, str]:
    """Time, and rows of the forward and of the backward pass. What was computed for a method before this one is
    shared, not free.
    """
    time, passes = duration(explanation.seconds), (explanation.forwards, explanation.backwards)
    if not several:
        return time, f"{passes[0]} + {passes[1]}"
    if passes == (0, 0):
        return ("shared", "shared") if explanation.seconds else ("–", "–")
    return time, f"{passes[0] or 'shared'} + {passes[1]}"


def _cell(
    grade: Grade, rank: int | None, column: Sequence[Grade], notes: Sequence[str], explanation: Explanation
) -> GradeCell:
    if grade.value is None:
        return GradeCell(
            "", None, None, False, 1 + notes.index(_reason(grade, explanation)), visible(grade.why or "not defined")
        )
    known = [other.value for other in column if other.value is not None]
    if len(column) == 1 or rank is None:
        return GradeCell(figure(grade.value), grade.value, None, False, None, "")
    best = rank == 1 and any(figure(other) != figure(grade.value) for other in known)
    return GradeCell(
        figure(grade.value), grade.value, rank, best, None, f"{grade.value:.6g}, place {rank} of {len(known)}"
    )


def _reason(grade: Grade, explanation: Explanation) -> str:
    """Why a metric is not defined, without the method's name, so that several methods can share a footnote."""
    return (grade.why or "not defined").removeprefix(f"{explanation.method} ")


def _notes(comparison: Comparison) -> list[str]:
    rows = zip(comparison.grades, comparison.explanations, strict=True)
    return list(
        dict.fromkeys(
            _reason(grade, explanation) for grades, explanation in rows for grade in grades if grade.value is None
        )
    )


def _footnote(comparison: Comparison, why: str) -> str:
    """The metrics and methods that a reason concerns, and the reason."""
    metrics, methods = [], []
    for name, explanation, grades in zip(comparison.names, comparison.explanations, comparison.grades, strict=True):
        concerned = [grade.metric for grade in grades if grade.value is None and _reason(grade, explanation) == why]
        metrics += concerned
        methods += [name] * bool(concerned)
    every = len(methods) == len(comparison.names)
    concerned_methods = "every method" if every and len(methods) > 1 else _shortened(methods)
    return visible(f"{', '.join(dict.fromkeys(metrics))} of {concerned_methods}: {why}")


def _shortened(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= MANY + 1 else f"{', '.join(names[:MANY])} and {len(names) - MANY} more"


def _tip(column: Sequence[Grade]) -> str:
    fills = sorted({grade.fill for grade in column if grade.fill})
    hidden = f"; hides by {', '.join(fills)}" if fills else ""
    return visible(f"{column[0].metric}: {column[0].better} is better{hidden}; {column[0].group}")


def _remarks(comparison: Comparison, columns: Sequence[Sequence[Grade]]) -> tuple[str, ...]:
    failed = [f"{name} could not explain this text: {why}" for name, why in comparison.failed.items()]
    instead: dict[tuple[str, str], list[str]] = {}
    for column in columns:
        for missing in {str(grade.details["instead_of"]) for grade in column if "instead_of" in grade.details}:
            instead.setdefault((str(column[0].fill), missing), []).append(column[0].metric)
    stood_in = [
        f"{', '.join(metrics)}: hides by {fill}, as this tokenizer has no {missing} token"
        for (fill, missing), metrics in instead.items()
    ]
    gaps = [
        f"{name}: {gap_warning(explanation)}"
        for name, explanation in zip(comparison.names, comparison.explanations, strict=True)
        if explanation.gap_stays
    ]
    return tuple(visible(remark) for remark in failed + gaps + stood_in)


def _counts(comparison: Comparison) -> str:
    if not comparison.asked:
        return "The metrics asked the model no questions."
    saved = (
        f"The metrics asked {comparison.asked:,} questions: {comparison.distinct:,} of them new,"
        f" {comparison.rows:,} rows through the model"
    )
    return f"{saved}, {duration(comparison.seconds)}."
