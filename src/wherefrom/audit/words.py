"""What a model leans on: every word in the explanations of every label, compared with words of like frequency."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from wherefrom.audit.estimates import Mean, adjusted, alike, beside_alike, more_than, share, two_sided
from wherefrom.audit.rows import ProbedRow
from wherefrom.benchmark.words import is_grammar
from wherefrom.core.audit import LEAST, SIGNIFICANT, AuditWord, Occurrence, WordKind

PLACES = 3
SHOWN = 20  # words of one label and kind that are listed


def kind_of(word: str) -> WordKind:
    """Whether a word carries content, grammar, or is a mark."""
    if not any(character.isalnum() for character in word):
        return "mark"
    return "grammar" if is_grammar(word) else "content"


@dataclass
class WordEvidence:
    """What is known of a word in the explanations of one label, in memory that does not grow with the texts."""

    score: Mean = field(default_factory=Mean)
    drop: Mean = field(default_factory=Mean)
    flips: int = 0
    probed: int = 0  # texts in which it was hidden
    heaviest: list[tuple[float, Occurrence]] = field(default_factory=list)

    def add_score(self, score: float, row: ProbedRow, word: str) -> None:
        self.score.add(score)
        if len(self.heaviest) < PLACES or score > self.heaviest[-1][0]:
            listed = [*self.heaviest, (score, row.place(word))]
            self.heaviest = sorted(listed, key=lambda one: -one[0])[:PLACES]

    @property
    def places(self) -> tuple[Occurrence, ...]:
        return tuple(place for _, place in self.heaviest)


class WordTable:
    """The words of all rows, by label."""

    def __init__(self) -> None:
        self.evidence: dict[tuple[str, str], WordEvidence] = defaultdict(WordEvidence)

    def add(self, row: ProbedRow) -> None:
        scores = row.explanation.scores
        for word, places in row.places.items():
            own = [scores[place] for place in places]
            self.evidence[row.label, word].add_score(sum(own) / len(own), row, word)
        for word, drop, flipped, _ in row.words:
            known = self.evidence[row.label, word]
            known.drop.add(drop)
            known.probed += 1
            known.flips += bool(flipped)

    @property
    def looked_at(self) -> list[tuple[str, str]]:
        """Label and word of all that occur in enough texts."""
        return sorted(key for key, one in self.evidence.items() if one.score.texts >= LEAST)

    def heavy(self, regression: bool) -> list[AuditWord]:
        """The words that differ from others of like frequency, label by label, the farthest first."""
        keys = self.looked_at
        z = dict[tuple[str, str], float]()
        for label in dict.fromkeys(label for label, _ in keys):
            own = [key for key in keys if key[0] == label]
            found = beside_alike(
                [self.evidence[key].score for key in own], [self.evidence[key].score.texts for key in own]
            )
            z |= {key: value for key, value in zip(own, found, strict=True) if value is not None}
        q = dict(zip(z, adjusted([two_sided(value) for value in z.values()]), strict=True))
        rows = [self._row(key, z.get(key), q.get(key), regression) for key in keys]
        listed = list[AuditWord]()
        for label in dict.fromkeys(label for label, _ in keys):
            for kind in ("content", "grammar", "mark"):
                own_rows = [row for row in rows if row.label == label and row.kind == kind]
                listed += _chosen(own_rows, regression=regression)
        return listed

    def _row(self, key: tuple[str, str], z: float | None, q: float | None, regression: bool) -> AuditWord:
        label, word = key
        one = self.evidence[key]
        flips = share(0, 0) if regression else share(one.flips, one.probed)
        return AuditWord(
            word=word,
            label=label,
            kind=kind_of(word),
            texts=one.score.texts,
            score=one.score.estimate(),
            z=z,
            q=q,
            drop=one.drop.estimate(),
            flips=flips,
            places=one.places,
        )

    def out_of_proportion(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Of every label and word: how far its hiding changes more decisions than that of words of like frequency, as
        z and the p-value after correction.
        """
        keys = [key for key in self.looked_at if self.evidence[key].probed >= LEAST]
        found = dict[tuple[str, str], tuple[float, float]]()
        for label in dict.fromkeys(label for label, _ in keys):
            own = [key for key in keys if key[0] == label]
            for key, near in zip(own, alike([self.evidence[key].probed for key in own]), strict=True):
                others = [self.evidence[own[place]] for place in near]
                # One more text without a flip, and half of one, so that no rate is zero because words are few.
                rate = (sum(one.flips for one in others) + 0.5) / (sum(one.probed for one in others) + 1)
                found[key] = more_than(self.evidence[key].flips, self.evidence[key].probed, rate)
        q = adjusted([p for _, p in found.values()])
        return {key: (z, corrected) for (key, (z, _)), corrected in zip(found.items(), q, strict=True)}


def _chosen(rows: Sequence[AuditWord], *, regression: bool) -> list[AuditWord]:
    """The words that speak for a label; of a regression model, those that move the value either way."""
    sides = (1, -1) if regression else (1,)
    chosen = list[AuditWord]()
    for side in sides:
        certain = [row for row in rows if row.q is not None and row.q < SIGNIFICANT and side * (row.z or 0) > 0]
        chosen += sorted(certain, key=lambda row: (-abs(row.z or 0), row.word))[:SHOWN]
    return chosen
