"""What a whole data set says: for every class the words that carry most, how surely, and where they stand."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wherefrom.core.units import unit_of, words

NORMAL = 1.96  # standard errors on either side of a mean, for an interval of 95%
SNIPPET = 40  # characters on either side of a word, in an example
EXAMPLES = 3


class WordSummary(NamedTuple):
    """One word in the explanations of one class by one method.

    Attributes:
        target: the class.
        method: the method.
        word: the word.
        occurrences: how often it occurs.
        texts: in how many texts.
        total: its scores added up.
        mean: the mean over texts of its mean score within each.
        low: the lower end of the 95% interval of that mean, by the normal approximation over texts; None for one text.
        high: the upper end.
        positive: the share of its occurrences that speak for the class.
        negative: the share that speaks against it.
        changes_sign: whether some speak for and some against.
        examples: where it weighs most, with the text around it.
    """

    target: str
    method: str
    word: str
    occurrences: int
    texts: int
    total: float
    mean: float
    low: float | None
    high: float | None
    positive: float
    negative: float
    changes_sign: bool
    examples: tuple[str, ...]


@dataclass
class _Occurrences:
    scores: list[float] = field(default_factory=list)
    by_text: dict[object, list[float]] = field(default_factory=lambda: defaultdict(list))
    places: list[tuple[float, str]] = field(default_factory=list)


def summarise_words(
    rows: Iterable[Mapping[str, Any]],
    *,
    least: int = 2,
    fold_case: bool = True,
    stop_words: Collection[str] = (),
) -> list[WordSummary]:
    """The words of many explanations, by class and method; within these, the largest total first.

    rows: explanations as a run stores them. Tokens are added up to words; special tokens are left out.
    least: how many texts a word must occur in.
    fold_case: whether Film and film are one word.
    stop_words: words that are left out.
    """
    ignored = {word.lower() if fold_case else word for word in stop_words}
    found: dict[tuple[str, str, str], _Occurrences] = defaultdict(_Occurrences)
    for row in rows:
        for word, score, place in _scored_words(row):
            name = word.lower() if fold_case else word
            if name in ignored or not any(character.isalnum() for character in name):
                continue
            one = found[row["target"], row["method"], name]
            one.scores.append(score)
            one.by_text[row["example"]].append(score)
            one.places.append((score, place))
    listed = [_summary(*key, one) for key, one in found.items() if len(one.by_text) >= least]
    return sorted(listed, key=lambda one: (one.target, one.method, -one.total, one.word))


def _scored_words(row: Mapping[str, Any]) -> Iterable[tuple[str, float, str]]:
    """(word, score, the text around it) for every word of an explanation, in the order of the text."""
    for segment, text in enumerate((row["text"], row["pair"] or "")):
        spans = words(text)
        places = [i for i, part in enumerate(row["segment"]) if part == segment]
        owners = unit_of([tuple(row["offsets"][i]) for i in places], spans, text)
        totals: dict[int, float] = {}
        for place, owner in zip(places, owners, strict=True):
            if owner >= 0:
                totals[owner] = totals.get(owner, 0.0) + float(row["scores"][place])
        for owner, score in totals.items():
            start, end = spans[owner]
            yield text[start:end], score, " ".join(text[max(0, start - SNIPPET) : end + SNIPPET].split())


def _summary(target: str, method: str, word: str, one: _Occurrences) -> WordSummary:
    means = [sum(part) / len(part) for part in one.by_text.values()]
    mean = sum(means) / len(means)
    low = high = None
    if len(means) > 1:
        variance = sum((value - mean) ** 2 for value in means) / (len(means) - 1)
        reach = NORMAL * math.sqrt(variance / len(means))
        low, high = mean - reach, mean + reach
    positive, negative = (sum(sign * score > 0 for score in one.scores) / len(one.scores) for sign in (1, -1))
    heaviest = sorted(one.places, key=lambda place: -abs(place[0]))[:EXAMPLES]
    return WordSummary(
        target,
        method,
        word,
        len(one.scores),
        len(one.by_text),
        sum(one.scores),
        mean,
        low,
        high,
        positive,
        negative,
        positive > 0 and negative > 0,
        tuple(place for _, place in heaviest),
    )
