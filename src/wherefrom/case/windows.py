"""Texts that are longer than the model reads, explained window by window.

The text's tokens are cut into windows of as many as the model reads, which overlap by a quarter. Every window is
explained by itself, towards the same target: the one that was asked for, or else the class whose probability is the
largest on average over the windows. A token's score is the mean of its scores in the windows that it is in. The window
that decided is the one that gives the target the largest probability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from wherefrom.case.case import make_cases
from wherefrom.case.explain import explain_texts
from wherefrom.core.arrays import Numbers
from wherefrom.core.encoding import Encoding
from wherefrom.core.explanation import Explanation
from wherefrom.core.target import written_value
from wherefrom.core.units import Level
from wherefrom.errors import BadOption
from wherefrom.model.tasks import TargetSpec
from wherefrom.model.text_model import TextModel
from wherefrom.registry import Method

LongTexts = Literal["cut", "windows"]
OVERLAP = 4  # neighbouring windows have this part of their tokens in common


@dataclass(frozen=True)
class Window:
    """A part of a text that fits into the model, and the places of its tokens in the whole text."""

    encoding: Encoding
    places: tuple[int, ...]


def windows_of(model: TextModel, whole: Encoding) -> list[Window]:
    """The windows of a text that was encoded whole; one, where it fits."""
    everywhere = tuple(range(len(whole)))
    if model.reading.limit is None or len(whole) <= model.reading.limit:
        return [Window(whole, everywhere)]
    inside = [place for place in everywhere if not whole.special[place]]
    first, end = inside[0], inside[-1] + 1
    room = model.reading.limit - first - (len(whole) - end)  # beside what the tokenizer puts in front and at the end
    if len(inside) != end - first or room < OVERLAP:
        raise BadOption("The tokenizer puts tokens of its own into the text, so that it cannot be read in windows.")
    common = room // OVERLAP
    starts = range(first, end - common, room - common)
    cuts = [everywhere[:first] + everywhere[start : min(start + room, end)] + everywhere[end:] for start in starts]
    return [Window(whole.part(places), places) for places in cuts]


def explain_windows(
    model: TextModel, text: Any, spec: TargetSpec, method: Method, options: Mapping[str, Any], level: Level
) -> Explanation | None:
    """The explanation of a long text; None where it fits into the model, so that nothing has to be joined."""
    if not isinstance(text, str):
        raise BadOption("Only a single text, a str, is read in windows, and no pair: leave long='windows' out.")
    if not model.task.has_labels or model.task.several_rows is not None:
        raise BadOption(
            f"Windows are for models that give a whole text labels; this one was made for {model.task.name}. Leave"
            " long='windows' out."
        )
    model.encode(text)  # raises on what is no text, or an empty one
    whole = model.reading.tokenize(text, None, None)
    windows = windows_of(model, whole)
    if len(windows) == 1:
        return None
    encodings = [window.encoding for window in windows]
    label = _likeliest(model, encodings) if spec is None else spec
    return _joined(model, whole, windows, explain_texts(model, encodings, label, method, options, "token")).at(level)


def _likeliest(model: TextModel, encodings: Sequence[Encoding]) -> TargetSpec:
    """The class whose probability is the largest on average; of a regression model its first value."""
    if model.regression:
        return 0
    chances = dict.fromkeys(model.labels, 0.0)
    for cases in make_cases(model, encodings, [None] * len(encodings)):
        for case in cases.values():
            for label, chance in model.task.probabilities(model, case.logits, case.target).items():
                chances[label] += chance
    return max(chances, key=lambda label: chances[label])


def _joined(
    model: TextModel, whole: Encoding, windows: Sequence[Window], explanations: Sequence[Explanation]
) -> Explanation:
    def mean(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
        """Of every token's scores in the windows that it is in; what the tokenizer added is in all of them."""
        total: Numbers = np.zeros(len(whole))
        count: Numbers = np.zeros(len(whole))
        for window, row in zip(windows, rows, strict=True):
            total[list(window.places)] += row
            count[list(window.places)] += 1
        means: list[float] = (total / count).tolist()
        return tuple(means)

    outputs = [explanation.output for explanation in explanations]
    best = outputs.index(max(outputs))
    decided, output = explanations[best], sum(outputs) / len(outputs)
    chances = {
        name: sum(explanation.probabilities[name] for explanation in explanations) / len(explanations)
        for name in decided.probabilities
    }
    by_layer = [explanation.layers for explanation in explanations if explanation.layers is not None]
    spans = [span for span, part in zip(decided.offsets, decided.segment, strict=True) if part >= 0]
    values = ", ".join(f"{value:.3g}" for value in outputs)
    note = (
        f"The text has {len(whole)} tokens, more than the model's {model.reading.limit}, and was read in"
        f" {len(explanations)} windows that overlap. A token's score is the mean over its windows, and so is the"
        f" probability. The windows give {decided.target} {values}: number {best + 1}, characters {spans[0][0]} to"
        f" {spans[-1][1]}, decided. It was not checked."
    )
    return replace(
        decided,
        tokens=whole.tokens,
        scores=mean([explanation.scores for explanation in explanations]),
        offsets=whole.offsets,
        segment=whole.segment,
        layers=tuple(map(mean, zip(*by_layer, strict=True))) if by_layer else None,
        probability=None if decided.probability is None else output,
        value=None if decided.value is None else output,
        prediction=max(chances, key=lambda name: chances[name]) if chances else written_value(output),
        probabilities=chances,
        params={**decided.params, "long": "windows"},
        gap=max(
            (explanation.gap for explanation in explanations if explanation.gap is not None), key=abs, default=None
        ),
        unassigned=None,
        standard_errors=None,
        notes=(note, *dict.fromkeys(note for explanation in explanations for note in explanation.notes)),
        word_of=whole.word_of,
        sentence_of=whole.sentence_of,
        seconds=sum(explanation.seconds for explanation in explanations),
        forwards=sum(explanation.forwards for explanation in explanations),
        backwards=sum(explanation.backwards for explanation in explanations),
    )
