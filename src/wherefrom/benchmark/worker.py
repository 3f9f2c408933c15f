"""One worker of a run: it has a model, and turns examples into rows. The rows depend on nothing but the examples and
the plan.
"""

from __future__ import annotations

import gc
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from wherefrom.benchmark.columns import row_of
from wherefrom.benchmark.parts import Part
from wherefrom.benchmark.plan import ALL_PREDICTED, LABELLED, PREDICTED, RunPlan
from wherefrom.benchmark.probes import ProbeJob, as_row, probe
from wherefrom.benchmark.stages import ALONE, ASKING, EXPLAINING, OnShare, Stages
from wherefrom.case.asking import Asker
from wherefrom.case.case import make_cases
from wherefrom.case.door import check_target, is_output, read_input
from wherefrom.case.explain import explain_texts
from wherefrom.case.recognise import recognised
from wherefrom.core.comparison import Comparison
from wherefrom.core.encoding import Encoding
from wherefrom.core.example import Example, Mark
from wherefrom.core.explanation import Explanation
from wherefrom.core.target import resolve_target
from wherefrom.errors import BadFile, TextWithoutAnswer, UnknownName, WherefromError
from wherefrom.grading.choosing import chosen_methods, chosen_metrics
from wherefrom.grading.compare import Comparer, Query, reason
from wherefrom.model.loading import load_model
from wherefrom.model.tasks import TargetSpec
from wherefrom.model.text_model import TextModel

PREDICTED_FROM = 0.5  # the probability from which on a label of a multi-label model is predicted


def is_timed(number: int) -> bool:
    """Whether methods are timed one by one in the part of this number: in the first four parts, and then in one in the
    middle of every four. Neighbouring parts hold texts of similar length, so that the others cost the same
    (`Run.alone`).
    """
    return number < 4 or number % 4 == 2


class BadExample(WherefromError):
    """An example that cannot be explained, in a strict run, which ends there."""

    exit_code = 1


