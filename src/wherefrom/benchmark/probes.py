"""Probes of decisions, for an audit: what each word does to a decision when it is hidden, whether the explanation is
true, and what changes of case, of punctuation and of listed terms do.

A run that probes stores them as rows of the table of scores, one for each explained target, so that they are resumed,
sharded and computed on a cluster as everything else is.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from wherefrom.case.asking import Asker, PendingAnswers
from wherefrom.case.check import ToCheck, check_explanations
from wherefrom.case.door import read_input, subject_of
from wherefrom.case.flip import Decision
from wherefrom.core.encoding import Encoding
from wherefrom.core.explanation import Explanation
from wherefrom.core.masks import masks_without
from wherefrom.errors import WherefromError
from wherefrom.model.hiding import fill_in_place
from wherefrom.model.tasks import TargetSpec
from wherefrom.model.text_model import TextModel

PROBE = "probe"  # the name of these rows among those of metrics
MOST_WORDS = 32  # words of a text that are hidden: of longer texts those with the largest scores
MOST_TOGETHER = 5  # words that are hidden together, in the order of the scores
OTHERS = 4  # terms of a group that one of its terms is replaced by

TermGroups = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class ProbeJob:
    """One explained target of one text."""

    asked: Any  # as `read_input` takes it: a text or a pair
    encoding: Encoding
    target: TargetSpec
    explanation: Explanation  # by word


class ChangedText(NamedTuple):
    """A text after a change of case, of punctuation, or of terms."""

    group: str  # of terms; "" for the others
    name: str
    encoding: Encoding


class _Noted(NamedTuple):
    """What was queried about one job."""

    job: ProbeJob
    model: TextModel
    words: list[str]
    together: list[list[str]]
    hidden: PendingAnswers  # the whole text, then without each word, then without several
    changed: list[tuple[ChangedText, PendingAnswers]]


def probe(model: TextModel, jobs: Sequence[ProbeJob], groups: TermGroups, asker: Asker) -> list[dict[str, Any]]:
    """The details of every job's probe. All queries of all jobs run together, each one once."""
    with torch.inference_mode(False), torch.no_grad():
        noted = [_note(model, job, asker, groups) for job in jobs]
        asker.run()
        found = [_details(one) for one in noted]
        checks = check_explanations([_to_check(one) for one in noted], asker)
    for details, check in zip(found, checks, strict=True):
        details["check"] = check.verdict
    return found


def as_row(key: Mapping[str, str], details: Mapping[str, Any] | None, why: str | None = None) -> dict[str, Any]:
    """The row that the table of scores keeps: with the details, or why there are none."""
    value = None if details is None else details["probability"]
    return {**key, "metric": PROBE, "value": value, "why": why, "details": json.dumps(details or {})}


def words_of(explanation: Explanation) -> dict[str, list[int]]:
    """The distinct words of a text in lower case, each with the places where it occurs."""
    texts, found = (explanation.text, explanation.pair or ""), defaultdict[str, list[int]](list)
    for place, (segment, (start, end)) in enumerate(zip(explanation.segment, explanation.offsets, strict=True)):
        word = texts[segment][start:end].strip().lower() if segment >= 0 else ""
        if word:
            found[word].append(place)
    return found


def _note(model: TextModel, job: ProbeJob, asker: Asker, groups: TermGroups) -> _Noted:
    explanation, subject = job.explanation, subject_of(model, job.encoding, job.target)
    places, scores = words_of(explanation), explanation.scores
    strength = {word: max(abs(scores[place]) for place in own) for word, own in places.items()}
    words = sorted(places, key=lambda word: -strength[word])[:MOST_WORDS]
    words = [word for word in words if _leaves_text(explanation, places[word])]
    falling = sorted(places, key=lambda word: -max(scores[place] for place in places[word]))
    together = [falling[:size] for size in range(2, MOST_TOGETHER + 1) if size < len(falling)]
    together = [some for some in together if _leaves_text(explanation, [at for word in some for at in places[word]])]
    choices = [
        [],
        *([*places[word]] for word in words),
        *([at for word in some for at in places[word]] for some in together),
    ]
    keep = masks_without(job.encoding.members(explanation.level), choices, len(job.encoding))
    hidden = asker.note(subject.encoding, keep, fill_in_place(model, "delete"))
    changed = []
    for change in () if model.task.answers_by_position else changed_texts(model, job.asked, groups):
        whole = masks_without([], [[]], len(change.encoding))
        changed.append((change, asker.note(change.encoding, whole, "delete")))
    return _Noted(job, model, words, together, hidden, changed)


