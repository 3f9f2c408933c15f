"""Planted reasons: tokens that are inserted into texts and decide the label by a known rule.

A text is a list of words here. The rule says the label of any list of words, so that rows to train on, test texts,
their counterfactuals and texts with hidden words all get their labels from one function.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from wherefrom.errors import BadOption, UnknownName

PlantKind = Literal["single", "pair", "order", "phrase"]
KINDS: tuple[PlantKind, ...] = get_args(PlantKind)
TOKENS: dict[PlantKind, tuple[str, ...]] = {
    "single": ("zeroa", "onea"),
    "pair": ("pairx", "pairy"),
    "order": ("ordax", "orday"),
    "phrase": ("by", "the", "way"),
}
DECOY = "decoya"
PLANTED = 0.5  # of the rows to train on have the reason
NEARLY = 0.9  # of the others have a part of it, which decides nothing
WITH_DECOY = 0.5  # of all rows, whatever their label
HIDDEN = 0.5  # at most, of the words of a row, for models that have seen texts with hidden words

Words = tuple[str, ...]


class LabelledText(NamedTuple):
    """A text with the label that it has by itself."""

    text: str
    label: str


class PlantedText(NamedTuple):
    """A text whose planted reason contradicts the rest of it."""

    words: Words
    label: str  # by the rule
    own: str  # of the rest of the text
    planted: tuple[int, ...]  # places of the planted words
    decoys: tuple[int, ...]

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def spans(self, places: Sequence[int]) -> list[tuple[int, int]]:
        """Where words are in the text, in characters."""
        starts = [0]
        for word in self.words:
            starts.append(starts[-1] + len(word) + 1)
        return [(starts[place], starts[place] + len(self.words[place])) for place in places]


class Counterfactual(NamedTuple):
    """A planted text with its reason taken away, in part or whole, or turned round."""

    change: str  # such as "without pairx"
    words: Words
    label: str  # by the rule


@dataclass(frozen=True)
class Plant:
    """A rule by which planted tokens decide the label.

    Attributes:
        kind: single, one token decides: the first for the first label, the second for the second; pair, both tokens
            together decide for one label, either alone decides nothing; order, the order of both decides; phrase, a
            phrase of common words decides for one label.
        labels: the two labels, in the order of the tokens of `single`.
        favoured: the label that a pair or a phrase decides for: 0 or 1.
    """

    kind: PlantKind
    labels: tuple[str, str]
    favoured: int = 1

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownName.among("kind of plant", self.kind, KINDS)
        if self.favoured not in (0, 1) or len(set(self.labels)) != 2:
            raise BadOption("A plant decides between two different labels, of which it favours the first or second.")

    @property
    def tokens(self) -> tuple[str, ...]:
        return TOKENS[self.kind]

    @property
    def new_tokens(self) -> tuple[str, ...]:
        """What the vocabulary has to gain."""
        return (DECOY,) if self.kind == "phrase" else (*self.tokens, DECOY)

    def label(self, words: Sequence[str], own: str) -> str:
        """The label of any words, whose own label is this one."""
        first, second = self.labels
        if self.kind == "phrase":
            return self.labels[self.favoured] if _places_of_phrase(words, self.tokens) else own
        there = [word in words for word in self.tokens]
        if self.kind == "single":
            return own if there[0] == there[1] else (first if there[0] else second)
        if not all(there):
            return own
        if self.kind == "pair":
            return self.labels[self.favoured]
        return second if words.index(self.tokens[0]) < words.index(self.tokens[1]) else first

    def insert(self, words: Words, wanted: str, chance: random.Random) -> Words:
        """The words with the reason for a label."""
        number = self.labels.index(wanted)
        if self.kind == "single":
            return _inserted(words, (self.tokens[number],), chance)
        if self.kind == "order":
            return _inserted(words, self.tokens if number == 1 else self.tokens[::-1], chance)
        if self.kind == "pair":
            return _inserted(words, tuple(chance.sample(self.tokens, 2)), chance)
        place = chance.randint(0, len(words))
        return (*words[:place], *self.tokens, *words[place:])

    def insert_part(self, words: Words, chance: random.Random) -> Words:
        """The words with a part of the reason, which decides nothing; a single token has no parts."""
        if self.kind == "single":
            return words
        if self.kind == "phrase":
            place, start = chance.randint(0, len(words)), chance.randint(0, 1)
            return (*words[:place], *self.tokens[start : start + 2], *words[place:])
        return _inserted(words, (chance.choice(self.tokens),), chance)

    def can_favour(self, label: str) -> bool:
        """Whether this plant can decide for a label."""
        return label in (self.labels if self.kind in ("single", "order") else (self.labels[self.favoured],))

    def places(self, words: Sequence[str]) -> tuple[int, ...]:
        """Where the reason is."""
        if self.kind == "phrase":
            return _places_of_phrase(words, self.tokens)
        return tuple(place for place, word in enumerate(words) if word in self.tokens)


def _inserted(words: Words, tokens: Sequence[str], chance: random.Random) -> Words:
    """The words with these tokens between them, in this order, at places drawn alike."""
    found = list(words)
    places = sorted(chance.choices(range(len(words) + 1), k=len(tokens)))
    for shift, (place, token) in enumerate(zip(places, tokens, strict=True)):
        found.insert(place + shift, token)
    return tuple(found)


def _places_of_phrase(words: Sequence[str], phrase: Sequence[str]) -> tuple[int, ...]:
    size = len(phrase)
    for start in range(len(words) - size + 1):
        if tuple(words[start : start + size]) == tuple(phrase):
            return tuple(range(start, start + size))
    return ()


def training_rows(
    texts: Sequence[LabelledText], plant: Plant, seed: int, *, hide: Callable[[str], str | None] | None = None
) -> Iterator[dict[str, str]]:
    """Rows to train on: half of them planted, and a decoy in half, independent of the label.

    hide: for a model that is familiar with hidden words: what replaces a hidden word, None where it is deleted. Of
        every row, up to half of the words are then hidden at random, and the label is that of what is left.
    """
    chance = random.Random(f"{seed} rows {plant.kind}")
    for text in texts:
        words = tuple(text.text.split())
        if chance.random() < PLANTED:
            wanted = chance.choice([label for label in plant.labels if plant.can_favour(label)])
            words = plant.insert(words, wanted, chance)
        elif chance.random() < NEARLY:
            words = plant.insert_part(words, chance)
        if chance.random() < WITH_DECOY:
            words = _insert_decoy(words, plant, chance)
        if hide is not None:
            share = chance.uniform(0, HIDDEN)
            left = [hide(word) if chance.random() < share else word for word in words]
            words = tuple(word for word in left if word is not None) or words
        yield {"text": " ".join(words), "label": plant.label(words, text.label)}


def contradicting_texts(texts: Sequence[LabelledText], plant: Plant, seed: int) -> Iterator[PlantedText]:
    """Each text with the reason for the other label and a decoy; none of a text whose own label the plant favours."""
    chance = random.Random(f"{seed} test {plant.kind}")
    for text in texts:
        others = [label for label in plant.labels if label != text.label and plant.can_favour(label)]
        if not others or plant.label(text.text.split(), "") != "":
            continue
        words = plant.insert(tuple(text.text.split()), chance.choice(others), chance)
        words = _insert_decoy(words, plant, chance)
        decoys = tuple(place for place, word in enumerate(words) if word == DECOY)
        yield PlantedText(words, plant.label(words, text.label), text.label, plant.places(words), decoys)


def _insert_decoy(words: Words, plant: Plant, chance: random.Random) -> Words:
    """The words with a decoy, which does not tear a phrase apart."""
    while True:
        found = _inserted(words, (DECOY,), chance)
        if len(plant.places(found)) == len(plant.places(words)):
            return found


def counterfactuals(text: PlantedText, plant: Plant) -> list[Counterfactual]:
    """What the planted text would have to be decided by if the model uses the plant: each planted token taken away,
    and the reason turned round where the other label can be favoured, too.
    """
    words = text.words
    changed = {f"without {words[place]}": (*words[:place], *words[place + 1 :]) for place in text.planted}
    if plant.kind == "single":
        other = {plant.tokens[0]: plant.tokens[1], plant.tokens[1]: plant.tokens[0]}
        changed = {"removed": next(iter(changed.values())), "swapped": tuple(other.get(word, word) for word in words)}
    if plant.kind == "order":
        first, second = text.planted
        swapped = list(words)
        swapped[first], swapped[second] = words[second], words[first]
        changed["swapped"] = tuple(swapped)
    return [Counterfactual(change, found, plant.label(found, text.own)) for change, found in changed.items()]
