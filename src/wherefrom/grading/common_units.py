"""The smallest units that an explanation and a model's tokens agree on, so that scores of any tool can be graded.

Units and tokens that share a visible character belong together, and so on. The scores of the units of a group are added
up: none is divided, and their total stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wherefrom.core.encoding import Encoding
from wherefrom.core.explanation import Explanation
from wherefrom.core.units import Level, Span
from wherefrom.errors import BadOption

UnitPlace = tuple[Span, int]  # characters and segment

COMMON_NOTE = "Graded by {count} units that the scores and the model's tokens agree on; {before} scores were added up."
LOST_NOTE = "{count} scores are of a part of the text that the model does not read, and were left out."


def fits(explanation: Explanation, encoding: Encoding) -> bool:
    """Whether the units of an explanation are those of the text as it is read here."""
    level: Level = explanation.level
    if level == "span" and not encoding.spans:
        return False
    members = encoding.members(level)
    if len(members) != len(explanation.scores):
        return False
    for group, (start, end), part in zip(members, explanation.offsets, explanation.segment, strict=True):
        first, last = encoding.offsets[group[0]][0], max(encoding.offsets[token][1] for token in group)
        if part != encoding.segment[group[0]] or (part >= 0 and (start, end) != (first, last)):
            return False
    return True


def on_common_units(encoding: Encoding, explanations: Sequence[Explanation]) -> tuple[Encoding, list[Explanation]]:
    """The encoding and the explanations by units that all of them and the tokens agree on; as they are where they fit
    already.
    """
    if all(fits(explanation, encoding) for explanation in explanations):
        return encoding, list(explanations)
    texts = (encoding.text, encoding.pair or "")
    for explanation in explanations:
        _check_whole(explanation, texts)
    read = zip(encoding.offsets, encoding.segment, strict=True)
    places: list[UnitPlace] = [*read, *(place for one in explanations for place in _places(one))]
    tokens = [*zip(encoding.offsets, encoding.segment, strict=True)]
    spans = [
        (*span, segment)
        for segment, text in enumerate(texts)
        for span in _merged(visible(text, span) for span, part in places if part == segment)
        if any(part == segment and _share(span, visible(text, token)) for token, part in tokens)
    ]
    if not spans:
        raise BadOption("The model reads no token of the part of the text that has scores.")
    by_spans = encoding.with_spans(spans)
    return by_spans, [_by_spans(one, by_spans, texts) for one in explanations]


def _check_whole(explanation: Explanation, texts: Sequence[str]) -> None:
    """Raise where a model's explanation ends before its text does, though the model cut nothing."""
    if not explanation.model or explanation.cut:
        return
    for segment, text in enumerate(texts):
        reached = max((end for (_, end), part in _places(explanation) if part == segment), default=0)
        if any(character.isalnum() for character in text[reached:]):
            raise BadOption(
                f"The {explanation.level}s of the explanation end at character {reached} of a text of {len(text)}. Was"
                " its text changed after it was made?"
            )


def _places(explanation: Explanation) -> list[UnitPlace]:
    return [*zip(explanation.offsets, explanation.segment, strict=True)]


def visible(text: str, span: Span) -> Span:
    """A span without the blanks at its ends."""
    start, end = span
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def _share(one: Span, other: Span) -> bool:
    return max(one[0], other[0]) < min(one[1], other[1])


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Spans that share characters as one, in order."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _by_spans(explanation: Explanation, encoding: Encoding, texts: Sequence[str]) -> Explanation:
    """The explanation by the chosen spans of the encoding."""
    members = encoding.members("span")
    scores = [0.0] * len(members)
    owner = {token: number for number, group in enumerate(members) for token in group}
    special = [owner[token] for token, part in enumerate(encoding.segment) if part < 0]
    theirs = [score for score, part in zip(explanation.scores, explanation.segment, strict=True) if part < 0]
    lost = 0
    if len(theirs) == len(special):
        for place, score in zip(special, theirs, strict=True):
            scores[place] += score
    for score, (span, part) in zip(explanation.scores, _places(explanation), strict=True):
        if part < 0:
            continue
        home = _home(visible(texts[part], span), part, encoding, members)
        if home is None:
            lost += score != 0
        else:
            scores[home] += score
    real = sum(encoding.segment[group[0]] >= 0 for group in members)
    notes = [COMMON_NOTE.format(count=real, before=len(explanation.scores) - len(theirs))]
    notes += [LOST_NOTE.format(count=lost)] if lost else []
    offsets = [(min(encoding.offsets[i][0] for i in g), max(encoding.offsets[i][1] for i in g)) for g in members]
    segment = [encoding.segment[group[0]] for group in members]
    names = [
        texts[part][start:end].strip() if part >= 0 else encoding.tokens[group[0]]
        for group, part, (start, end) in zip(members, segment, offsets, strict=True)
    ]
    return replace(
        explanation,
        tokens=tuple(names),
        scores=tuple(scores),
        offsets=tuple(offsets),
        segment=tuple(segment),
        level="span",
        pooling="sum",
        layers=None,
        word_of=(),
        sentence_of=(),
        check=None,
        standard_errors=None,
        notes=(*explanation.notes, *notes),
    )


def _home(span: Span, segment: int, encoding: Encoding, members: Sequence[Sequence[int]]) -> int | None:
    """The unit that contains a span; of one without visible characters, the one before it, or the first."""
    before: int | None = None
    for number, group in enumerate(members):
        if encoding.segment[group[0]] != segment:
            continue
        start, end = min(encoding.offsets[i][0] for i in group), max(encoding.offsets[i][1] for i in group)
        if _share(span, (start, end)):
            return number
        if span[0] >= span[1] and (before is None or start < span[1]):
            before = number
    return before
