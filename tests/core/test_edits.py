"""Small edits of a text, each by hand, and which units of two readings are the same."""

from __future__ import annotations

import pytest

from wherefrom.core.edits import ADDED, EDITS, TextUnits, same_units
from wherefrom.core.units import words

TEXTS = {
    "lower_case": {"A Fine Film.": "a fine film.", "straße": "straße", "İ": "İ"},
    "first_letter": {"A film": "a film", '"the film"': '"The film"', "...": "...", "": ""},
    "full_stop": {
        "A film.": "A film",
        "A film. ": "A film ",
        "A film": "A film.",
        "a film \n": "a film. \n",
        "Really?": "Really?",
        "well...": "well...",
        "": "",
    },
    "without_commas": {"long, dull, 1,000 pages,": "long dull 1,000 pages,", "a film": "a film"},
    "white_space": {"a fine  film": "a  fine  film", " a": " a"},
    "list_order": {
        "It is long, dull and sad.": "It is sad, dull and long.",
        "It is long, dull, and sad.": "It is sad, dull, and long.",
        "red, green or blue; one, two, three and four": "blue, green or red; four, three, two and one",
        "The plot was long, dull and the end sad.": "The plot was long, dull and the end sad.",
        "long and dull": "long and dull",
        "However, I laughed": "However, I laughed",
    },
}


def test_every_edit_is_known_by_hand() -> None:
    assert set(TEXTS) == set(EDITS)


@pytest.mark.parametrize(("edit", "text"), [(edit, text) for edit, texts in TEXTS.items() for text in texts])
def test_an_edit_by_hand(edit: str, text: str) -> None:
    found = EDITS[edit](text)
    assert found.text == TEXTS[edit][text]
    assert len(found.origin) == len(found.text)
    kept = [place for place in found.origin if place != ADDED]
    assert len(set(kept)) == len(kept)  # no character comes from two places
    for character, place in zip(*found, strict=True):
        assert place == ADDED or character.lower() == text[place].lower()


def read(text: str) -> TextUnits:
    spans = words(text)
    return TextUnits(spans, [0] * len(spans))


@pytest.mark.parametrize(
    ("edit", "text", "places"),
    [
        ("list_order", "It is long, dull and sad.", {"long": "long", "dull": "dull", "sad": "sad", "is": "is"}),
        ("full_stop", "A film", {"A": "A", "film": "film"}),
        ("white_space", "A good film", {"A": "A", "good": "good", "film": "film"}),
        ("lower_case", "A FILM", {"A": "a", "FILM": "film"}),
    ],
)
def test_the_same_words(edit: str, text: str, places: dict[str, str]) -> None:
    found = EDITS[edit](text)
    before, after = read(text), read(found.text)
    same = {}
    for number, place in enumerate(same_units(before, after, [found])):
        word = text[slice(*before.offsets[number])]
        if place is not None and word.isalpha():
            same[word] = found.text[slice(*after.offsets[place])]
    assert same == places | {word: word for word in ("It", "and") if word in text}


def test_units_that_are_cut_differently_or_share_their_characters_are_not_the_same() -> None:
    found = EDITS["full_stop"]("film")  # film.
    cut = TextUnits([(0, 2), (2, 4), (4, 5)], [0, 0, 0])
    assert same_units(TextUnits([(0, 4)], [0]), cut, [found]) == [None]
    twice = TextUnits([(0, 4), (0, 4)], [0, 0])
    assert same_units(TextUnits([(0, 4)], [0]), twice, [found]) == [None]
    special = TextUnits([(0, 0), (0, 4), (0, 0)], [-1, 0, -1])
    assert same_units(special, special, [found]) == [None, 1, None]


def test_both_texts_of_a_pair() -> None:
    edits = [EDITS["full_stop"]("a film."), EDITS["full_stop"]("a plot")]
    before = TextUnits([(0, 1), (2, 6), (6, 7), (0, 1), (2, 6)], [0, 0, 0, 1, 1])
    after = TextUnits([(0, 1), (2, 6), (0, 1), (2, 6), (6, 7)], [0, 0, 1, 1, 1])
    assert same_units(before, after, edits) == [0, 1, None, 2, 3]
