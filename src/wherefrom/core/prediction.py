"""A prediction: what a model answers to a text, or to what is left of it when some words are hidden."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wherefrom.core.encoding import ChosenSpan, Encoding, chosen_span
from wherefrom.errors import BadOption

Without = str | ChosenSpan  # a word or phrase as it is written, or its first character and the end (exclusive)


@dataclass(frozen=True)
class Prediction:
    """What a model answers to a text, or to the rest of it where words were hidden.

    Attributes:
        text: what the model was given.
        prediction: what it predicts of the text without the hidden words: a label, a token, an answer; of a regression
            model its value in digits.
        target: what `probability` is about: what the model predicts of the whole text, unless given.
        probability: the target's probability without the hidden words; of a regression model the value.
        probabilities: of every label, or of the likeliest tokens.
        pair: the second text, if there was one.
        hidden: (start, end, segment) of the characters that were hidden; segment is 1 in the pair.
        fill: what replaced the hidden words; "delete" for nothing.

    Example:
        ```python
        whole = model.predict("A gorgeous, witty film.")
        rest = model.predict("A gorgeous, witty film.", without=["gorgeous"])
        print(whole.prediction, whole.probability, rest.prediction, rest.probability)
        ```
    """

    text: str
    prediction: str
    target: str
    probability: float
    probabilities: Mapping[str, float] = field(default_factory=dict)
    pair: str | None = None
    hidden: tuple[tuple[int, int, int], ...] = ()
    fill: str = "delete"

    def __str__(self) -> str:
        other = "" if self.prediction == self.target else f" (the model predicts {self.prediction})"
        return f"{self.target}: {self.probability:.4g}{other}"


def spans_without(encoding: Encoding, without: Iterable[Without]) -> dict[int, list[tuple[int, int, int]]]:
    """The characters of each entry of `without`, by its place: (start, end, segment). A word that the text does not
    have has none.
    """
    return {place: list(_spans(encoding, entry)) for place, entry in enumerate(without)}


def _spans(encoding: Encoding, entry: Without) -> Iterator[tuple[int, int, int]]:
    """Every occurrence of a word or phrase, not those within a longer word; or the span itself."""
    texts = (encoding.text, encoding.pair or "")
    if not isinstance(entry, str):
        start, end, segment = chosen_span(entry)
        if not 0 <= start < end <= len(texts[segment]):
            raise BadOption(f"The characters {start}:{end} are outside of a text of {len(texts[segment])} characters.")
        yield start, end, segment
    elif entry.strip():
        word = entry.strip()
        left, right = (r"(?<!\w)" if word[0].isalnum() else ""), (r"(?!\w)" if word[-1].isalnum() else "")
        for segment, text in enumerate(texts):
            for match in re.finditer(left + re.escape(word) + right, text):
                yield (*match.span(), segment)


def check_without(without: object) -> Sequence[Without]:
    """The words to hide as a list; raises where a single word or something else was given."""
    if isinstance(without, str) or not isinstance(without, Iterable):
        raise BadOption(f"The words to hide are given in a list, as without=[{without!r}].")
    return list(without)