def _leaves_text(explanation: Explanation, hidden: Sequence[int]) -> bool:
    """Whether something is left of every text."""
    gone = set(hidden)
    left = {part for place, part in enumerate(explanation.segment) if part >= 0 and place not in gone}
    return left == {part for part in explanation.segment if part >= 0}


def changed_texts(model: TextModel, asked: Any, groups: TermGroups) -> Iterator[ChangedText]:
    """The text in other case, without punctuation, and with terms swapped, wherever that makes another text of it."""
    texts = (asked,) if isinstance(asked, str) else tuple(asked)
    if not all(isinstance(text, str) for text in texts):
        return  # the messages of a chat
    ways: list[tuple[str, str, tuple[str, ...]]] = [
        ("", "lower case", tuple(text.lower() for text in texts)),
        ("", "upper case", tuple(text.upper() for text in texts)),
        ("", "no punctuation", tuple(" ".join(re.sub(r"[^\w\s]", " ", text).split()) for text in texts)),
    ]
    for group, terms in groups.items():
        for term in terms:
            pattern = re.compile(rf"(?<!\w){re.escape(term)}(?!\w)", re.IGNORECASE)
            if any(pattern.search(text) for text in texts):
                for other in [one for one in terms if one != term][:OTHERS]:
                    swapped = tuple(pattern.sub(lambda _, other=other: other, text) for text in texts)  # type: ignore[misc]
                    ways.append((group, f"{term} -> {other}", swapped))
    for group, name, changed in ways:
        if changed != texts and all(text.strip() for text in changed):
            try:
                yield ChangedText(group, name, read_input(model, changed[0] if len(changed) == 1 else changed))
            except WherefromError:  # a text of which nothing is left, or too long for the model
                continue


def _decision(one: _Noted) -> Decision:
    whole = one.hidden.logits[0]
    targets = one.model.task.targets(one.model, one.job.target, whole, one.job.encoding)
    return Decision(one.model, one.job.encoding, targets, whole, None)


def _to_check(one: _Noted) -> ToCheck:
    decision = _decision(one)
    return ToCheck(one.job.explanation, one.job.encoding, decision.targets, decision.logits)


def _details(one: _Noted) -> dict[str, Any]:
    decision, regression = _decision(one), one.model.regression
    logits = one.hidden.logits
    whole = decision.probability(logits[0])

    def without(place: int) -> tuple[float, bool | None, str | None]:
        """By how much the probability falls, whether the decision changes, and to what."""
        if regression:
            return whole - decision.probability(logits[place]), None, None
        outcome = decision.outcome(logits[place])
        return whole - outcome.remaining, outcome.flipped, outcome.becomes

    words: list[tuple[str, float, bool | None, str | None]]
    words = [(word, *without(place)) for place, word in enumerate(one.words, 1)]
    flip: list[Any] | None = next(([[word], becomes] for word, _, flipped, becomes in words if flipped), None)
    for place, some in enumerate(one.together, 1 + len(words)):
        _, flipped, becomes = without(place)
        flip = flip or ([some, becomes] if flipped else None)
    return {
        "probability": whole,
        "words": words,
        "together": max(map(len, one.together), default=1),
        "flip": flip,
        "changes": [[change.group, change.name, *_after(one, decision, answers)] for change, answers in one.changed],
    }


def _after(one: _Noted, decision: Decision, answers: PendingAnswers) -> tuple[bool | None, float]:
    """Whether a changed text is decided otherwise, and by how much the target's probability moves."""
    moved = abs(decision.probability(answers.logits[0]) - decision.probability(decision.logits))
    return (None if one.model.regression else decision.outcome(answers.logits[0]).flipped), moved
