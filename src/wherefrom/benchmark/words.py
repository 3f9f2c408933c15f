"""What a whole data set says: for every class the words that carry most, how surely, and where they stand."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from scipy.stats import t

from wherefrom.core.units import unit_of, words

SNIPPET = 40  # characters on either side of a word, in an example
EXAMPLES = 3
SHOWN = 12  # words of a class that a report lists by their totals; as many by their means, and as many of both signs
CLASSES = 12  # classes that a report lists, those with the most texts

# Words that carry grammar and little else, left out by `wherefrom report --stop-words english`.
_GRAMMAR = (
    "a about after again all also am an and any are as at be been before being both but by can could did do does"
    " doing down each for from had has have having he her here hers him his how i if in into is it it's its just me"
    " more most my of off on once one only or other our out over own same she so some such than that that's the"
    " their them then there these they this those through to too under until up very was we were what when where"
    " which while who why will with would you your"
)
ENGLISH = frozenset(_GRAMMAR.split())


def is_grammar(word: str) -> bool:
    """Whether a word carries grammar and little else, in English."""
    return word.lower() in ENGLISH


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
        low: the lower end of the 95% interval of that mean, by Student's t over texts; None for one text.
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


@dataclass(frozen=True)
class WordChoice:
    """Which words a report lists, and by which method."""

    method: str | None = None  # the one that is recommended, unless given
    least: int = 2  # texts of a class that a word must occur in
    fold_case: bool = True
    stop_words: Collection[str] = ()


class ClassWords(NamedTuple):
    """The words of one class that a report lists.

    Attributes:
        target: the class.
        method: the method.
        signed: whether the method's scores say for and against.
        texts: how many explanations of this class there are.
        heaviest: the words with the largest totals, and those with the largest means; the largest total first. Words
            of grammar (`ENGLISH`), which occur so often that they would fill the list, are chosen apart.
        changing: the words that speak for the class here and against it there; those that do it most often first.
    """

    target: str
    method: str
    signed: bool
    texts: int
    heaviest: tuple[WordSummary, ...]
    changing: tuple[WordSummary, ...]


@dataclass
class _Occurrences:
    """What is known of a word so far, in memory that does not grow with the number of texts."""

    count: int = 0
    total: float = 0.0
    positive: int = 0
    negative: int = 0
    texts: int = 0
    mean: float = 0.0  # over texts, of the word's mean score within each
    squares: float = 0.0  # of the distances of these from their mean, added up (Welford's algorithm)
    heaviest: list[tuple[float, str]] = field(default_factory=list)  # the score and the text around it, largest first

    def add(self, found: Sequence[tuple[float, str]]) -> None:
        """The word's occurrences in one more text."""
        scores = [score for score, _ in found]
        self.count += len(scores)
        self.total += sum(scores)
        self.positive += sum(score > 0 for score in scores)
        self.negative += sum(score < 0 for score in scores)
        self.texts += 1
        mean = sum(scores) / len(scores)
        distance = mean - self.mean
        self.mean += distance / self.texts
        self.squares += distance * (mean - self.mean)
        if len(self.heaviest) < EXAMPLES or max(map(abs, scores)) > abs(self.heaviest[-1][0]):
            self.heaviest = sorted([*self.heaviest, *found], key=lambda one: -abs(one[0]))[:EXAMPLES]


def summarise_words(
    rows: Iterable[Mapping[str, Any]],
    *,
    least: int = 2,
    fold_case: bool = True,
    stop_words: Collection[str] = (),
) -> list[WordSummary]:
    """The words of many explanations, by class and method; within these, the largest total first.

    rows: explanations as a run stores them. Tokens are added up to words; special tokens are left out, and so are
        explanations of whole sentences, which say nothing about a word.
    least: how many texts a word must occur in.
    fold_case: whether Film and film are one word.
    stop_words: words that are left out.
    """
    ignored = {word.lower() if fold_case else word for word in stop_words}
    found: dict[tuple[str, str, str], _Occurrences] = defaultdict(_Occurrences)
    for row in rows:
        own: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for word, score, place in _scored_words(row):
            name = word.lower() if fold_case else word
            if name not in ignored and any(character.isalnum() for character in name):
                own[name].append((score, place))
        for name, places in own.items():  # an example, a target and a method have one row, so this is all of the text
            found[row["target"], row["method"], name].add(places)
    listed = [_summary(*key, one) for key, one in found.items() if one.texts >= least]
    return sorted(listed, key=lambda one: (one.target, one.method, -one.total, one.word))


def list_words(rows: Iterable[Mapping[str, Any]], choice: WordChoice) -> list[ClassWords]:
    """What a report shows of the words of a run, class by class; nothing where no word occurs often enough.

    rows: explanations by one method, as a run stores them.
    """
    signed = True
    texts: dict[str, int] = defaultdict(int)

    def seen() -> Iterator[Mapping[str, Any]]:
        nonlocal signed
        for row in rows:
            signed = signed and bool(row["signed"])
            texts[row["target"]] += 1
            yield row

    found: dict[tuple[str, str], list[WordSummary]] = defaultdict(list)
    listed = summarise_words(seen(), least=choice.least, fold_case=choice.fold_case, stop_words=choice.stop_words)
    for word in listed:
        found[word.target, word.method].append(word)
    shown = sorted(found, key=lambda key: (-texts[key[0]], key))[:CLASSES]
    return [_listed(key, signed, texts[key[0]], found[key]) for key in shown]


def _listed(key: tuple[str, str], signed: bool, texts: int, found: Sequence[WordSummary]) -> ClassWords:
    by_total = sorted(found, key=lambda one: (-abs(one.total), one.word))
    by_mean = sorted(found, key=lambda one: (-abs(one.mean), one.word))
    chosen = set[WordSummary]()
    for grammar in (False, True):
        for ordered in (by_total, by_mean):
            chosen.update([word for word in ordered if is_grammar(word.word) == grammar][:SHOWN])
    changing = [one for one in by_total if one.changes_sign]
    changing.sort(key=lambda one: -min(one.positive, one.negative) * one.occurrences)
    return ClassWords(
        *key, signed, texts, tuple(one for one in by_total if one in chosen), tuple(changing[:SHOWN]) if signed else ()
    )


def _scored_words(row: Mapping[str, Any]) -> Iterable[tuple[str, float, str]]:
    """(word, score, the text around it) for every word of an explanation, in the order of the text."""
    if row.get("level", "token") not in ("token", "word"):
        return
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


@cache
def _quantile(freedom: int) -> float:
    """Standard errors on either side of a mean, for an interval of 95%: of few texts many."""
    return float(t.ppf(0.975, freedom))


def _summary(target: str, method: str, word: str, one: _Occurrences) -> WordSummary:
    low = high = None
    if one.texts > 1:
        variance = one.squares / (one.texts - 1)
        reach = _quantile(one.texts - 1) * math.sqrt(variance / one.texts)
        low, high = one.mean - reach, one.mean + reach
    return WordSummary(
        target,
        method,
        word,
        one.count,
        one.texts,
        one.total,
        one.mean,
        low,
        high,
        one.positive / one.count,
        one.negative / one.count,
        one.positive > 0 and one.negative > 0,
        tuple(place for _, place in one.heaviest),
    )
