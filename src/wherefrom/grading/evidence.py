"""What a metric sees of an explanation: plain numbers, one for every unit (token, word or sentence) of the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from wherefrom.core.arrays import Flags, Indices, Numbers
from wherefrom.core.explanation import Explanation
from wherefrom.core.units import Span
from wherefrom.errors import NotDefined

Fill = Literal["unk", "mask", "pad", "eos", "delete"]
Variant = Literal["paper", "published"]


@dataclass(frozen=True)
class Measured:
    """A metric's value with more to say: a curve, a count."""

    value: float
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Scores and what they are held against. Special tokens are there, but are never ranked or hidden."""

    scores: Numbers  # (unit,)
    special: Flags  # (unit,)
    others: Numbers | None = None  # (class, unit): the scores for every other class
    rationale: Flags | None = None  # (unit,): what people marked
    answer: Flags | None = None  # (unit,): the answer to a question
    second: Numbers | None = None  # (unit,): the scores by another model
    missing: Mapping[str, str] = field(default_factory=dict)  # why one of these is not there

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
        """From an explanation; rationale and answer are spans of characters, in the text and in its pair."""
        return cls(
            np.asarray(explanation.scores),
            np.asarray(explanation.special),
            None if not others else np.asarray([other.scores for other in others]),
            None if rationale is None else marked(explanation, rationale),
            None if answer is None else marked(explanation, answer),
            None if second is None else np.asarray(second.scores),
            missing or {},
        )

    @cached_property
    def real(self) -> Indices:
        """The places of what is not special."""
        return np.flatnonzero(~self.special)

    @cached_property
    def order(self) -> Indices:
        """The places of what is not special, the most supporting first, the earlier first where two are equal."""
        return self.real[np.argsort(-self.scores[self.real], kind="stable")]

    def __len__(self) -> int:
        return len(self.real)

    def count_of(self, percent: int) -> int:
        """How many units are so many percent, rounded up (in whole numbers: 0.7 * 10 is a little more than 7)."""
        return -(-percent * len(self) // 100)

    def without(self, counts: Sequence[int]) -> Flags:
        """What is kept when so many of the top units are hidden. (count, unit)"""
        keep = np.ones((len(counts), len(self.scores)), dtype=np.bool_)
        for row, top in zip(keep, counts, strict=True):
            row[self.order[:top]] = False
        return keep

    def only(self, counts: Sequence[int]) -> Flags:
        """What is kept when all but so many of the top units are hidden. (count, unit)"""
        keep = np.ones((len(counts), len(self.scores)), dtype=np.bool_)
        for row, top in zip(keep, counts, strict=True):
            row[self.order[top:]] = False
        return keep

    def each(self) -> Flags:
        """What is kept when one unit after the other is hidden, in the order of the text. (real unit, unit)"""
        keep = np.ones((len(self), len(self.scores)), dtype=np.bool_)
        keep[np.arange(len(self)), self.real] = False
        return keep

    def need(self, name: Literal["others", "rationale", "answer", "second"]) -> Numbers:
        """One of what scores are held against; special tokens included. NotDefined where it is missing."""
        found: Numbers | None = getattr(self, name)
        if found is None:
            raise NotDefined(self.missing.get(name) or WITHOUT[name])
        return found

    def marked(self, name: Literal["rationale", "answer"]) -> Flags:
        """What is marked among the real units; some of it must be. (real unit,)"""
        flags: Flags = self.need(name)[self.real].astype(np.bool_)
        if not flags.any():
            raise NotDefined(f"no {'unit' if len(self) else 'text'} that the model read lies in the {name}")
        return flags


WITHOUT = {
    "others": "there is no other class to compare with",
    "rationale": "no rationale was given (rationale=, or --rationale)",
    "answer": "there is no answer to look for: it is for question answering",
    "second": "it compares two models, and only one was given (against=, or --against)",
}


def marked(explanation: Explanation, spans: Sequence[Sequence[Span]]) -> Flags:
    """The units that share a character with a span of their own text. (unit,)"""
    return np.asarray(
        [
            part >= 0 and part < len(spans) and any(start < last and first < end for first, last in spans[part])
            for (start, end), part in zip(explanation.offsets, explanation.segment, strict=True)
        ]
    )
