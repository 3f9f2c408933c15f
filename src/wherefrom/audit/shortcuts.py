"""Words that mislead, and suspected shortcuts.

A word misleads towards a label if texts of other labels that contain it are given this label more often than those
without it (Fisher's exact test). So do good reasons, now and then. A word is a suspected shortcut if, besides, the
model does better without it: of the decisions for the label that change when it is hidden, significantly more are put
right than made wrong.

A word of grammar, a mark or a number is one if hiding it changes decisions more often than hiding words of like
frequency, because such a word should not decide. And so is a value of a metadata column whose texts are drawn to one
label.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from wherefrom.audit.estimates import adjusted, enriched, more_than, share
from wherefrom.audit.rows import ProbedRow
from wherefrom.audit.words import PLACES, WordTable, kind_of
from wherefrom.core.audit import LEAST, SIGNIFICANT, Estimate, Misleading, Occurrence, Shortcut

LIFT = 0.1  # by how much more often texts with the word must be drawn to the label
FLIPS = 0.1  # of the decisions must change without a word whose form says that it should not decide
SHOWN = 20


@dataclass
class Drawn:
    """What happens to the labelled texts that have something in common: a word, or a value of a column."""

    texts: int = 0
    gold: Counter[str] = field(default_factory=Counter)
    predicted: Counter[str] = field(default_factory=Counter)
    wrongly: Counter[str] = field(default_factory=Counter)  # predicted for texts that have another label
    places: dict[str, list[Occurrence]] = field(default_factory=lambda: defaultdict(list))

    def add(self, gold: tuple[str, ...], predicted: tuple[str, ...]) -> None:
        self.texts += 1
        self.gold.update(set(gold))
        self.predicted.update(set(predicted))
        self.wrongly.update(set(predicted) - set(gold))

    def others(self, label: str) -> int:
        """Texts of other labels."""
        return self.texts - self.gold[label]


@dataclass(frozen=True)
class _Test:
    """One word or value, and one label."""

    name: str
    label: str
    drawn: Drawn
    z: float
    p: float


class ShortcutTable:
    """The counts that both lists are made from."""

    def __init__(self, words: WordTable) -> None:
        self.words = words  # its flips are read when all rows were added
        self.everything = Drawn()
        self.by_word: dict[str, Drawn] = defaultdict(Drawn)
        self.by_value: dict[str, Drawn] = defaultdict(Drawn)
        self.hidden: Counter[tuple[str, str]] = Counter()  # errors (word, wrong label) in which the word was hidden
        self.fixed: Counter[tuple[str, str]] = Counter()  # and of these, those that this put right
        self.broken: Counter[tuple[str, str]] = Counter()  # right decisions (word, label) that hiding it made wrong

    def add(self, row: ProbedRow) -> None:
        if row.gold.labels is None:
            return
        if row.first:
            self.everything.add(row.gold.labels, row.predicted)
            for column, value in row.gold.metadata.items():
                self.by_value[f"{column} = {value}"].add(row.gold.labels, row.predicted)
            for word in row.places:
                self.by_word[word].add(row.gold.labels, row.predicted)
        for word, _, flipped, _ in () if row.wrong else row.words:
            self.broken[word, row.label] += bool(flipped)
        if row.wrong:
            for word, _, flipped, becomes in row.words:
                self.hidden[word, row.label] += 1
                self.fixed[word, row.label] += row.puts_right(flipped, becomes)
                places = self.by_word[word].places[row.label]
                if len(places) < PLACES:
                    places.append(row.place(word))

    def add_silent(self, gold: tuple[str, ...]) -> None:
        """A text for which nothing is predicted."""
        self.everything.add(gold, ())

    def misleading(self) -> list[Misleading]:
        """Words that go with errors, those with most errors first."""
        found = [self._misleading(test, q) for test, q in self._corrected(self._tests(self.by_word))]
        return sorted(found, key=lambda one: (-one.count, one.q, one.word))[:SHOWN]

    def suspected(self) -> list[Shortcut]:
        """Suspected shortcuts, the strongest first."""
        return [
            *self._misleading_words(),
            *self._words_of_form(),
            *self._values(),
        ]

    @property
    def tests(self) -> int:
        """How many pairs of a word or a value and a label were tested."""
        return sum(len(self._tests(table)) for table in (self.by_word, self.by_value)) + len(
            self.words.out_of_proportion()
        )

    def _tests(self, table: dict[str, Drawn]) -> list[_Test]:
        """Every word or value in enough texts of other labels than the one it may draw to."""
        tests, total = list[_Test](), self.everything
        for name, drawn in sorted(table.items()):
            for label in sorted(total.wrongly):
                of = drawn.others(label)
                if of >= LEAST:
                    found = enriched(drawn.wrongly[label], of, total.wrongly[label], total.others(label))
                    tests.append(_Test(name, label, drawn, *found))
        return tests

    @staticmethod
    def _corrected(tests: list[_Test]) -> list[tuple[_Test, float]]:
        q_values = adjusted([test.p for test in tests])
        return [(test, q) for test, q in zip(tests, q_values, strict=True) if q < SIGNIFICANT]

    def _lift(self, test: _Test) -> tuple[Estimate, Estimate]:
        """The share of errors among texts of other labels with it, and without it."""
        own, total, label = test.drawn, self.everything, test.label
        rest = total.wrongly[label] - own.wrongly[label], total.others(label) - own.others(label)
        return share(own.wrongly[label], own.others(label)), share(*rest)

    def _misleading(self, test: _Test, q: float) -> Misleading:
        key = (test.name, test.label)
        errors, elsewhere = self._lift(test)
        return Misleading(
            word=test.name,
            label=test.label,
            errors=errors,
            elsewhere=elsewhere,
            count=test.drawn.wrongly[test.label],
            fixed=share(self.fixed[key], self.hidden[key]),
            q=q,
            places=tuple(test.drawn.places[test.label]),
        )

    def _misleading_words(self) -> list[Shortcut]:
        """Words that go with errors, and without which more decisions are put right than made wrong."""
        listed = list[Shortcut]()
        for test, q in self._corrected(self._tests(self.by_word)):
            key, (here, there) = (test.name, test.label), self._lift(test)
            fixed, broken = self.fixed[key], self.broken[key]
            lifted = here.value is not None and here.value >= (there.value or 0.0) + LIFT
            if lifted and fixed + broken >= LEAST and more_than(fixed, fixed + broken, 0.5)[1] < SIGNIFICANT:
                listed.append(self._shortcut(test, q))
        return sorted(listed, key=lambda one: (-self._gain(one), one.name))

    def _gain(self, shortcut: Shortcut) -> int:
        """How many more decisions are right without the word."""
        key = (shortcut.name, shortcut.label)
        return self.fixed[key] - self.broken[key]

    def _shortcut(self, test: _Test, q: float) -> Shortcut:
        own, label = test.drawn, test.label
        key = (test.name, label)
        evidence = self.words.evidence.get((label, test.name))
        flips = Estimate() if evidence is None else share(evidence.flips, evidence.probed)
        return Shortcut(
            kind="misleads",
            name=test.name,
            label=label,
            texts=own.texts,
            predicted=share(own.predicted[label], own.texts),
            gold=share(own.gold[label], own.texts),
            flips=flips,
            fixed=share(self.fixed[key], self.fixed[key] + self.broken[key]),
            z=test.z,
            q=q,
            places=tuple(own.places[label]),
        )

    def _words_of_form(self) -> list[Shortcut]:
        found = list[Shortcut]()
        for (label, word), (z, q) in self.words.out_of_proportion().items():
            evidence = self.words.evidence[label, word]
            flips = share(evidence.flips, evidence.probed)
            forms = kind_of(word) != "content" or any(character.isdigit() for character in word)
            if not forms or q >= SIGNIFICANT or (flips.value or 0.0) < FLIPS:
                continue
            own = self.by_word.get(word, Drawn())
            found.append(
                Shortcut(
                    kind="form",
                    name=word,
                    label=label,
                    texts=evidence.score.texts,
                    predicted=share(own.predicted[label], own.texts),
                    gold=share(own.gold[label], own.texts),
                    flips=flips,
                    fixed=share(self.fixed[word, label], self.fixed[word, label] + self.broken[word, label]),
                    z=z,
                    q=q,
                    places=evidence.places,
                )
            )
        return sorted(found, key=lambda one: (-one.z, one.name))

    def _values(self) -> list[Shortcut]:
        found = list[Shortcut]()
        for test, q in self._corrected(self._tests(self.by_value)):
            (here, there), own = self._lift(test), test.drawn
            if here.value is None or here.value < (there.value or 0.0) + LIFT:
                continue
            found.append(
                Shortcut(
                    kind="metadata",
                    name=test.name,
                    label=test.label,
                    texts=own.texts,
                    predicted=share(own.predicted[test.label], own.texts),
                    gold=share(own.gold[test.label], own.texts),
                    flips=Estimate(),
                    fixed=Estimate(),
                    z=test.z,
                    q=q,
                )
            )
        return sorted(found, key=lambda one: (-one.z, one.name))