@dataclass(frozen=True)
class LabelNames:
    """The labels of a data set by the model's names for them."""

    known: Sequence[str]  # the model's labels
    names: Mapping[str, str] = field(default_factory=dict)  # the data set's label -> the model's
    _found: dict[Any, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def of(self, example: Example) -> tuple[str, ...]:
        """All labels of an example; raises where the model does not know one of them."""
        if example.label is None:
            return ()
        if example.label not in self._found:  # a data set has few different labels
            labels = example.label if isinstance(example.label, tuple) else (example.label,)
            self._found[example.label] = tuple(self._name(label, example.where) for label in labels)
        return self._found[example.label]

    def _name(self, label: str | int, where: str) -> str:
        asked = self.names.get(str(label), label)
        if isinstance(asked, str) and re.fullmatch(r"\d{1,15}\.0*", asked) and asked not in self.known:
            asked = int(float(asked))  # a class's number, as some programs write it
        if isinstance(asked, int) and asked < 0:
            raise BadFile(
                f"{where}: the label is {asked}, but classes are numbered from 0. If it stands for no label, ignore the"
                f" data set's labels: --labels none. If it stands for a class, name that:"
                f" --labels {asked}={self.known[0] if self.known else 'NAME'}"
            )
        try:
            return resolve_target(asked, self.known, independent=False).label
        except UnknownName as error:
            raise BadFile(
                f"{where}: the model has no label {str(label)!r}, only"
                f" {', '.join(self.known)}. Name the model's label for it, as in"
                f" --labels {label}={self.known[0]}, or ignore the data set's labels: --labels none."
            ) from error

    def own_target(self, example: Example) -> TargetSpec:
        """A row's own target in the model's names: one label, or one rather than another."""
        own = example.target
        if isinstance(own, tuple):
            return self._own_name(own[0], example.where), self._own_name(own[1], example.where)
        return own if own is None else self._own_name(own, example.where)

    def _own_name(self, own: str | int, where: str) -> str | int:
        return self._name(own, where) if self.known else own

    def of_mark(self, label: str | None) -> str | None:
        """The model's name for the label of a mark."""
        return label and self.names.get(label, label)


def asked_about(example: Example, model: TextModel) -> Example:
    """The example as the model is asked about what is at its mask_span: masked, or cut off in front of it.

    Marks after the mask move with their words; those that the mask covers, or that were cut off, are left out.
    """
    if example.mask_span is None:
        return example
    start, end = example.mask_span
    text = model.task.asked_at(model, example.text, example.mask_span)
    if text == example.text:
        return example
    moved = len(text) - len(example.text)

    def after(mark: Mark) -> Mark | None:
        if mark.segment == 1 or mark.end <= start:
            return mark
        kept = (
            mark.start >= end
            and mark.end + moved <= len(text)
            and text[mark.start + moved :] == example.text[mark.start :]
        )
        return mark._replace(start=mark.start + moved, end=mark.end + moved) if kept else None

    rationale = None if example.rationale is None else tuple(m for one in example.rationale if (m := after(one)))
    return replace(example, text=text, rationale=rationale)


def _all_predicted(explanation: Explanation) -> list[str]:
    """Every label that is predicted: of a multi-label model perhaps several or none."""
    if explanation.independent:
        return [label for label, chance in explanation.probabilities.items() if chance >= PREDICTED_FROM]
    return [explanation.prediction] if explanation.value is None else []


@contextmanager
def _freeing_memory() -> Iterator[None]:
    """Collect what the block leaves behind. Autograd graphs form reference cycles, so without this the passes of
    several parts would be in memory together.

    What existed before the block is frozen meanwhile: searching all of it for cycles takes longer than a small part.
    """
    ours = not gc.get_freeze_count()
    if ours:
        gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        if ours:
            gc.unfreeze()


@contextmanager
def _one_thread(device: str) -> Iterator[None]:
    """On a CPU, the last bits of a sum depend on how many threads share it. With one thread, the numbers do not depend
    on the machine's cores; these are used by several workers instead.
    """
    threads = torch.get_num_threads()
    if device == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def load_planned(plan: RunPlan, source: Any, spread: float | None = None) -> TextModel:
    """A model that the plan names, with its candidate labels."""
    model = load_model(
        source,
        device=plan.device,
        spread=spread,
        labels=list(plan.candidates) or None,
        template=plan.template,
        several=plan.multi_label,
    )
    return recognised(model)


class Worker:
    """Computes a part of the run: called with some examples, it returns their rows."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        self.model: TextModel = (
            plan.model if isinstance(plan.model, TextModel) else load_planned(plan, plan.model, spread=plan.spread)
        )
        known = self.model.labels if self.model.task.has_labels else []  # a language model's targets are tokens
        self.labels = LabelNames(known, plan.label_names)
        self.against: list[TextModel] = [
            one if isinstance(one, TextModel) else load_planned(plan, one) for one in plan.against
        ]
        self.comparer = Comparer(
            self.model,
            chosen_methods(plan.methods),
            chosen_metrics(plan.metrics),
            plan.level,
            self.against,
            skip=not plan.strict,
            numbered=False,
        )
        self.stages = Stages()

    def __call__(self, examples: Sequence[Example], moved: OnShare | None = None, *, timed: bool = True) -> Part:
        """moved: is told the share of the work that is done. timed: whether methods are timed one by one as well."""
        self.stages.begin(moved)
        with _one_thread(self.model.network.device.type), _freeing_memory():
            part = self._part(examples, timed=timed)
        self.stages.end()
        return part

    def _part(self, examples: Sequence[Example], *, timed: bool) -> Part:
        started, askers, part = time.perf_counter(), list[Asker](), Part()
        together = self._read_together(examples)
        queries = [self._read(example, part, together.get(place)) for place, example in enumerate(examples)]
        failed = {row["example"] for row in part.errors}
        silent = [one.id for one, own in zip(examples, queries, strict=True) if not own and one.id not in failed]
        read = [pair for own in queries for pair in own]
        found = self._compared([query for _, query in read], askers)
        probed = list[tuple[dict[str, str], ProbeJob]]()
        compared, passes = list[Query](), next((one.rows for one in found.values()), 0)  # those of all together
        for place, (example, query) in enumerate(read):
            comparison = found[place] if place in found else self._alone(example, query, askers, part)
            if comparison is not None:
                self._add_rows(example, query, comparison, part)
                compared.append(query)
                if self.plan.probes is not None:
                    probed.append(self._to_probe(example, query, comparison))
                passes += 1 + sum(one.forwards for one in comparison.explanations)  # the text's own pass is shared
                passes += 0 if place in found else comparison.rows
        before = len(askers)
        part.scores.extend(self._probes(probed, askers))
        passes += sum(asker.rows for asker in askers[before:])
        if compared and timed:
            part.alone.extend(self._costs_alone(compared[len(compared) // 2]))
        counts = {name: sum(getattr(asker, name) for asker in askers) for name in ("asked", "distinct", "rows")}
        counts["nothing_predicted"] = len(silent) if self.plan.target == ALL_PREDICTED else 0
        counts["unanswerable"] = sum(example.answer == () for example in examples)
        costs = {"examples": len(examples), **counts, "seconds": time.perf_counter() - started}
        return replace(part, costs=costs, passes=passes)

    def _compared(self, queries: Sequence[Query], askers: list[Asker]) -> dict[int, Comparison]:
        """The comparisons of all queries together, by their place, but for those that have to be tried alone.

        A text that the model has no answer for is left out, and the others are compared again, with a new asker: they
        come out as if it had not been there.
        """
        sound = list(range(len(queries)))
        while sound:
            askers.append(Asker(self.model))
            try:
                comparisons = self.comparer.compare(
                    [queries[place] for place in sound],
                    asker=askers[-1],
                    progress=partial(self.stages.reached, ASKING),
                    explained_so_far=partial(self.stages.reached, EXPLAINING),
                )
            except TextWithoutAnswer as error:
                guilty = {sound[place] for place in error.places or range(len(sound))}
                sound = [place for place in sound if place not in guilty]
            except Exception:  # one of the examples caused it; each is tried alone to find out which
                return {}
            else:
                return dict(zip(sound, comparisons, strict=True))
        return {}

    def _read_together(self, examples: Sequence[Example]) -> dict[int, Encoding]:
        """The encodings of plain texts and pairs, by their place, which are read in less time together; none where one
        of them cannot be read: each is then read alone, to find out which.
        """
        plain = [place for place, example in enumerate(examples) if not (example.mask_span or example.messages)]
        if self.plan.level == "turn" or not plain:
            return {}
        try:
            encodings = self.model.encode_all([(examples[place].text, examples[place].pair) for place in plain])
        except Exception:
            return {}
        return dict(zip(plain, encodings, strict=True))

    def _read(self, example: Example, part: Part, encoding: Encoding | None) -> list[tuple[Example, Query]]:
        """The queries about an example: one for each target. encoding: of an example that was read already."""
        try:
            asked = asked_about(example, self.model)
            if encoding is None:
                encoding = read_input(self.model, asked.asked, self.plan.level)
            targets = self._targets(asked, encoding)
            for target in targets:  # a token that a model does not have costs this example, and no other
                for model in (self.model, *self.against):
                    check_target(model, target)
            return [(asked, self._query(asked, encoding, target)) for target in targets]
        except Exception as error:
            self._note_error(example, error, part)
            return []

    def _targets(self, example: Example, encoding: Encoding) -> Sequence[TargetSpec]:
        if self.plan.target == PREDICTED:
            return [None]
        if self.plan.target == LABELLED:
            return self.labels.of(example) if example.target is None else [self.labels.own_target(example)]
        if self.plan.target == ALL_PREDICTED and is_output(self.model, None):
            return [None]  # one output is predicted
        if self.plan.target == ALL_PREDICTED:
            (cases,) = make_cases(self.model, [encoding], [None])
            return self.model.task.predicted_labels(self.model, cases[0].logits, encoding)
        return [self.plan.target]

    def _query(self, example: Example, encoding: Encoding, target: TargetSpec) -> Query:
        rationale = example.rationale
        if rationale is not None and any(mark.label for mark in rationale):  # then the rationale depends on the target
            label = target[0] if isinstance(target, tuple) else target
            label = self._predicted(encoding) if label is None else label
            rationale = tuple(
                mark for mark in rationale if mark.label is None or self.labels.of_mark(mark.label) == label
            )
        spans = (
            None
            if rationale is None
            else tuple([(m.start, m.end) for m in rationale if m.segment == part] for part in (0, 1))
        )
        # No answer where somebody looked for one is not the same as nobody having looked: nothing is predicted instead.
        answer = None if example.answer is None else [(mark.start, mark.end) for mark in example.answer]
        return Query(encoding, target, None if spans is None else (spans[0], spans[1]), answer)

    def _predicted(self, encoding: Encoding) -> str:
        (cases,) = make_cases(self.model, [encoding], [None])
        return cases[0].target.label

    def _alone(self, example: Example, query: Query, askers: list[Asker], part: Part) -> Comparison | None:
        askers.append(Asker(self.model))  # a new one, without anything of the batch that failed
        try:
            return self.comparer.compare([query], asker=askers[-1])[0]
        except Exception as error:
            self._note_error(example, error, part)
            return None

    def _note_error(self, example: Example, error: Exception, part: Part, method: str | None = None) -> None:
        message = reason(error).encode("utf-8", "backslashreplace").decode()  # half a character cannot be stored
        if self.plan.strict:
            raise BadExample(f"{example.where or example.id}: {message}") from error
        part.errors.append({"example": example.id, "method": method, "where": example.where, "error": message})

    def _add_rows(self, example: Example, query: Query, comparison: Comparison, part: Part) -> None:
        label = "" if self.plan.ignores_labels else ", ".join(self.labels.of(example))
        read = list(query.encoding.input_ids) if self.plan.level == "token" else None
        for name, explanation, grades in zip(comparison.names, comparison.explanations, comparison.grades, strict=True):
            ids = read
            if ids is not None and len(ids) < len(explanation.tokens):  # the output follows the text
                ids = [*ids, *(target.index for target in explanation.components)]
            key = {"example": example.id, "target": explanation.target, "method": name}
            part.explanations.append(
                row_of(
                    explanation,
                    example=example.id,
                    method=name,
                    label=label or None,
                    predicted=_all_predicted(explanation),
                    input_ids=ids,
                    rationale=comparison.rationale,
                )
            )
            for grade in grades:
                details = dict(grade.details) | ({} if grade.fill is None else {"fill": grade.fill})
                score = {
                    "metric": grade.metric,
                    "value": grade.value,
                    "why": grade.why,
                    "details": json.dumps(details, default=str),
                }
                part.scores.append(key | score)
        for method, why in comparison.failed.items():
            self._note_error(example, WherefromError(why), part, method)

    def _to_probe(self, example: Example, query: Query, comparison: Comparison) -> tuple[dict[str, str], ProbeJob]:
        """The first method's explanation, with the key of its row."""
        explanation = comparison.explanations[0]
        key = {"example": example.id, "target": explanation.target, "method": comparison.names[0]}
        return key, ProbeJob(example.asked, query.encoding, query.target, explanation)

    def _probes(self, jobs: Sequence[tuple[dict[str, str], ProbeJob]], askers: list[Asker]) -> list[dict[str, Any]]:
        """A row for every job; together, or where that fails one by one, to find out which cannot be probed."""
        if not jobs:
            return []
        askers.append(Asker(self.model))
        try:
            found = probe(self.model, [job for _, job in jobs], self.plan.probes or {}, askers[-1])
        except Exception as error:
            if len(jobs) > 1:
                return [row for one in jobs for row in self._probes([one], askers)]
            return [as_row(jobs[0][0], None, reason(error).encode("utf-8", "backslashreplace").decode())]
        return [as_row(key, details) for (key, _), details in zip(jobs, found, strict=True)]

    def _costs_alone(self, query: Query) -> list[dict[str, Any]]:
        """What each method costs for one example when nothing is shared with other methods."""
        rows = []
        for number, choice in enumerate(self.comparer.methods):
            self.stages.reached(ALONE, number, len(self.comparer.methods))
            try:
                (explanation,) = explain_texts(
                    self.model, [query.encoding], query.target, choice.row, choice.options, self.plan.level
                )
            except Exception:  # the error was noted with its example already
                continue
            rows.append(
                {
                    "method": choice.asked,
                    "seconds": explanation.seconds,
                    "forwards": explanation.forwards,
                    "backwards": explanation.backwards,
                }
            )
        return rows
