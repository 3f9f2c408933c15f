"""Many methods on many texts, graded by many metrics: each pass is made once, each question asked once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from wherefrom.case.asking import Asker, Progress
from wherefrom.case.case import Case
from wherefrom.case.check import ToCheck
from wherefrom.case.door import Subject, check_target, is_output, read_again, saved_subject, subject_of
from wherefrom.case.explain import ComponentCases, by_batches, cases_of, cases_toward, checked, explained
from wherefrom.case.memory import is_out_of_memory
from wherefrom.case.passes import Passes
from wherefrom.core.comparison import Comparison, Grade, Rationale
from wherefrom.core.edits import EditedText
from wherefrom.core.encoding import Encoding
from wherefrom.core.explanation import Explanation
from wherefrom.core.target import joint_probability, written_value
from wherefrom.core.units import Level, Span
from wherefrom.errors import BadOption, NotDefined, TextWithoutAnswer, UnknownName, WherefromError
from wherefrom.grading.common_units import on_common_units
from wherefrom.grading.evidence import Evidence
from wherefrom.grading.grade import ConfiguredMetric, GradingTask, grade
from wherefrom.grading.other_readings import (
    EditedReading,
    EditedReadings,
    Elsewhere,
    compared_with,
    edits_of,
    mean_over_pairs,
    why_not_edited,
    with_edited,
)
from wherefrom.model.randomised import randomised
from wherefrom.model.tasks import TargetSpec
from wherefrom.model.text_model import TextModel
from wherefrom.registry import (
    Configured,
    Method,
    Reference,
    find_method,
    options_of,
)


@dataclass(frozen=True)
class Query:
    """One text to compare methods on, and what people said of it: spans of characters in the text and in its pair."""

    encoding: Encoding
    target: TargetSpec = None
    rationale: tuple[Sequence[Span], Sequence[Span]] | None = None
    answer: str | Sequence[Span] | None = None

    def __post_init__(self) -> None:
        first, second = self.encoding.text, self.encoding.pair or ""
        for spans, text in zip(self.rationale or (), (first, second), strict=False):
            check_spans("rationale", spans, text)
        if self.answer is not None and not isinstance(self.answer, str):
            check_spans("answer", self.answer, second)

    @property
    def marked(self) -> Rationale | None:
        """The rationale in plain numbers, as a comparison keeps it."""
        if self.rationale is None:
            return None
        first, second = (tuple((int(start), int(end)) for start, end in spans) for spans in self.rationale)
        return first, second


def check_spans(name: str, spans: Any, text: str) -> None:
    if not isinstance(spans, Iterable):
        raise BadOption(f"A {name} is given as (start, end) pairs of characters in a list, not {spans!r}.")
    for span in spans:
        try:
            start, end = (int(edge) for edge in span)
        except (TypeError, ValueError) as error:
            raise BadOption(f"A {name} is given as (start, end) pairs of characters, not {span!r}.") from error
        if not 0 <= start < end <= len(text):
            raise BadOption(
                f"The {name} {start}:{end} lies outside of the text, which has"
                f" {len(text)} characters (start before end)."
            )


class Gathered(NamedTuple):
    """What is known of one text before its explanations are graded, by the method as it was asked for."""

    explanations: dict[str, Explanation]
    failed: dict[str, str]
    jobs: list[GradingTask]  # one for every explanation; with the first of the other models, where there are any
    pairs: list[list[GradingTask]]  # of every explanation, the same with each further model


@dataclass(frozen=True)
class Comparer:
    """What is compared, by what, and at which level."""

    model: TextModel
    methods: Sequence[Configured[Method]]
    metrics: Sequence[ConfiguredMetric]
    level: Level = "token"
    against: Sequence[TextModel] = ()  # other models, for metrics that compare two
    check: bool = False  # whether every explanation is put to its own test, too
    skip: bool = True  # a method that cannot explain a text is left out, and said so; else it is an error
    numbered: bool = True  # whether explanations know the words and sentences of their tokens

    def compare(
        self,
        queries: Sequence[Query],
        *,
        asker: Asker | None = None,
        progress: Progress | None = None,
        explained_so_far: Progress | None = None,
    ) -> list[Comparison]:
        """One comparison a text. The counts of questions are of all of them together.

        progress: called as questions are answered. explained_so_far: called before that, after every method of every
            batch of texts, with how many explanations there are, and how many there will be.
        """
        for model in (*self.against, self.model):  # what cannot be explained is an error before anything runs
            queries = [replace(query, target=check_target(model, query.target)) for query in queries]
        if any(is_output(self.model, query.target) for query in queries):
            return self._of_outputs(queries, asker, progress, explained_so_far)
        shared = asker or Asker(self.model)
        elsewhere = [
            self._explained_beside(model, queries, partial(_read_by, model))
            for model in self.against
            if self._needs("second")
        ]
        edited = self._edited(queries) if self._needs("edited") else []
        copy = randomised_copy(self.model) if self._needs("randomised") else None

        def work(places: Sequence[int]) -> dict[int, Gathered]:
            return self._gathered(places, queries, shared, elsewhere, count, edited, copy)

        explanations = 0

        def count(more: int) -> None:
            nonlocal explanations
            explanations += more
            if explained_so_far is not None:  # texts that were tried again in halves count once
                explained_so_far(min(explanations, len(queries) * len(self.methods)), len(queries) * len(self.methods))

        gathered = by_batches(self.model, [query.encoding for query in queries], work)
        ordered = [gathered[place] for place in range(len(queries))]
        before, started = (shared.asked, shared.distinct, shared.rows), time.perf_counter()
        graded = grade([job for item in ordered for job in item.jobs], self.metrics, shared, progress)
        grades = iter(self._over_pairs(graded, [pairs for item in ordered for pairs in item.pairs], shared))
        seconds = (time.perf_counter() - started) / len(queries)
        queried, distinct, rows = (
            now - then for now, then in zip((shared.asked, shared.distinct, shared.rows), before, strict=True)
        )
        shown = [self._checked(item, shared) for item in ordered]
        return [
            Comparison(
                shown[number],
                tuple(tuple(next(grades)) for _ in item.jobs),
                tuple(item.explanations),
                item.failed,
                queried,
                distinct,
                rows,
                seconds,
                queries[number].marked,
            )
            for number, item in enumerate(ordered)
        ]

    def _of_outputs(
        self,
        queries: Sequence[Query],
        asker: Asker | None,
        progress: Progress | None,
        explained_so_far: Progress | None,
    ) -> list[Comparison]:
        """The same where a target is a whole output: each text has its own, which the model is asked about."""
        if self._needs("second"):
            raise BadOption(
                "Metrics that compare two models are not defined for whole outputs, which the two may cut into"
                " different tokens: leave these metrics and --against (against=) out."
            )
        if self._needs("randomised"):
            raise BadOption("randomisation is not defined for whole outputs: explain one token of them (target=).")
        if self._needs("edited"):
            raise BadOption("stability is not defined for whole outputs: an edited text may have another output.")
        comparisons: list[Comparison] = []
        for number, query in enumerate(queries):
            subject = subject_of(self.model, query.encoding, query.target)
            comparer = replace(self, model=subject.model, against=())
            query = replace(query, encoding=subject.encoding, target=subject.target)
            bound_asker = Asker(subject.model)
            comparisons += comparer.compare([query], asker=bound_asker, progress=progress)
            if asker is not None:
                asker.count_also(bound_asker)
            if explained_so_far is not None:
                explained_so_far((number + 1) * len(self.methods), len(queries) * len(self.methods))
        return comparisons

    def _over_pairs(
        self, graded: Sequence[list[Grade]], pairs: Sequence[Sequence[GradingTask]], asker: Asker
    ) -> list[list[Grade]]:
        """The grades, in which metrics that compare two models have the mean over all other models."""
        two = [metric for metric in self.metrics if metric.choice.row.needs == "second"]
        if not two or not self.against:
            return list(graded)
        further = iter(grade([job for jobs in pairs for job in jobs], two, asker))
        rows = []
        for row, jobs in zip(graded, pairs, strict=True):
            more = [{text_grade.metric: text_grade for text_grade in next(further)} for _ in jobs]
            names = {metric.choice.asked for metric in two}
            rows.append(
                [
                    mean_over_pairs([text_grade, *(other[text_grade.metric] for other in more)])
                    if text_grade.metric in names
                    else text_grade
                    for text_grade in row
                ]
            )
        return rows

    def _explained_beside(
        self, model: TextModel, queries: Sequence[Query], read: Callable[[Query], Query] | None = None
    ) -> list[Elsewhere]:
        """What another model explains of these texts, or the same one of others, by the same methods. A text that it
        cannot read or explain costs nothing but itself.
        """
        if not queries:
            return []
        comparer = replace(self, model=model, metrics=(), against=(), check=False, skip=True)
        try:
            return list(comparer.compare([read(query) for query in queries] if read else queries))
        except Exception as error:
            if len(queries) == 1:
                return [reason(error)]
            return [self._explained_beside(model, [query], read)[0] for query in queries]

    def _edited(self, queries: Sequence[Query]) -> list[EditedReadings]:
        """Every text after every small edit that changes what the model reads, explained by the same methods."""
        made: list[tuple[int, str, list[EditedText], Query]] = []
        for number, query in enumerate(queries):
            edited = edits_of(self.model, query.encoding)
            made += [(number, name, edits, Query(again, query.target)) for name, edits, again in edited]
        explained = self._explained_beside(self.model, [query for *_, query in made])
        readings: list[list[EditedReading]] = [[] for _ in queries]
        for (number, name, edits, _), explained_as in zip(made, explained, strict=True):
            readings[number].append(EditedReading(name, edits, explained_as))
        return [
            EditedReadings(reading, "" if reading else why_not_edited(query.encoding))
            for reading, query in zip(readings, queries, strict=True)
        ]

    def _checked(self, gathered: Gathered, asker: Asker) -> tuple[Explanation, ...]:
        """A text's explanations with their checks, where these are wanted. They ask after the metrics, so that what
        both ask is counted once, with the metrics.
        """
        explanations = tuple(gathered.explanations.values())
        if not self.check:
            return explanations
        jobs = [
            ToCheck(explanation, job.encoding, job.targets, job.logits.detach())
            for explanation, job in zip(explanations, gathered.jobs, strict=True)
        ]
        return tuple(checked(jobs, asker))

    def evaluate(
        self, explanations: Sequence[Explanation], query: Query, *, progress: Progress | None = None
    ) -> Comparison:
        """Grades of explanations of one text that are there already."""
        subject = _subject_of(self.model, query, explanations)
        if subject.model is not self.model:
            comparer = replace(self, model=subject.model)
            return comparer.evaluate(explanations, replace(query, encoding=subject.encoding), progress=progress)
        encoding, explanations = on_common_units(query.encoding, explanations)
        query = replace(query, encoding=encoding)
        asker, started = Asker(self.model), time.perf_counter()
        with torch.inference_mode(False):
            passes = Passes(self.model, [query.encoding], asker)
            if self._needs("others"):
                self._announce_again(explanations, passes)
            explanations = [self._completed(explanation, passes) for explanation in explanations]
            copy = randomised_copy(self.model) if self._needs("randomised") else None
            jobs = [self._job_of(explanation, query, passes, copy) for explanation in explanations]
            grades = grade(jobs, self.metrics, asker, progress)
        return Comparison(
            tuple(explanations),
            tuple(tuple(row) for row in grades),
            tuple(graded.method for graded in explanations),
            asked=asker.asked,
            distinct=asker.distinct,
            rows=asker.rows,
            seconds=time.perf_counter() - started,
            rationale=query.marked,
        )

    def _needs(self, what: Reference) -> bool:
        return any(chosen.choice.row.needs == what for chosen in self.metrics)

    def _announce_again(self, explanations: Sequence[Explanation], passes: Passes) -> None:
        """What the methods of these explanations read, for explaining the other classes."""
        for explanation in explanations:
            with suppress(UnknownName):  # made by hand or elsewhere: its other classes are not explained
                method = find_method(explanation.method)
                passes.announce(method.needs(_options_again(method, explanation)), several_targets=True)

    def _job_of(
        self, explanation: Explanation, query: Query, passes: Passes, copy: TextModel | NotDefined | None
    ) -> GradingTask:
        cases = self._saved_cases(explanation, passes)
        others, missing = self._explain_others(explanation, cases)
        answer = self._answer(query, cases[0]) if self._needs("answer") else None
        graded = Evidence.of(explanation, others=others, rationale=query.rationale, answer=answer, missing=missing)
        if self._needs("edited"):
            graded = self._edited_again(graded, explanation, query)
        if copy is not None:
            graded = self._randomised_again(graded, explanation, query, copy)
        return GradingTask.of(cases, graded)

    def _randomised_again(
        self, evidence: Evidence, explanation: Explanation, query: Query, copy: TextModel | NotDefined
    ) -> Evidence:
        """The same for an explanation whose method is known by its name."""
        try:
            method = find_method(explanation.method)
        except UnknownName as error:
            return replace(evidence, missing={**evidence.missing, "randomised": str(error)})
        choice = Configured(explanation.method, method, _options_again(method, explanation))
        return self._with_randomised(evidence, explanation, choice, query, copy)

    def _with_randomised(
        self,
        evidence: Evidence,
        explanation: Explanation,
        choice: Configured[Method],
        query: Query,
        copy: TextModel | NotDefined,
    ) -> Evidence:
        """The evidence with what the same method says of the same target with the randomised copy."""
        found: Elsewhere = str(copy)
        if not isinstance(copy, NotDefined):
            target = explanation.target if query.target is None else query.target
            comparer = replace(self, methods=[choice], level=explanation.level)
            (found,) = comparer._explained_beside(copy, [replace(query, target=target)], partial(_read_by, copy))
        why = found if isinstance(found, str) else found.failed.get(choice.asked)
        if isinstance(found, str) or why is not None:
            return replace(evidence, missing={**evidence.missing, "randomised": str(why)})
        return replace(evidence, randomised=np.asarray(found.explanations[0].scores, dtype=np.float64))

    def _edited_again(self, evidence: Evidence, explanation: Explanation, query: Query) -> Evidence:
        """The evidence with what the explanation's own method says of edited texts."""
        try:
            method = find_method(explanation.method)
        except UnknownName as error:
            return replace(evidence, missing={**evidence.missing, "edited": str(error)})
        choice = Configured(explanation.method, method, _options_again(method, explanation))
        comparer = replace(self, methods=[choice], level=explanation.level)
        # What the model decides needs no name: an explanation's target need not be one that can be asked for.
        target = None if explanation.target == explanation.prediction else explanation.target
        readings = comparer._edited([replace(query, target=target if query.target is None else query.target)])[0]
        return with_edited(evidence, explanation, choice.asked, readings)

    def _saved_cases(self, explanation: Explanation, passes: Passes) -> list[Case]:
        """The cases of an explanation's own target."""
        encoding, task = passes.encodings[0], self.model.task
        targets = task.restored(self.model, explanation.target, explanation.components, passes.logits[0], encoding)
        return cases_toward(passes, [0], [targets], explanation.level)[0]

    def _completed(self, explanation: Explanation, passes: Passes) -> Explanation:
        """An explanation with what this model says of its target, where its scores came from another tool."""
        if explanation.components or explanation.model:
            return explanation
        encoding, logits, task = passes.encodings[0], passes.logits[0], self.model.task
        targets = task.targets(self.model, explanation.target or None, logits, encoding)
        output = joint_probability(targets, logits[None]).item()
        value = output if targets[0].regression else None
        decided = task.decided(self.model, logits, encoding, targets)
        return replace(
            explanation,
            target=targets[0].label,
            components=tuple(target.saved() for target in targets),
            probability=output if value is None else None,
            value=value,
            prediction=decided[0].label if value is None else written_value(value),
            probabilities=task.probabilities(self.model, logits, targets[0]),
            task=task.name,
            independent=targets[0].independent,
        )

    def _explain_others(
        self, explanation: Explanation, cases: Sequence[Case]
    ) -> tuple[list[Explanation], dict[str, str]]:
        """The same method's explanations of every other class, where a metric compares with them; and why there are
        none.
        """
        if not self._needs("others"):
            return [], {}
        case = cases[0]
        try:
            method = find_method(explanation.method)
            others = self.model.task.others(self.model, case.target)
        except (UnknownName, NotDefined) as error:
            return [], {"others": str(error)}
        return _of_others(method, _options_again(method, explanation), [case.toward(target) for target in others])

    def _gathered(
        self,
        places: Sequence[int],
        queries: Sequence[Query],
        asker: Asker,
        elsewhere: Sequence[Sequence[Elsewhere]],
        count: Callable[[int], None],
        edited: Sequence[EditedReadings] = (),
        copy: TextModel | NotDefined | None = None,
    ) -> dict[int, Gathered]:
        """Every method's explanations of texts that share their passes, and what there is to grade.

        elsewhere: what the other models explain of all texts. (other model, text)
        count: called after every method with how many texts it was asked about.
        edited: all texts after small edits, where a metric compares with them. (text,)
        copy: the model with shuffled weights, where a metric compares with it; or why there is none.
        """
        passes = Passes(self.model, [queries[place].encoding for place in places], asker)
        for choice in self.methods:
            passes.announce(choice.row.needs(choice.options))
        if self._needs("others") and len(places) == 1:
            passes.announce((), several_targets=True)
        cases = cases_of(passes, places, [queries[place].target for place in places], self.level)
        others, why = self._cases_of_others(cases) if self._needs("others") else ({}, "")
        gathered = {place: Gathered({}, {}, [], []) for place in places}
        for choice in self.methods:
            for place, explanation in self._by(choice, cases, gathered).items():
                query = queries[place]
                toward_others, missing = (
                    _of_others(choice.row, choice.options, others[place]) if others else ([], {"others": why})
                )
                answer = self._answer(query, cases[place][0]) if self._needs("answer") else None
                evidence = Evidence.of(
                    explanation, others=toward_others, rationale=query.rationale, answer=answer, missing=missing
                )
                if edited:
                    evidence = with_edited(evidence, explanation, choice.asked, edited[place])
                if copy is not None:
                    evidence = self._with_randomised(evidence, explanation, choice, query, copy)
                pairs = [compared_with(evidence, explanation, choice.asked, by[place]) for by in elsewhere]
                first, *further = [GradingTask.of(cases[place], item) for item in pairs or [evidence]]
                gathered[place].explanations[choice.asked] = explanation
                gathered[place].jobs.append(first)
                gathered[place].pairs.append(further)
            count(len(places))
        return gathered

    def _by(
        self, choice: Configured[Method], cases: ComponentCases, gathered: Mapping[int, Gathered]
    ) -> dict[int, Explanation]:
        """One method's explanations; of one text after the other, where not all can be explained.

        Whatever a method raises costs its own explanation of that text, and nothing else.
        """
        try:
            return explained(cases, choice.row, choice.options, numbered=self.numbered)
        except Exception as error:
            if _of_the_batch(error, next(iter(cases.values()))[0]):
                raise
            if len(cases) > 1:
                alone = [self._by(choice, {place: components}, gathered) for place, components in cases.items()]
                return {place: result for part in alone for place, result in part.items()}
            if not self.skip:
                raise
            gathered[next(iter(cases))].failed[choice.asked] = reason(error)
            return {}

    def _cases_of_others(self, cases: ComponentCases) -> tuple[ComponentCases, str]:
        """The cases of every other class, and why there are none."""
        task = self.model.task
        try:
            return {
                place: [components[0].toward(target) for target in task.others(self.model, components[0].target)]
                for place, components in cases.items()
            }, ""
        except NotDefined as error:
            return {}, str(error)

    def _answer(self, query: Query, case: Case) -> list[Sequence[Span]] | None:
        """Where the answer is: in the second text. What is predicted, unless it is known."""
        spans = query.answer
        if isinstance(spans, str):
            pair = query.encoding.pair or ""
            first = pair.find(spans)
            if first < 0 or not spans:
                raise UnknownName(f"The answer {spans!r} is not in the context.")
            spans = [(first, first + len(spans))]
        if spans is None:
            spans = self.model.task.answer(self.model, case.logits, query.encoding)
        return None if spans is None else [(), spans]


