"""From what a method gives to an explanation: its scores checked, a target's components added up, tokens pooled into
words or sentences, passes counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from wherefrom.case.asking import Asker
from wherefrom.case.case import Attribution, Case, batches_by_length
from wherefrom.case.check import ToCheck, check_explanations
from wherefrom.case.door import check_target, is_output, subject_of
from wherefrom.case.kinds import BACKWARD
from wherefrom.case.memory import TextResult, clear_when_memory_ends, in_halves, is_out_of_memory
from wherefrom.case.passes import Passes
from wherefrom.case.prefixes import explained_alone, needs_prefix
from wherefrom.core.encoding import Encoding
from wherefrom.core.explanation import Explanation
from wherefrom.core.names import join_names
from wherefrom.core.target import Target, joint_probability, written_value
from wherefrom.core.units import Level
from wherefrom.errors import ModelFailed, NotSeen, SomeTextsFailed, TextWithoutAnswer, WherefromError
from wherefrom.model.tasks import TargetSpec
from wherefrom.model.text_model import TextModel
from wherefrom.registry import Method, Reads, methods_reading

Element = TypeVar("Element")
ComponentCases = dict[int, list[Case]]  # the cases of each text by its place: one for every component of its target


def explain_texts(
    model: TextModel,
    encodings: Sequence[Encoding],
    spec: TargetSpec,
    method: Method,
    options: Mapping[str, Any],
    level: Level,
    *,
    check: bool = False,
) -> list[Explanation]:
    """One method's explanation of every text, in batches of similar length.

    check: put every explanation to the test, too.
    """
    spec = check_target(model, spec)  # a label that the model does not have is an error before anything runs
    if is_output(model, spec):  # every text has its own output, to which the model is bound
        subjects = (subject_of(model, encoding, spec) for encoding in encodings)
        return [
            explain_texts(subject.model, [subject.encoding], subject.target, method, options, level, check=check)[0]
            for subject in subjects
        ]

    def work(places: Sequence[int]) -> dict[int, Explanation]:
        passes = Passes(model, [encodings[place] for place in places])
        meter = CostMeter(passes)
        passes.announce(method.needs(options))
        announce_about_one(passes, method, options, level)
        cases = cases_of(passes, places, [spec] * len(places), level)
        explanations = explained(cases, method, options, meter)
        if not check:
            return explanations
        asker = passes.asker
        jobs = [ToCheck.of(result, cases[place]) for place, result in explanations.items()]
        del passes, meter, cases  # recordings and graphs are not needed any more, and take much memory
        return dict(zip(explanations, checked(jobs, asker), strict=True))

    failed: dict[int, TextWithoutAnswer] = {}
    by_place = by_batches(model, encodings, work, failed)
    if failed:
        raise _some_failed(encodings, failed, by_place)
    return [by_place[place] for place in range(len(encodings))]


def _some_failed(
    encodings: Sequence[Encoding], failed: Mapping[int, TextWithoutAnswer], explanations: Mapping[int, Explanation]
) -> ModelFailed:
    if len(encodings) == 1:
        return failed[0]
    named = [f"number {place + 1} ({encodings[place].text[:40]!r})" for place in sorted(failed)[:3]]
    more = f" and {len(failed) - len(named)} more" if len(failed) > len(named) else ""
    return SomeTextsFailed(
        f"The model answered NaN or infinity for {len(failed)} of {len(encodings)} texts:"
        f" {', '.join(named)}{more}. Leave {'it' if len(failed) == 1 else 'them'} out; the explanations of the others"
        " are in this error's field `explanations`, by their place from 0.",
        explanations,
    )


def explain_targets(
    model: TextModel,
    encoding: Encoding,
    specs: Sequence[TargetSpec],
    method: Method,
    options: Mapping[str, Any],
    level: Level,
    *,
    check: bool = False,
) -> list[Explanation]:
    """One method's explanation of one text for every target, from the same forward passes.

    check: check every explanation, too; the random choices are queried once for all targets.
    """
    specs = [check_target(model, spec) for spec in specs]
    if any(is_output(model, spec) for spec in specs):
        each = [explain_texts(model, [encoding], spec, method, options, level, check=check) for spec in specs]
        return [result for (result,) in each]
    passes = Passes(model, [encoding])
    passes.announce(method.needs(options), several_targets=len(specs) > 1)
    explanations, jobs = [], []
    for spec in specs:
        cases = cases_of(passes, [0], [spec], level)
        explanations.append(explained(cases, method, options)[0])
        jobs.append(ToCheck.of(explanations[-1], cases[0]))
    return checked(jobs, passes.asker) if check else explanations


def checked(jobs: Sequence[ToCheck], asker: Asker) -> list[Explanation]:
    """The explanations with their checks."""
    checks = check_explanations(jobs, asker)
    return [replace(job.explanation, check=check) for job, check in zip(jobs, checks, strict=True)]


def by_batches(
    model: TextModel,
    encodings: Sequence[Encoding],
    work: Callable[[Sequence[int]], dict[int, TextResult]],
    failed: dict[int, TextWithoutAnswer] | None = None,
) -> dict[int, TextResult]:
    """What `work` gives for every text, a batch of similar length at a time; halved where memory does not suffice.

    failed: gets the texts that the model has no answer for, and the others come out as if these were not there: batches
        are filled from the shortest text on, so that those before a bad text do not depend on it. Without it, the first
        such text is an error that names the places of those in its batch.
    """
    results: dict[int, TextResult] = {}
    lengths = [len(encoding) for encoding in encodings]

    def located(places: Sequence[int]) -> dict[int, TextResult]:
        try:
            return work(places)
        except TextWithoutAnswer as error:
            if error.places is None:
                error.places = tuple(places[row] for row in error.rows)
            raise

    waiting = batches_by_length(model, lengths)
    with torch.inference_mode(False):  # the caller may be inside of one, where nothing could be differentiated
        while waiting:
            try:
                results |= in_halves(waiting[0], lengths, located)
            except TextWithoutAnswer as error:
                if failed is None or not error.places:
                    raise
                failed |= dict.fromkeys(error.places, error)
                left = [place for places in waiting for place in places if place not in failed]
                again = batches_by_length(model, [lengths[place] for place in left])
                waiting = [[left[number] for number in numbers] for numbers in again]
            else:
                del waiting[0]
    return results


def cases_of(passes: Passes, places: Sequence[int], specs: Sequence[TargetSpec], level: Level) -> ComponentCases:
    """The cases of each text's target, which may depend on the model's prediction."""
    model, targets = passes.model, []
    for row, (encoding, spec) in enumerate(zip(passes.encodings, specs, strict=True)):
        targets.append(model.task.targets(model, spec, passes.logits_of(row), encoding))
    return cases_toward(passes, places, targets, level)


def cases_toward(
    passes: Passes, places: Sequence[int], targets: Sequence[Sequence[Target]], level: Level
) -> ComponentCases:
    """The cases of these targets: the components of each text's own."""
    most = max(map(len, targets))
    if most > 1:
        passes.announce((), several_targets=True)
    by_place: ComponentCases = {place: [] for place in places}
    for number in range(most):
        view = passes.toward([components[min(number, len(components) - 1)] for components in targets])
        for row, (place, components) in enumerate(zip(places, targets, strict=True)):
            if number < len(components):
                by_place[place].append(Case(view, row, level=level, components=components))
    return by_place


