"""One worker of a run: it holds a model, and turns examples into rows. The same rows for the same examples, whoever
asks.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from wherefrom.benchmark.store import Part
from wherefrom.case.asking import Asker
from wherefrom.case.case import make_cases
from wherefrom.case.explain import explain_texts
from wherefrom.core.comparison import Comparison
from wherefrom.core.encoding import Encoding
from wherefrom.core.example import Example
from wherefrom.core.target import resolve_target
from wherefrom.core.units import Level
from wherefrom.errors import BadFile, UnknownName, WherefromError
from wherefrom.grading.compare import Comparer, Query, chosen_methods, chosen_metrics
from wherefrom.model.loading import load_model
from wherefrom.model.text_model import TextModel

# What is kept of an explanation under its own name.
KEPT = ["prediction", "probability", "text", "pair", "level", "tokens", "scores", "offsets", "segment", "signed"]
KEPT += ["gap", "unassigned", "cut", "seconds", "forwards", "backwards"]
PREDICTED, LABELLED = "predicted", "label"  # what is explained of every example, unless it is a label's name


class BadExample(WherefromError):
    """An example that cannot be explained, in a run that is to end there."""

    exit_code = 1


@dataclass(frozen=True)
class Labels:
    """A data set's labels as the model calls them."""

    known: Sequence[str]  # to the model
    meaning: Mapping[str, str] = field(default_factory=dict)  # the data set's name -> the model's

    def named(self, example: Example) -> tuple[str, ...]:
        """All labels of an example; says so where the model does not know one."""
        given = example.label if isinstance(example.label, tuple) else () if example.label is None else (example.label,)
        return tuple(self._name(one, example.where) for one in given)

    def _name(self, label: str | int, where: str) -> str:
        try:
            return resolve_target(self.meaning.get(str(label), label), self.known, independent=False).label
        except UnknownName as error:
            raise BadFile(
                f"{where}: the model has no label {str(label)!r}, only"
                f" {', '.join(self.known)}. Say what it means, as in"
                f" --labels {label}={self.known[0]}, or leave the data set's labels aside: --labels none."
            ) from error

    def meant(self, label: str | None) -> str | None:
        """The model's name for the label of a mark."""
        return label and self.meaning.get(label, label)


@dataclass(frozen=True)
class Work:
    """What a worker does with every example: all that it needs to know to start, in plain words."""

    model: Any  # as `wherefrom.load` takes it; a name or folder, where workers are processes
    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    level: Level = "token"
    target: str = PREDICTED
    labels: Mapping[str, str] | None = field(default_factory=dict)  # None: the data set's labels are left aside
    device: str | None = None
    strict: bool = False


@contextmanager
def _collected() -> Iterator[None]:
    """Passes hold on to themselves in a circle, so those of several parts would be in memory together. What was there
    before is not looked through for circles: that takes longer than a small part.
    """
    untouched = not gc.get_freeze_count()
    if untouched:
        gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        if untouched:
            gc.unfreeze()


