"""What a metric sees: the scores of an explanation, one for every unit (token, word or sentence) of the text, and the
model's answers to the metric's questions. Plain numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from wherefrom.core.arrays import Flags, Indices, Numbers
from wherefrom.core.explanation import Explanation
from wherefrom.core.units import Span
from wherefrom.errors import BadOption, NotDefined

Fill = Literal["unk", "mask", "pad", "eos", "delete", "sample"]
Variant = Literal["paper", "published"]


@dataclass(frozen=True)
class Measured:
    """A metric's value with further details, such as a curve or a count."""

    value: float
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Evidence:
    """An explanation's scores and what they are compared with.

    Special tokens have scores too, but they are never ranked and never hidden: `real` and `order` leave them out.
    """

    scores: Numbers  # (unit,)
    special: Flags  # (unit,)
    others: Numbers | None = None  # (class, unit): the scores for every other class
    rationale: Flags | None = None  # (unit,): what people marked
    answer: Flags | None = None  # (unit,): the answer to a question
    second: Numbers | None = None  # (unit,): the scores by another model
    edited: Numbers | None = None  # (edit, unit): the scores of edited texts; NaN for a unit that is not in one
    edits: Sequence[str] = ()  # the names of these edits
    randomised: Numbers | None = None  # (unit,): the scores by the model with shuffled weights
    missing: Mapping[str, str] = field(default_factory=dict)  # the reason why one of these is not available
    unanswerable: bool = False  # whether it is known, or predicted, that the question has no answer

    @classmethod
    def of(
        cls,
        explanation: Explanation,
        *,
        others: Sequence[Explanation] | None = None,
        rationale: Sequence[Sequence[Span]] | None = None,
        answer: Sequence[Sequence[Span]] | None = None,
        second: Explanation | None = None,
        missing: Mapping[str, str] | None = None,
    ) -> Evidence:
        """Build it from an explanation; rationale and answer are character spans in the text and in its pair."""
        return cls(
            np.asarray(explanation.scores),
            np.asarray(explanation.special),
            None if not others else np.asarray([other.scores for other in others]),
            None if rationale is None else marked(explanation, rationale),
            None if answer is None else marked(explanation, answer),
            None if second is None else np.asarray(second.scores),
            missing=missing or {},
            unanswerable=answer is not None and not any(answer),
        )

    @cached_property
    def real(self) -> Indices:
        """The positions of the units that are not special tokens. (real unit,)"""
        return np.flatnonzero(~self.special)

    @cached_property
    def order(self) -> Indices:
        """The same positions by descending score; equal scores keep the order of the text. (real unit,)"""
        return self.real[np.argsort(-self.scores[self.real], kind="stable")]

    def __len__(self) -> int:
        return len(self.real)

    def count_of(self, percent: int) -> int:
        """How many units make up this percentage of the text, rounded up.

        Computed with integers, because 0.7 * 10 is slightly more than 7 in floating point.
        """
        return -(-percent * len(self) // 100)

    def without(self, counts: Sequence[int]) -> Flags:
        """Rows that keep everything except the top units, one row for each count. (count, unit)"""
        keep = np.ones((len(counts), len(self.scores)), dtype=np.bool_)
        for row, top in zip(keep, counts, strict=True):
            row[self.order[:top]] = False
        return keep

    def only(self, counts: Sequence[int]) -> Flags:
        """Rows that keep only the top units, one row for each count. (count, unit)"""
        keep = np.ones((len(counts), len(self.scores)), dtype=np.bool_)
        for row, top in zip(keep, counts, strict=True):
            row[self.order[top:]] = False
        return keep

    def each(self) -> Flags:
        """Rows that hide one unit each, in the order of the text. (real unit, unit)"""
        keep = np.ones((len(self), len(self.scores)), dtype=np.bool_)
        keep[np.arange(len(self)), self.real] = False
        return keep

    def need(self, name: Literal["others", "rationale", "answer", "second", "edited", "randomised"]) -> Numbers:
        """What the scores are compared with, special tokens included; raises NotDefined where it is missing."""
        values: Numbers | None = getattr(self, name)
        if values is None:
            raise NotDefined(self.missing.get(name) or WITHOUT[name])
        return values

    def marked(self, name: Literal["rationale", "answer"]) -> Flags:
        """Which of the real units are marked; raises NotDefined where that tells no rankings apart. (real unit,)

        At least one unit must be marked. A rationale must also leave one out: if it is the whole text, every ranking
        agrees with it perfectly, so ERASER's scorer discards such rows.
        """
        flags: Flags = self.need(name)[self.real].astype(np.bool_)
        if name == "answer" and not flags.any() and self.unanswerable:
            raise NotDefined("the question has no answer in this text, so there is none to look for")
        if not flags.any():
            raise NotDefined(f"no {'unit' if len(self) else 'text'} that the model read lies in the {name}")
        if name == "rationale" and flags.all():
            raise NotDefined("the rationale is the whole text, so every ranking agrees with it")
        return flags


@dataclass(frozen=True, eq=False)
class Answers:
    """What the model answered to a metric's questions, in the order in which `questions` asked them."""

    whole: float  # the target's probability with the whole text; of a regression model its value / spread
    probabilities: Numbers  # (question,): the same for every question
    keep: Flags  # (question, unit): the questions, as `questions` returned them
    # (1 + question, class), the whole text first; for extractive answers (1 + question, 2, token); None if not wanted
    all_logits: Numbers | None = None
    independent: bool = False  # whether every class is decided on its own (multi-label), not one among all
    regression: bool = False  # whether these are values in units of their spread, and no probabilities

    @property
    def drops(self) -> Numbers:
        """How far the probability, or the value in units of its spread, falls from that of the whole text.
        (question,)
        """
        return self.whole - self.probabilities

    @property
    def whole_logits(self) -> Numbers:
        """The logits of every class with the whole text. (class,)"""
        whole: Numbers = self._logits()[0]
        return whole

    @property
    def logits(self) -> Numbers:
        """The logits of every class for every question. (question, class)"""
        return self._logits()[1:]

    def _logits(self) -> Numbers:
        if self.all_logits is None:
            raise BadOption("Only a metric whose class says wants_logits = True is given the logits of every class.")
        return self.all_logits


WITHOUT = {
    "others": "there is no other class to compare with",
    "rationale": "no rationale was given (rationale=, or --rationale)",
    "answer": "there is no answer to look for: it is for question answering",
    "second": "it compares two models, and only one was given (against=, or --against)",
    "edited": "no edited text was explained",
    "randomised": "nothing was explained by the model with shuffled weights",
}


def marked(explanation: Explanation, spans: Sequence[Sequence[Span]]) -> Flags:
    """Which units share a character with a span of their own text. (unit,)"""
    return np.asarray(
        [
            part >= 0 and part < len(spans) and any(start < last and first < end for first, last in spans[part])
            for (start, end), part in zip(explanation.offsets, explanation.segment, strict=True)
        ]
    )