class CostMeter:
    """Time and passes that a batch of texts shares, from now on."""

    def __init__(self, passes: Passes) -> None:
        self.count, self.rows, self.started = passes.count, len(passes.encodings), time.perf_counter()
        self.forwards, self.backwards = passes.count.forwards, passes.count.backwards

    def per_text(self) -> tuple[float, float, float]:
        """Seconds, forward rows and backward rows, for one of the texts."""
        spent = (
            time.perf_counter() - self.started,
            self.count.forwards - self.forwards,
            self.count.backwards - self.backwards,
        )
        return spent[0] / self.rows, spent[1] / self.rows, spent[2] / self.rows


def explained(
    cases: ComponentCases,
    method: Method,
    options: Mapping[str, Any],
    meter: CostMeter | None = None,
    *,
    numbered: bool = True,
) -> dict[int, Explanation]:
    """One method's explanation of every text. numbered: see `explanation`."""
    meter = meter or CostMeter(next(iter(cases.values()))[0].passes)
    before = {place: _own_rows(components) for place, components in cases.items()}
    ask_together([components[0] for components in cases.values()], method, options)
    attributed = {place: attributions(components, method, options) for place, components in cases.items()}
    seconds, forwards, backwards = meter.per_text()
    explanations = {}
    for place, components in cases.items():
        more = _own_rows(components)
        cost = (seconds, round(forwards + more[0] - before[place][0]), round(backwards + more[1] - before[place][1]))
        explanations[place] = explanation(components, method, options, attributed[place], cost, numbered=numbered)
    return explanations


