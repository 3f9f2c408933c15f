"""The verbs: load a model, explain a text."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from math import prod
from typing import Any, overload

import torch
from torch import Tensor

from whence.core.case import Attribution, Case, make_cases
from whence.core.encoding import Encoding
from whence.core.explanation import Explanation
from whence.core.flow import Flow
from whence.core.units import POOL, Level
from whence.errors import BadOption, TextWasCut, UnknownName, WhenceError
from whence.model.loading import Device, Precision, load_model
from whence.model.tasks import Asked
from whence.model.text_model import TextModel
from whence.registry import Method, check_options, find_method

Text = str | tuple[str, str]
LEVELS: tuple[Level, ...] = ("token", "word", "sentence")


class Model:
    """A text model that can be asked why."""

    def __init__(self, text_model: TextModel) -> None:
        self.text_model = text_model

    @property
    def labels(self) -> list[str]:
        return self.text_model.labels

    def __repr__(self) -> str:
        return f"whence.Model({self.text_model.name!r}, labels={self.labels})"

    @overload
    def explain(self, text: Text, method: str = ..., target: Asked = ..., level: Level = ..., **options: Any) -> Explanation: ...
    @overload
    def explain(
        self, text: list[Text] | list[str], method: str = ..., target: Asked = ..., level: Level = ..., **options: Any
    ) -> list[Explanation]: ...
    def explain(
        self,
        text: Text | list[Text] | list[str],
        method: str = "attcat",
        target: Asked = None,
        level: Level = "token",
        **options: Any,
    ) -> Explanation | list[Explanation]:
        """Which tokens made the model decide so.

        text: one text, a (text, pair) tuple, or a list of them, which is batched and gives a list.
        method: a name from `whence methods`; options are the method's own.
        target: the label, or its number, that is explained; the predicted one unless given. A tuple of two explains why one rather
            than the other. For language models a token; for question answering start, end, span, or an answer in the context.
        level: token, word or sentence.
        """
        row = find_method(method)
        chosen = check_options(method, row.function, options)
        if level not in LEVELS:
            raise UnknownName.among("level", level, LEVELS)
        model = self.text_model
        fixed = None if target is None or model.task.depends_on_text else model.target(target)
        many = isinstance(text, list)
        encodings = [self._read(one) for one in (text if isinstance(text, list) else [text])]
        found: dict[int, Explanation] = {}
        with torch.inference_mode(False):  # the caller may be inside of one, where nothing could be differentiated
            for cases in make_cases(model, encodings, [fixed] * len(encodings), level=level):
                started = time.perf_counter()
                aimed = _aimed(cases, row, target) if model.task.depends_on_text else {place: [case] for place, case in cases.items()}
                given = {place: [row(case, **chosen) for case in aims] for place, aims in aimed.items()}
                seconds = (time.perf_counter() - started) / len(cases)
                found |= {place: _explanation(aimed[place], row, chosen, given[place], seconds) for place in cases}
        ordered = [found[i] for i in range(len(encodings))]
        return ordered if many else ordered[0]

    def flow(self, text: Text, method: str = "alti", **options: Any) -> Flow:
        """Where what each position holds came from, layer by layer: for methods that hand on from token to token."""
        row = find_method(method)
        chosen = check_options(method, row.function, options)
        encoding = self._read(text)
        (cases,) = make_cases(self.text_model, [encoding], [None])
        case = cases[0]
        with torch.inference_mode(False):
            given = row(case, **chosen)
        if not isinstance(given, Attribution) or given.flow is None:
            raise BadOption(
                f"{method} does not hand on from token to token, so it has no flow. Take alti, globenc, norms or attention_rollout."
            )
        return Flow(
            text=encoding.text,
            pair=encoding.pair,
            tokens=encoding.tokens,
            offsets=encoding.offsets,
            segment=encoding.segment,
            layers=given.flow().double().cpu().numpy(),
            read=tuple(case.row_read.tolist()),
            method=method,
            params=chosen | given.params,
            prediction=case.target.label,
            probability=case.target.probability(case.logits[None]).item(),
            notes=given.notes,
            model=self.text_model.name,
        )

    def _read(self, text: Text) -> Encoding:
        parts = (text,) if isinstance(text, str) else text
        if not (isinstance(parts, tuple) and len(parts) in (1, 2) and all(isinstance(part, str) for part in parts)):
            raise BadOption("A text is a str, or a (text, pair) tuple of two str; several of them come in a list.")
        encoding = self.text_model.encode(*parts)
        if encoding.cut:
            warnings.warn(
                f"The text has {len(encoding) + encoding.cut} tokens, the model reads {self.text_model.limit}:"
                f" the last {encoding.cut} were cut and are not explained.",
                TextWasCut,
                stacklevel=3,
            )
        return encoding


def _aimed(cases: dict[int, Case], row: Method, target: Asked) -> dict[int, list[Case]]:
    """Each text's cases, one for every part of what is explained: where an answer starts, and where it ends."""
    group = next(iter(cases.values())).group
    if row.reads == "attention":  # the recorded pass says what is predicted, too: no other is needed
        _ = group.recorded
    aims = {place: group.model.task.aims(group.model, target, case.logits, case.encoding) for place, case in cases.items()}
    aimed = []
    for part in range(len(next(iter(aims.values())))):
        other = group.aimed([aims[place][part] for place in cases])
        aimed.append({place: Case(other, case.row, level=case.level) for place, case in cases.items()})
    return {place: [part[place] for part in aimed] for place in cases}


