"""The result: plain numbers that can be shown, saved and read back without a model and without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from wherefrom.core.files import FilePath, write_atomically
from wherefrom.core.units import POOL, Level, Pool, pool
from wherefrom.errors import BadFile, WherefromError

FORMAT = 1


class Unit(NamedTuple):
    """A token, word or sentence with its score, and where it stands in its text."""

    text: str
    score: float
    start: int
    end: int
    segment: int


@dataclass(frozen=True)
class Explanation:
    """How much each token spoke for (positive) or against (negative) the target.

    `tokens`, `scores`, `offsets` and `special` have one entry for every token the model saw; at level "word" or
    "sentence", one for every word or sentence. Offsets count characters in `text`, or in `pair` where `segment` is 1.
    """

    text: str
    tokens: tuple[str, ...]
    scores: tuple[float, ...]
    offsets: tuple[tuple[int, int], ...]
    segment: tuple[int, ...]
    target: str
    probability: float
    prediction: str
    method: str
    pair: str | None = None
    level: Level = "token"
    signed: bool = True
    probabilities: Mapping[str, float] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    layers: tuple[tuple[float, ...], ...] | None = None  # (layer, token), where the method has them
    gap: float | None = None  # what the scores should add up to, less what they do, where the method promises a sum
    unassigned: float | None = None  # the part of the decision that went to no token
    cut: int = 0  # tokens that did not fit into the model
    notes: tuple[str, ...] = ()
    selection: tuple[
        Mapping[str, Any], ...
    ] = ()  # what the scores were chosen among and why; one entry for each part of the target
    model: str = ""
    seconds: float = 0.0
    forwards: int = 0  # rows sent through the model, forth and back
    backwards: int = 0
    word_of: tuple[int, ...] = ()
    sentence_of: tuple[int, ...] = ()
    aims: tuple[
        tuple[int, int | None, bool | None], ...
    ] = ()  # the target by number: class or token, rather than which, start or end

    @property
    def special(self) -> tuple[bool, ...]:
        """True for tokens that the tokenizer added, such as [CLS]."""
        return tuple(part < 0 for part in self.segment)

    def units(self, *, special: bool = False) -> list[Unit]:
        """Every token (or word, or sentence: what `level` says) with its score; special tokens only when asked for."""
        rows = zip(self.tokens, self.scores, self.offsets, self.segment, strict=True)
        return [Unit(text, score, start, end, part) for text, score, (start, end), part in rows if special or part >= 0]

    def words(self, how: Pool = POOL["word"]) -> list[Unit]:
        """The words with their scores: a word's score is the sum of its tokens' unless `how` says otherwise."""
        return self.at("word", how).units()

    def sentences(self, how: Pool = POOL["sentence"]) -> list[Unit]:
        """The sentences with their scores: a sentence's score is the mean of its tokens' unless `how` says
        otherwise.
        """
        return self.at("sentence", how).units()

    def top(self, count: int = 5) -> list[Unit]:
        """The units with the largest scores, in size, of either sign; the earlier one first where two are equal."""
        return sorted(self.units(), key=lambda unit: -abs(unit.score))[:count]

    def at(self, level: Level, how: Pool | None = None) -> Explanation:
        """The same explanation by words or sentences."""
        if level == self.level:
            return self
        if self.level != "token":
            raise WherefromError(
                f"This explanation is by {self.level} already; only one by tokens can be pooled into {level}s."
            )
        numbers = {"word": self.word_of, "sentence": self.sentence_of}[level]
        groups: dict[int, list[int]] = {}
        for place, number in enumerate(numbers):
            groups.setdefault(number if number >= 0 else -1 - place, []).append(place)
        return self.pooled(level, list(groups.values()), how or POOL[level])

    def pooled(
        self, level: Level, members: Sequence[Sequence[int]], how: Pool, scores: Sequence[float] | None = None
    ) -> Explanation:
        """One unit for each group of token positions; its scores may be given where a method scored the units
        themselves.
        """
        offsets = tuple(
            (min(self.offsets[i][0] for i in group), max(self.offsets[i][1] for i in group)) for group in members
        )
        segment = tuple(self.segment[group[0]] for group in members)
        shown = {0: self.text, 1: self.pair or ""}
        texts = [
            shown[part][start:end].strip() if part >= 0 else self.tokens[group[0]]
            for part, (start, end), group in zip(segment, offsets, members, strict=True)
        ]
        return replace(
            self,
            tokens=tuple(texts),
            scores=tuple(pool(self.scores, members, how) if scores is None else scores),
            offsets=offsets,
            segment=segment,
            level=level,
            layers=None if self.layers is None else tuple(tuple(pool(layer, members, how)) for layer in self.layers),
            word_of=(),
            sentence_of=(),
        )

    def minus(self, other: Explanation) -> Explanation:
        """The difference of two explanations of one text, each scaled to a largest score of one: positive where this
        one gives more.
        """
        if (self.tokens, self.text, self.pair) != (other.tokens, other.text, other.pair):
            raise WherefromError("Only two explanations of the same text at the same level can be compared.")
        return replace(
            self,
            method=f"{self.method} - {other.method}",
            scores=tuple(a - b for a, b in zip(self._scaled(), other._scaled(), strict=True)),
            params={"first": dict(self.params), "second": dict(other.params)},
            signed=True,
            layers=None,
            gap=None,
            unassigned=None,
            seconds=self.seconds + other.seconds,
            forwards=self.forwards + other.forwards,
            backwards=self.backwards + other.backwards,
        )

    def _scaled(self) -> list[float]:
        """Scores in units of the largest that is not a special token's: [CLS] would often drown all others."""
        largest = max(
            (abs(score) for score, special in zip(self.scores, self.special, strict=True) if not special), default=0.0
        )
        return [score / largest if largest else 0.0 for score in self.scores]

    # Views. The one place where a lower layer calls a higher one, when a person asks to see something.

    def show(self, *, special: bool = False) -> None:
        """Print the explanation in colour."""
        from wherefrom.report.terminal import print_explanation

        print_explanation(self, special=special)

    def to_html(self, *, special: bool = False) -> str:
        """A self-contained page."""
        from wherefrom.report.html import page

        return page([self], special=special)

    def _repr_html_(self) -> str:
        from wherefrom.report.html import fragment

        return fragment(self)

    def to_dict(self) -> dict[str, Any]:
        return {"wherefrom": FORMAT, **asdict(self), "special": self.special}

    def to_json(self, *, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    def save(self, path: FilePath) -> None:
        """Write JSON: wholly, or not at all."""
        write_atomically(path, self.to_json(), "explanation")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Explanation:
        if data.get("wherefrom") != FORMAT:
            raise BadFile(
                "This is not an explanation saved by this version of Wherefrom (its"
                " field 'wherefrom' is missing or another)."
            )
        known = {name: _frozen(value) for name, value in data.items() if name in cls.__dataclass_fields__}
        try:
            explanation = cls(**known)
        except TypeError as error:
            raise BadFile(f"This explanation lacks something: {error}.") from error
        if (
            not len(explanation.tokens)
            == len(explanation.scores)
            == len(explanation.offsets)
            == len(explanation.segment)
        ):
            raise BadFile("This explanation is damaged: its tokens, scores, offsets and segments are not equally many.")
        return explanation

    @classmethod
    def from_json(cls, text: str) -> Explanation:
        try:
            data = json.loads(text)
        except ValueError as error:
            raise BadFile(f"This is not JSON, or it was cut short: {error}.") from error
        if not isinstance(data, dict):
            raise BadFile("This JSON holds no explanation.")
        return cls.from_dict(data)

    @classmethod
    def load(cls, path: FilePath) -> Explanation:
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(f"{path} cannot be read: {error}.") from error
        except BadFile as error:
            raise BadFile(f"{path}: {error}") from error


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value
