"""The verbs: load a model, explain a text."""

from __future__ import annotations

import time
import warnings
from typing import Any, overload

import torch
from torch import Tensor

from whence.core.case import Attribution, Case, make_cases
from whence.core.encoding import Encoding
from whence.core.explanation import Explanation
from whence.core.units import POOL, Level
from whence.errors import BadOption, TextWasCut, UnknownName, WhenceError
from whence.model.loading import Device, Precision, load_model
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
    def explain(self, text: Text, method: str = ..., target: str | int | None = ..., level: Level = ..., **options: Any) -> Explanation: ...
    @overload
    def explain(
        self, text: list[Text] | list[str], method: str = ..., target: str | int | None = ..., level: Level = ..., **options: Any
    ) -> list[Explanation]: ...
    def explain(
        self,
        text: Text | list[Text] | list[str],
        method: str = "attcat",
        target: str | int | None = None,
        level: Level = "token",
        **options: Any,
    ) -> Explanation | list[Explanation]:
        """Which tokens made the model decide so.

        text: one text, a (text, pair) tuple, or a list of them, which is batched and gives a list.
        method: a name from `whence methods`; options are the method's own.
        target: the label, or its number, that is explained; the predicted one unless given.
        level: token, word or sentence.
        """
        row = find_method(method)
        chosen = check_options(method, row.function, options)
        if level not in LEVELS:
            raise UnknownName.among("level", level, LEVELS)
        asked = None if target is None else self.text_model.target(target)
        many = isinstance(text, list)
        encodings = [self._read(one) for one in (text if isinstance(text, list) else [text])]
        found: dict[int, Explanation] = {}
        with torch.inference_mode(False):  # the caller may be inside of one, where nothing could be differentiated
            for cases in make_cases(self.text_model, encodings, [asked] * len(encodings), level=level):
                started = time.perf_counter()
                given = {place: row(case, **chosen) for place, case in cases.items()}
                seconds = (time.perf_counter() - started) / len(cases)
                found |= {place: _explanation(cases[place], row, chosen, given[place], seconds) for place in cases}
        ordered = [found[i] for i in range(len(encodings))]
        return ordered if many else ordered[0]

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


def _explanation(case: Case, row: Method, options: dict[str, Any], given: Tensor | Attribution, seconds: float) -> Explanation:
    attribution = given if isinstance(given, Attribution) else Attribution(given)
    scores, layers = attribution.scores.detach().double().cpu(), None
    if scores.ndim == 2:
        layers = tuple(tuple(layer) for layer in scores.tolist())
        scores = scores.sum(0)
    if not bool(scores.isfinite().all()):
        raise WhenceError(f"{row.name} gave scores that are not finite for this text; the model's gradients may have overflowed.")
    by_unit = row.scores_units and case.level != "token"
    encoding, target = case.encoding, case.target
    chances = case.logits.double()
    chances = chances.sigmoid() if target.independent else chances.softmax(-1)
    explanation = Explanation(
        text=encoding.text,
        pair=encoding.pair,
        tokens=encoding.tokens,
        scores=(0.0,) * len(encoding) if by_unit else tuple(scores.tolist()),
        offsets=encoding.offsets,
        segment=encoding.segment,
        target=target.label,
        probability=chances[target.index].item(),
        prediction=case.model.predicted(case.logits).label,
        probabilities=dict(zip(case.model.labels, chances.tolist(), strict=True)),
        method=row.name,
        params=options | attribution.params,
        signed=row.signed,
        layers=layers,
        gap=attribution.gap,
        unassigned=attribution.unassigned,
        cut=encoding.cut,
        notes=attribution.notes,
        model=case.model.name,
        seconds=seconds,
        forwards=case.asking.forwards + case.group.passes.forwards // len(case.group.encodings),
        backwards=case.asking.backwards + case.group.passes.backwards // len(case.group.encodings),
        word_of=encoding.word_of,
        sentence_of=encoding.sentence_of,
    )
    if by_unit:
        return explanation.pooled(case.level, encoding.members(case.level), POOL[case.level], scores.tolist())
    return explanation.at(case.level)


def load(source: Any = "embedded", *, device: Device | None = None, dtype: Precision | None = None, task: str | None = None) -> Model:
    """A model to ask: 'embedded', a folder, a hub id, a (model, tokenizer) pair, or a transformers pipeline."""
    return Model(load_model(source, device=device, dtype=dtype, task=task))


def explain(
    text: Text, *, model: Any = "embedded", method: str = "attcat", target: str | int | None = None, level: Level = "token", **options: Any
) -> Explanation:
    """Load a model and explain one text: a shortcut."""
    return load(model).explain(text, method, target, level, **options)