def announce_about_one(passes: Passes, method: Method, options: Mapping[str, Any], level: Level) -> None:
    """Note a method's queries about a single text before any pass: where all fit into one batch, the text runs together
    with its queries.
    """
    if len(passes.encodings) == 1 and method.asks is not None:
        with suppress(WherefromError):  # the method raises it again when it runs
            method.announce_questions(Case(passes.toward([None]), 0, level=level), options)


def ask_together(cases: Sequence[Case], method: Method, options: Mapping[str, Any]) -> None:
    """Run the queries that a method announces about several texts in full batches, before it reads the answers."""
    if len(cases) < 2 or method.asks is None:
        return
    asker = cases[0].passes.asker
    for case in cases:
        asker.know(case.encoding, case.logits)
    for case in cases:
        with suppress(WherefromError):  # the method raises it again when it runs
            method.announce_questions(case, options)
    rows = asker.run()
    for case in cases:
        case.own_count.forwards += rows.pop(case.encoding.input_ids, 0)


def _own_rows(cases: Sequence[Case]) -> tuple[int, int]:
    """Rows of passes made for these cases alone, forward and backward."""
    return sum(case.own_count.forwards for case in cases), sum(case.own_count.backwards for case in cases)


def attributions(cases: Sequence[Case], method: Method, options: Mapping[str, Any]) -> list[Attribution]:
    """What a method gives for every component of a target, checked, in double precision."""
    return [_attribution(case, method, options) for case in cases]


# What any model can give that answers texts, and what takes a backward pass, or the weights of a layer.
ASKING: frozenset[Reads] = frozenset({"nothing", "answers"})
INSIDE: frozenset[Reads] = frozenset({"path", "modified_gradient", "relevance", "relevance_double", *BACKWARD})


def _given(case: Case, method: Method, options: Mapping[str, Any]) -> Tensor | Attribution:
    """What the method gives; a sentence where the model's quantised layers do not let it."""
    if case.model.network.facts.only_answers and method.needs(options) - ASKING:
        raise NotSeen(
            f"{method.name} looks inside the model, and {case.model.name} only answers queries. Take a"
            f" method that only queries the model: {join_names(methods_reading('answers'), 'or')}."
        )
    layer = case.model.network.facts.no_gradient_through
    if layer is None:
        return _called(case, method, options)
    only_query = join_names(methods_reading("answers"), "or")
    way_out = f"Load the model without quantisation, or take a method that only queries it: {only_query}."
    if method.needs(options) & INSIDE:
        raise NotSeen(f"{method.name} needs gradients, and none pass the quantised layer {layer}. {way_out}")
    try:
        return _called(case, method, options)
    except (TypeError, AttributeError, RuntimeError, NotImplementedError) as error:
        if is_out_of_memory(error):
            raise
        raise NotSeen(
            f"{method.name} cannot read the quantised layers of this model ({type(error).__name__}). {way_out}"
        ) from error


def _called(case: Case, method: Method, options: Mapping[str, Any]) -> Tensor | Attribution:
    if needs_prefix(case, method):
        return explained_alone(case, method, options)
    with clear_when_memory_ends(len(case.encoding)):  # what a method computes itself may be as large as a pass
        result: Tensor | Attribution = method(case, **options)
    return result


def _attribution(case: Case, method: Method, options: Mapping[str, Any]) -> Attribution:
    result = _given(case, method, options)
    attribution = result if isinstance(result, Attribution) else Attribution(result)
    scores = attribution.scores.detach().double().cpu()  # (token,), (layer, token), or (unit,)
    expected = len(case.units) if scores_units(method, case) else len(case.encoding)
    if scores.ndim not in (1, 2) or scores.shape[-1] != expected:
        raise WherefromError(
            f"{method.name} gave scores of shape {tuple(scores.shape)} for a text of {expected}"
            f" {case.level if scores_units(method, case) else 'token'}s: a method gives one score for each,"
            " or one for each in every layer."
        )
    if not bool(scores.isfinite().all()):
        raise WherefromError(
            f"{method.name} gave scores that are not finite for this text; the model's gradients may have overflowed."
        )
    return replace(
        attribution, scores=scores, signed=method.signed if attribution.signed is None else attribution.signed
    )