def _subject_of(model: TextModel, query: Query, explanations: Sequence[Explanation]) -> Subject:
    """What saved explanations of one text explain. Where none says it in the model's own numbers, as scores of other
    tools do not, the target is read again by its name: it may be a whole output.
    """
    if not any(explanation.components or explanation.model for explanation in explanations):
        names = {explanation.target for explanation in explanations}
        if len(names) > 1 and any(is_output(model, name or None) for name in names):
            raise BadOption("These explanations are of different outputs: evaluate them one by one.")
        return subject_of(model, query.encoding, explanations[0].target or None)
    return saved_subject(model, query.encoding, [explanation.components for explanation in explanations])


def _read_by(model: TextModel, query: Query) -> Query:
    """The same query as another model reads it, with what only that model's explanations need."""
    encoding = query.encoding
    again = read_again(model, encoding.text, encoding.pair, encoding.turns)
    return Query(again.with_spans(encoding.spans) if encoding.spans else again, query.target)


def _options_again(method: Method, explanation: Explanation) -> dict[str, Any]:
    """The options that an explanation was made with."""
    return {name: explanation.params.get(name, p.default) for name, p in options_of(method.function).items()}


def _of_others(
    row: Method, options: Mapping[str, Any], cases: Sequence[Case]
) -> tuple[list[Explanation], dict[str, str]]:
    """One method's explanations of every other class; and why there are none."""
    if not row.per_class:
        return [], {"others": f"{row.name} gives every class the same scores"}
    try:
        return [explained({0: [case]}, row, options)[0] for case in cases], {}
    except Exception as error:
        if cases and _of_the_batch(error, cases[0]):
            raise
        return [], {"others": f"another class could not be explained: {reason(error)}"}


def _of_the_batch(error: Exception, case: Case) -> bool:
    """Whether an error says that the batch has to be made smaller: a text in it has no answer, or memory ended."""
    several = len(case.passes.encodings) > 1
    return several and (isinstance(error, TextWithoutAnswer) or is_out_of_memory(error))


def reason(error: Exception) -> str:
    """Why something failed, as one line: the type is named where the error was not written for a user."""
    return str(error) if isinstance(error, WherefromError) else f"{type(error).__name__}: {error}"


def randomised_copy(model: TextModel) -> TextModel | NotDefined:
    """The model with shuffled weights, or why there is none."""
    try:
        return randomised(model)
    except NotDefined as error:
        return error