def _explanation(
    cases: Sequence[Case], row: Method, options: dict[str, Any], given: Sequence[Tensor | Attribution], seconds: float
) -> Explanation:
    """One explanation of one text. Where it has several parts, such as an answer's start and end, their scores add up."""
    case, target = cases[0], cases[0].target
    parts = [one if isinstance(one, Attribution) else Attribution(one) for one in given]
    attribution = parts[0]
    scores, layers = torch.stack([part.scores.detach().double().cpu() for part in parts]).sum(0), None
    if scores.ndim == 2:
        layers = tuple(tuple(layer) for layer in scores.tolist())
        scores = scores.sum(0)
    if not bool(scores.isfinite().all()):
        raise WhenceError(f"{row.name} gave scores that are not finite for this text; the model's gradients may have overflowed.")
    encoding, task = case.encoding, case.model.task
    by_unit = row.scores_units and case.level != "token"
    explanation = Explanation(
        text=encoding.text,
        pair=encoding.pair,
        tokens=encoding.tokens,
        scores=(0.0,) * len(encoding) if by_unit else tuple(scores.tolist()),
        offsets=encoding.offsets,
        segment=encoding.segment,
        target=target.label,
        probability=prod(one.target.probability(case.logits[None]).item() for one in cases),
        prediction=task.predicted(case.model, case.logits, encoding).label,
        probabilities=task.probabilities(case.model, case.logits),
        method=row.name,
        params=options | attribution.params,
        signed=row.signed if attribution.signed is None else attribution.signed,
        layers=layers,
        gap=_total([part.gap for part in parts]),
        unassigned=_total([part.unassigned for part in parts]),
        cut=encoding.cut,
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        selection=tuple(part.selection for part in parts if part.selection),
        model=case.model.name,
        seconds=seconds,
        forwards=sum(one.asking.forwards for one in cases) + case.group.passes.forwards // len(case.group.encodings),
        backwards=sum(one.asking.backwards for one in cases) + case.group.passes.backwards // len(case.group.encodings),
        word_of=encoding.word_of,
        sentence_of=encoding.sentence_of,
    )
    if by_unit:
        return explanation.pooled(case.level, encoding.members(case.level), POOL[case.level], scores.tolist())
    return explanation.at(case.level)


def _total(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def load(source: Any = "embedded", *, device: Device | None = None, dtype: Precision | None = None, task: str | None = None) -> Model:
    """A model to ask: 'embedded', a folder, a hub id, a (model, tokenizer) pair, or a transformers pipeline."""
    return Model(load_model(source, device=device, dtype=dtype, task=task))


def flow(text: Text, *, model: Any = "embedded", method: str = "alti", **options: Any) -> Flow:
    """Load a model and follow one text through it: a shortcut."""
    return load(model).flow(text, method, **options)


def explain(
    text: Text, *, model: Any = "embedded", method: str = "attcat", target: Asked = None, level: Level = "token", **options: Any
) -> Explanation:
    """Load a model and explain one text: a shortcut."""
    return load(model).explain(text, method, target, level, **options)