class Worker:
    """Called with some examples, it gives their part of the run."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.model: TextModel = (
            work.model if isinstance(work.model, TextModel) else load_model(work.model, device=work.device)
        )
        self.labels = Labels(self.model.labels, work.labels or {})
        metrics = chosen_metrics(list(work.metrics))
        self.comparer = Comparer(
            self.model, chosen_methods(list(work.methods)), metrics, work.level, skip=not work.strict
        )

    def __call__(self, examples: Sequence[Example]) -> Part:
        threads = torch.get_num_threads()
        if self.model.device.type == "cpu":
            torch.set_num_threads(
                1
            )  # so that numbers do not depend on how many cores there are; workers are what uses them
        try:
            with _collected():
                return self._part(examples)
        finally:
            torch.set_num_threads(threads)

    def _part(self, examples: Sequence[Example]) -> Part:
        started, askers = time.perf_counter(), [Asker(self.model)]
        part = Part()
        read = [pair for example in examples for pair in self._read(example, part)]
        compared: list[tuple[Example, Query, Comparison]] = []
        if read:
            try:
                found = self.comparer.compare([query for _, query in read], asker=askers[0])
            except Exception:  # one of them is at fault: which one is found by asking each alone
                compared = [one for example, query in read for one in self._alone(example, query, askers, part)]
            else:
                compared = [
                    (example, query, comparison) for (example, query), comparison in zip(read, found, strict=True)
                ]
        for example, query, comparison in compared:
            self._note(example, query, comparison, part)
        if compared:
            part.alone.extend(self._costs(compared[len(compared) // 2][1]))
        counts = {name: sum(getattr(asker, name) for asker in askers) for name in ("asked", "distinct", "rows")}
        costs = {"examples": len(examples), **counts, "seconds": time.perf_counter() - started}
        return replace(part, costs=costs)

    def _read(self, example: Example, part: Part) -> list[tuple[Example, Query]]:
        """What is asked about an example: once for each target."""
        try:
            encoding = self.model.encode(*((example.text,) if example.pair is None else (example.text, example.pair)))
            targets: Sequence[str | None] = [None if self.work.target == PREDICTED else self.work.target]
            if self.work.target == LABELLED:
                targets = self.labels.named(example)
            return [(example, self._query(example, encoding, target)) for target in targets]
        except Exception as error:
            self._bad(example, error, part)
            return []

    def _query(self, example: Example, encoding: Encoding, target: str | None) -> Query:
        rationale = example.rationale
        if rationale is not None and any(mark.label for mark in rationale):  # then it depends on what is explained
            label = target if target is not None else self._predicted(encoding)
            rationale = tuple(
                mark for mark in rationale if mark.label is None or self.labels.meant(mark.label) == label
            )
        spans = (
            None
            if rationale is None
            else tuple([(m.start, m.end) for m in rationale if m.segment == part] for part in (0, 1))
        )
        answer = None if not example.answer else [(mark.start, mark.end) for mark in example.answer]
        return Query(encoding, target, None if spans is None else (spans[0], spans[1]), answer)

    def _predicted(self, encoding: Encoding) -> str:
        (cases,) = make_cases(self.model, [encoding], [None])
        return cases[0].target.label

    def _alone(
        self, example: Example, query: Query, askers: list[Asker], part: Part
    ) -> list[tuple[Example, Query, Comparison]]:
        askers.append(Asker(self.model))  # one that knows nothing of what went wrong
        try:
            return [(example, query, self.comparer.compare([query], asker=askers[-1])[0])]
        except Exception as error:
            self._bad(example, error, part)
            return []

    def _bad(self, example: Example, error: Exception, part: Part, method: str | None = None) -> None:
        said = str(error) if isinstance(error, WherefromError) else f"{type(error).__name__}: {error}"
        if self.work.strict:
            raise BadExample(f"{example.where or example.id}: {said}") from error
        part.errors.append({"example": example.id, "method": method, "where": example.where, "error": said})

    def _note(self, example: Example, query: Query, comparison: Comparison, part: Part) -> None:
        label = ", ".join(self.labels.named(example)) if self.work.labels is not None else ""
        ids = list(query.encoding.input_ids) if self.work.level == "token" else None
        for name, explanation, grades in zip(comparison.names, comparison.explanations, comparison.grades, strict=True):
            key = {"example": example.id, "target": explanation.target, "method": name}
            row = (
                key
                | {column: getattr(explanation, column) for column in KEPT}
                | {"label": label or None, "input_ids": ids}
            )
            row |= {"params": json.dumps(dict(explanation.params), default=str), "notes": json.dumps(explanation.notes)}
            part.explanations.append(row)
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
            self._bad(example, WherefromError(why), part, method)

    def _costs(self, query: Query) -> list[dict[str, Any]]:
        """What each method takes for one example with nothing shared."""
        found = []
        for choice in self.comparer.methods:
            try:
                (one,) = explain_texts(
                    self.model, [query.encoding], query.target, choice.row, choice.options, self.work.level
                )
            except Exception:  # it was noted with the example already
                continue
            found.append(
                {"method": choice.asked, "seconds": one.seconds, "forwards": one.forwards, "backwards": one.backwards}
            )
        return found
