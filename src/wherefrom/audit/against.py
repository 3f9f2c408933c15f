"""An older model beside the audited one, text by text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from wherefrom.audit.estimates import Mean, adjusted, share
from wherefrom.audit.rows import ProbedRow
from wherefrom.core.audit import LEAST, SIGNIFICANT, Changes, Estimate, Occurrence, Shortcut, WordChange

PLACES = 2
SHOWN = 20


@dataclass
class _Weights:
    """What hiding a word does in both models, over the texts that both decide alike."""

    old: Mean = field(default_factory=Mean)
    new: Mean = field(default_factory=Mean)
    difference: Mean = field(default_factory=Mean)
    places: list[Occurrence] = field(default_factory=list)


def by_text(rows: Iterator[ProbedRow]) -> Iterator[tuple[str, list[ProbedRow]]]:
    """The decisions of every text, which follow each other."""
    for example, own in groupby(rows, lambda row: row.example):
        yield example, list(own)


def paired(old: Iterator[ProbedRow], new: Iterator[ProbedRow]) -> Iterator[tuple[list[ProbedRow], list[ProbedRow]]]:
    """The decisions of both models on every text that both could explain. Both runs have the same order, so that few
    wait for their partners.
    """
    waiting: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    sides = (by_text(old), by_text(new))
    open_sides = [0, 1]
    while open_sides:
        for side in list(open_sides):
            entry = next(sides[side], None)
            if entry is None:
                open_sides.remove(side)
                continue
            example, rows = entry
            other = waiting[1 - side].pop(example, None)
            if other is None:
                waiting[side][example] = rows
            else:
                yield (rows, other) if side == 0 else (other, rows)


def changes(
    model: str,
    pairs: Iterator[tuple[list[ProbedRow], list[ProbedRow]]],
    accuracy: Estimate,
    old_shortcuts: Sequence[Shortcut],
    new_shortcuts: Sequence[Shortcut],
) -> Changes:
    """What differs between the older model and the audited one."""
    weights: dict[tuple[str, str], _Weights] = defaultdict(_Weights)
    texts = changed = fixed = broken = 0
    examples = list[Occurrence]()
    for old, new in pairs:
        texts += 1
        before, now = (frozenset(label for row in rows for label in row.predicted) for rows in (old, new))
        if before != now and old[0].explanation.value is None:
            changed += 1
            gold = new[0].gold.labels
            fixed += gold is not None and now == set(gold)
            broken += gold is not None and before == set(gold)
            if len(examples) < SHOWN:
                words = " ".join(new[0].explanation.text.split())
                shown = words if len(words) <= 160 else f"{words[:159]}…"
                examples.append(
                    Occurrence(new[0].example, f"{', '.join(sorted(before))} -> {', '.join(sorted(now))}: {shown}")
                )
        labels = {row.label: row for row in old}
        for row in new:
            if row.label in labels:
                _add_words(weights, labels[row.label], row)
    listed = {key: one for key, one in weights.items() if one.difference.texts >= LEAST}
    q_values = adjusted([one.difference.p() for one in listed.values()])
    changed_words = [
        WordChange(word, label, one.old.estimate(), one.new.estimate(), one.difference.estimate(), q, tuple(one.places))
        for ((label, word), one), q in zip(listed.items(), q_values, strict=True)
        if q < SIGNIFICANT
    ]
    changed_words.sort(key=lambda one: -abs(one.difference.value or 0.0))
    mine, theirs = ([f"{one.name} -> {one.label}" for one in some] for some in (new_shortcuts, old_shortcuts))
    return Changes(
        model=model,
        accuracy=accuracy,
        decisions=share(changed, texts),
        fixed=fixed,
        broken=broken,
        words=tuple(changed_words[:SHOWN]),
        changed_words=len(changed_words),
        looked_at=len(listed),
        new_shortcuts=tuple(name for name in mine if name not in theirs),
        gone_shortcuts=tuple(name for name in theirs if name not in mine),
        examples=tuple(examples),
    )


def _add_words(weights: dict[tuple[str, str], _Weights], old: ProbedRow, new: ProbedRow) -> None:
    drops = {word: drop for word, drop, _, _ in old.words}
    for word, drop, _, _ in new.words:
        if word in drops:
            one = weights[new.label, word]
            one.old.add(drops[word])
            one.new.add(drop)
            one.difference.add(drop - drops[word])
            if len(one.places) < PLACES:
                one.places.append(new.place(word))
