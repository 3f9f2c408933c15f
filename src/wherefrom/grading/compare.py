"""Many methods on many texts, graded by many metrics: each pass is made once, each question asked once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from wherefrom.case.asking import Asker, Progress
from wherefrom.case.case import Case, make_cases
from wherefrom.case.explain import Aims, aimed, explained, retargeted
from wherefrom.core.comparison import Comparison
from wherefrom.core.encoding import Encoding
from wherefrom.core.explanation import Explanation
from wherefrom.core.target import Boundary, Target
from wherefrom.core.units import Level, Span
from wherefrom.errors import BadOption, NotDefined, UnknownName, WherefromError
from wherefrom.grading.evidence import Evidence
from wherefrom.grading.grade import ConfiguredMetric, GradingTask, grade
from wherefrom.model.tasks import Asked
from wherefrom.model.text_model import TextModel
from wherefrom.registry import Choice, Method, all_methods, all_metrics, choose, find_method, options_of


@dataclass(frozen=True)
class Query:
    """One text to compare methods on, and what people said of it: spans of characters in the text and in its pair."""

    encoding: Encoding
    target: Asked = None
    rationale: tuple[Sequence[Span], Sequence[Span]] | None = None
    answer: str | Sequence[Span] | None = None

    def __post_init__(self) -> None:
        first, second = self.encoding.text, self.encoding.pair or ""
        for spans, text in zip(self.rationale or (), (first, second), strict=False):
            check_spans("rationale", spans, text)
        if self.answer is not None and not isinstance(self.answer, str):
            check_spans("answer", self.answer, second)


def check_spans(name: str, spans: Any, text: str) -> None:
    for span in spans:
        try:
            start, end = (int(one) for one in span)
        except (TypeError, ValueError) as error:
            raise BadOption(f"A {name} is given as (start, end) pairs of characters, not {span!r}.") from error
        if not 0 <= start < end <= len(text):
            raise BadOption(
                f"The {name} {start}:{end} lies outside of the text, which has"
                f" {len(text)} characters (start before end)."
            )


def chosen_methods(asked: str | Sequence[str]) -> list[Choice[Method]]:
    """Methods as `name:option=value`, in a list or between commas; `all` is every method that needs no option to be
    given.
    """
    every = [row.name for row in all_methods() if row.family != "selection"]  # which would only choose among the others
    names = every if asked == "all" else _listed(asked)
    if not names:
        raise BadOption("Name at least one method, or say 'all'.")
    return _unlike([choose("method", name) for name in names])


def chosen_metrics(
    asked: str | Sequence[str] | None, *, has: Mapping[str, bool] | None = None
) -> list[ConfiguredMetric]:
    """Metrics as `name:option=value`; `all`, or nothing said, is every metric for which there is what it needs."""
    if asked is None or asked == "all":
        return [
            ConfiguredMetric.read(row.name)
            for row in all_metrics()
            if row.needs is None or (has or {}).get(row.needs, False)
        ]
    found = [ConfiguredMetric.read(name) for name in _listed(asked)]
    if not found:
        raise BadOption("Name at least one metric, or say 'all'.")
    _unlike([one.choice for one in found])
    return found


def _listed(asked: str | Sequence[str]) -> list[str]:
    return [name.strip() for name in (asked.split(",") if isinstance(asked, str) else asked) if name.strip()]


def _unlike(choices: list[Choice[Any]]) -> list[Choice[Any]]:
    for number, choice in enumerate(choices):
        if any(choice.asked == other.asked for other in choices[:number]):
            raise BadOption(f"{choice.asked!r} is named twice.")
    return choices


class Gathered(NamedTuple):
    """What is known of one text before its explanations are graded, by the method as it was asked for."""

    explanations: dict[str, Explanation]
    failed: dict[str, str]
    jobs: list[GradingTask]


Second = Callable[[Encoding, Choice[Method], Asked], Explanation]  # the same explanation by another model


@dataclass(frozen=True)
class Comparer:
    """What is compared, by what, and at which level."""

    model: TextModel
    methods: Sequence[Choice[Method]]
    metrics: Sequence[ConfiguredMetric]
    level: Level = "token"
    second: Second | None = None
    skip: bool = True  # a method that cannot explain a text is left out, and said so; else it is an error

    def compare(
        self, queries: Sequence[Query], *, asker: Asker | None = None, progress: Progress | None = None
    ) -> list[Comparison]:
        """One comparison a text. The counts of questions are of all of them together."""
        asker = asker or Asker(self.model)
        found: dict[int, Gathered] = {}
        fixed = [
            None if q.target is None or self.model.task.depends_on_text else self.model.target(q.target)
            for q in queries
        ]
        with torch.inference_mode(False):  # the caller may be inside of one, where nothing could be differentiated
            for cases in make_cases(self.model, [q.encoding for q in queries], fixed, level=self.level, asker=asker):
                found |= self._gathered(cases, {place: queries[place] for place in cases})
        ordered = [found[place] for place in range(len(queries))]
        before, started = (asker.asked, asker.distinct, asker.rows), time.perf_counter()
        grades = iter(grade([job for one in ordered for job in one.jobs], self.metrics, asker, progress))
        seconds = (time.perf_counter() - started) / len(queries)
        asked, distinct, rows = (
            now - then for now, then in zip((asker.asked, asker.distinct, asker.rows), before, strict=True)
        )
        return [
            Comparison(
                tuple(one.explanations.values()),
                tuple(tuple(next(grades)) for _ in one.jobs),
                tuple(one.explanations),
                one.failed,
                asked,
                distinct,
                rows,
                seconds,
            )
            for one in ordered
        ]

    def evaluate(
        self, explanations: Sequence[Explanation], query: Query, *, progress: Progress | None = None
    ) -> Comparison:
        """Grades of explanations of one text that are there already."""
        asker, started = Asker(self.model), time.perf_counter()
        whole: dict[Level, dict[int, Case]] = {}
        jobs = []
        with torch.inference_mode(False):
            for explanation in explanations:
                if explanation.level not in whole:
                    (whole[explanation.level],) = make_cases(
                        self.model, [query.encoding], [None], level=explanation.level, asker=asker
                    )
                cases = self._as_it_was(explanation, whole[explanation.level])
                others, missing = self._elsewhere(explanation, cases)
                answer = self._answer(query, cases[0]) if self._needs("answer") else None
                graded = Evidence.of(
                    explanation, others=others, rationale=query.rationale, answer=answer, missing=missing
                )
                jobs.append(GradingTask.of(cases, graded))
            grades = grade(jobs, self.metrics, asker, progress)
        return Comparison(
            tuple(explanations),
            tuple(tuple(row) for row in grades),
            tuple(one.method for one in explanations),
            asked=asker.asked,
            distinct=asker.distinct,
            rows=asker.rows,
            seconds=time.perf_counter() - started,
        )

    def _needs(self, what: str) -> bool:
        return any(chosen.choice.row.needs == what for chosen in self.metrics)

    def _as_it_was(self, explanation: Explanation, cases: dict[int, Case]) -> list[Case]:
        """The cases of an explanation's own target."""
        encoding, level = cases[0].encoding, explanation.level
        if len(encoding.members(level)) != len(explanation.scores):
            raise BadOption(
                f"The explanation has {len(explanation.scores)} {level}s, but this model"
                f" reads {len(encoding.members(level))} in its text."
                " Was it made with another tokenizer?"
            )
        task, case = self.model.task, cases[0]
        aims = [
            Target(index, explanation.target, self.model.independent and task.name == "classification", versus)
            if end is None
            else Boundary(index, explanation.target, end=end)
            for index, versus, end in explanation.aims
        ] or task.aims(self.model, explanation.target, case.logits, encoding)
        classes = len(encoding) if task.depends_on_text else case.logits.shape[-1]
        if any(not 0 <= aim.index < classes or (isinstance(aim, Boundary) != task.depends_on_text) for aim in aims):
            raise BadOption(f"The explanation is of {explanation.target!r}, which this model has not.")
        return retargeted(cases, {0: aims})[0]

    def _elsewhere(self, explanation: Explanation, cases: Sequence[Case]) -> tuple[list[Explanation], dict[str, str]]:
        """The same method's explanations of every other class, where a metric compares with them; and why there are
        none.
        """
        if not self._needs("others"):
            return [], {}
        try:
            row = find_method(explanation.method)
            others = self.model.task.others(self.model, cases[0].target)
        except (UnknownName, NotDefined) as error:
            return [], {"others": str(error)}
        options = {name: explanation.params.get(name, p.default) for name, p in options_of(row.function).items()}
        return _of_others(row, options, retargeted({0: cases[0]}, {0: others})[0])

    def _gathered(self, cases: dict[int, Case], queries: Mapping[int, Query]) -> dict[int, Gathered]:
        """Every method's explanations of texts that share their passes, and what there is to grade."""
        if self._needs("others") and len(cases) == 1:
            next(iter(cases.values())).group.path = []
        aims = aimed(
            cases,
            {place: query.target for place, query in queries.items()},
            recorded=self.methods[0].row.reads == "attention",
        )
        others, why = self._others(cases, aims) if self._needs("others") else ({}, "")
        found = {place: Gathered({}, {}, []) for place in cases}
        for choice in self.methods:
            for place, explanation in self._by(choice, aims, found).items():
                query = queries[place]
                elsewhere, missing = (
                    _of_others(choice.row, choice.options, others[place]) if others else ([], {"others": why})
                )
                second = None
                if self._needs("second") and self.second is not None:
                    second, missing["second"] = self._second(explanation, query, choice)
                answer = self._answer(query, cases[place]) if self._needs("answer") else None
                graded = Evidence.of(
                    explanation,
                    others=elsewhere,
                    rationale=query.rationale,
                    answer=answer,
                    second=second,
                    missing=missing,
                )
                found[place].explanations[choice.asked] = explanation
                found[place].jobs.append(GradingTask.of(aims[place], graded))
        return found

    def _by(self, choice: Choice[Method], aims: Aims, found: Mapping[int, Gathered]) -> dict[int, Explanation]:
        """One method's explanations; of one text after the other, where not all can be explained."""
        try:
            return explained(aims, choice.row, choice.options)
        except WherefromError as error:
            if len(aims) > 1:
                return {
                    place: one for alone in aims for place, one in self._by(choice, {alone: aims[alone]}, found).items()
                }
            if not self.skip:
                raise
            found[next(iter(aims))].failed[choice.asked] = str(error)
            return {}

    def _others(self, cases: dict[int, Case], aims: Aims) -> tuple[Aims, str]:
        """The cases of every other class, and why there are none."""
        task = self.model.task
        try:
            return retargeted(
                cases, {place: task.others(self.model, parts[0].target) for place, parts in aims.items()}
            ), ""
        except NotDefined as error:
            return {}, str(error)

    def _second(self, explanation: Explanation, query: Query, choice: Choice[Method]) -> tuple[Explanation | None, str]:
        assert self.second is not None
        other = self.second(query.encoding, choice, query.target)
        if other.target != explanation.target:
            return None, f"the models decide differently: {explanation.target} and {other.target}"
        if other.tokens != explanation.tokens:
            return None, f"the models cut the text into different {explanation.level}s; compare them by word"
        return other, ""

    def _answer(self, query: Query, case: Case) -> list[Sequence[Span]] | None:
        """Where the answer stands: in the second text. What is predicted, unless it is known."""
        spans = query.answer
        if isinstance(spans, str):
            pair = query.encoding.pair or ""
            first = pair.find(spans)
            if first < 0 or not spans:
                raise UnknownName(f"The answer {spans!r} does not stand in the context.")
            spans = [(first, first + len(spans))]
        spans = spans or self.model.task.answer(self.model, case.logits, query.encoding)
        return None if spans is None else [(), spans]


def _of_others(
    row: Method, options: Mapping[str, Any], cases: Sequence[Case]
) -> tuple[list[Explanation], dict[str, str]]:
    """One method's explanations of every other class; and why there are none."""
    if not row.per_class:
        return [], {"others": f"{row.name} gives every class the same scores"}
    try:
        return [explained({0: [case]}, row, options)[0] for case in cases], {}
    except WherefromError as error:
        return [], {"others": f"another class could not be explained: {error}"}