def scores_units(method: Method, case: Case) -> bool:
    """Whether the method gave the scores of words or sentences itself, so that none are pooled."""
    return method.scores_units and case.level != "token"


def unit_scores(case: Case, method: Method, attribution: Attribution) -> Tensor:
    """A checked attribution as one score for every unit of the case's level: layers added up, tokens pooled. (unit,)"""
    scores = attribution.scores.sum(0) if attribution.scores.ndim == 2 else attribution.scores
    return scores if scores_units(method, case) else pooled(case, scores)


def pooled(case: Case, scores: Tensor) -> Tensor:
    """The sum of the tokens' scores in every unit. (..., token) -> (..., unit)"""
    return scores if case.level == "token" else scores @ case.units.cpu().to(scores.dtype).T


def explanation(
    cases: Sequence[Case],
    method: Method,
    options: Mapping[str, Any],
    parts: Sequence[Attribution],
    cost: tuple[float, int, int] = (0.0, 0, 0),
    *,
    numbered: bool = True,
) -> Explanation:
    """One explanation of one text. Where its target has several components, such as an answer's start and end, their
    scores add up.

    numbered: whether it knows the words and sentences of its tokens. Finding them takes as long as much of the rest, so
        whoever keeps the tokens' scores alone leaves it out.
    """
    case, first = cases[0], parts[0]
    scores, layers = torch.stack([part.scores for part in parts]).sum(0), None
    if scores.ndim == 2:
        layers = tuple(tuple(layer) for layer in scores.tolist())
        scores = scores.sum(0)
    encoding, task = case.encoding, case.model.task
    by_unit, numbered = scores_units(method, case), numbered or case.level != "token"
    output = joint_probability([component.target for component in cases], case.logits[None]).item()
    value = output if case.target.regression else None
    errors = _added_errors(parts)
    targets = [component.target for component in cases]
    decided = task.decided(case.model, case.logits, encoding, targets)
    task_notes = task.notes(case.model, case.logits, encoding, targets)
    result = Explanation(
        text=encoding.text,
        pair=encoding.pair,
        tokens=encoding.tokens,
        scores=(0.0,) * len(encoding) if by_unit else tuple(scores.tolist()),
        offsets=encoding.offsets,
        segment=encoding.segment,
        target=case.target.label,
        components=tuple(case.target.saved() for case in cases),
        probability=output if value is None else None,
        value=value,
        prediction=decided[0].label if value is None else written_value(value),
        probabilities=task.probabilities(case.model, case.logits, case.target),
        method=method.name,
        params={**options, **first.params},
        signed=method.signed if first.signed is None else first.signed,
        layers=layers,
        gap=_total([part.gap for part in parts]),
        unassigned=_total([part.unassigned for part in parts]),
        cut=encoding.cut,
        notes=_distinct(
            [*task_notes, *_recognised(case.model, method, options), *(note for part in parts for note in part.notes)]
        ),
        selection=_distinct(part.selection for part in parts if part.selection),
        model=case.model.name,
        seconds=cost[0],
        forwards=cost[1],
        backwards=cost[2],
        word_of=encoding.word_of if numbered else (),
        sentence_of=encoding.sentence_of if numbered else (),
        turns=encoding.turns,
        task=task.name,
        independent=case.target.independent,
        standard_errors=None if by_unit else errors,
    )
    if by_unit:
        return result.pooled(case.level, encoding.members(case.level), scores=scores.tolist(), standard_errors=errors)
    if case.level == "span":
        return result.pooled(case.level, encoding.members(case.level))
    return result.at(case.level)


def _recognised(model: TextModel, method: Method, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The note that the model's type is unknown, where the method relies on the family it was recognised as."""
    known = {*ASKING, "path", "embeddings"}
    note = model.network.facts.recognised
    return (note,) if note and method.needs(options) - known else ()


def _added_errors(parts: Sequence[Attribution]) -> tuple[float, ...] | None:
    """The standard errors of scores that are added up. The components of a target were asked with the same draw, so
    their errors may go the same way: the sum is the most that theirs can come to.
    """
    known = [part.standard_errors for part in parts if part.standard_errors is not None]
    return tuple(torch.stack(known).double().sum(0).tolist()) if len(known) == len(parts) else None


def _distinct(items: Iterable[Element]) -> tuple[Element, ...]:
    """In their order, each once; they need not be hashable."""
    distinct: list[Element] = []
    for item in items:
        if item not in distinct:
            distinct.append(item)
    return tuple(distinct)


def _total(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None
