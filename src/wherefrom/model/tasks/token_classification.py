"""Token classification: which tag each word has, and which entities the tags make together.

A word is read at its first token, which is where such models are trained. The words of an entity are the components of
its target: each is explained by itself, from its own position, and the explanations add up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from wherefrom.core.encoding import Encoding
from wherefrom.core.target import SavedTarget, Target, WordTag, is_number, joint_probability
from wherefrom.errors import BadOption, NotDefined, UnknownName, WherefromError
from wherefrom.model.tasks.task import TargetSpec, Task, has_classes, two_of
from wherefrom.registry import register_task

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel

OUTSIDE = "O"  # the tag of words that belong to no entity
LISTED = 6  # of the entities that a note names
_TAG = re.compile(r"([BIESLU])-(.+)", re.DOTALL)  # of IOB, IOBES and BILOU
_BEGINS, _ENDS = frozenset("BSU"), frozenset("ESLU")  # tags that begin an entity, or end it


@dataclass(frozen=True)
class TokenClassification(Task):
    name = "token_classification"
    auto = "AutoModelForTokenClassification"
    reads_pairs = False
    has_labels = False  # a target is a place and a tag, and no label of a whole text
    answers_by_position = True

    def check_text(self, _model: TextModel, encoding: Encoding) -> Encoding:
        if encoding.pair is not None:
            raise WherefromError("A model for token classification tags the words of one text: leave --pair out.")
        return encoding

    def logits(self, output: Any, inputs: dict[str, Tensor], positions: Tensor | None) -> Tensor:
        del inputs, positions
        by_token: Tensor = output.logits
        return by_token.transpose(1, 2)  # (row, tag, token)

    def fixed_target(self, model: TextModel, spec: TargetSpec) -> Target | None:
        del model
        parts = two_of(spec) if isinstance(spec, tuple) else (spec,)
        if spec is not None and not all(isinstance(part, str) for part in parts):
            raise BadOption(
                "The target of a model for token classification is an entity as 'Paris: LOC', words as 'Paris' (with"
                " the tag that is predicted), or a kind of entity as 'LOC' (the likeliest one of it)."
            )
        return None

    def targets(self, model: TextModel, spec: TargetSpec, logits: Tensor, encoding: Encoding) -> Sequence[Target]:
        self.fixed_target(model, spec)
        tagger = Tagger(model, logits, encoding)
        if spec is None:
            return tagger.likeliest(None)
        if isinstance(spec, tuple):
            return tagger.rather_than(*map(str, two_of(spec)))
        return tagger.named(str(spec))

    def restored(
        self, model: TextModel, label: str, saved: Sequence[SavedTarget], logits: Tensor, encoding: Encoding
    ) -> Sequence[Target]:
        tags = []
        for target in saved:
            place = target.position
            if place is None or not 0 <= place < len(encoding) or not has_classes(target, len(model.labels)):
                raise BadOption(f"The explanation is of {label!r}, but this model has no such target.")
            tags.append(WordTag(target.index, label, versus=target.versus, place=place))
        return tags or self.targets(model, label, logits, encoding)

    def predicted(self, model: TextModel, logits: Tensor, encoding: Encoding) -> Target:
        return self.targets(model, None, logits, encoding)[0]

    def decided(
        self, model: TextModel, logits: Tensor, encoding: Encoding, targets: Sequence[Target]
    ) -> Sequence[Target]:
        """The tags that are predicted where these targets are read."""
        places = {target.position for target in targets}
        tagger = Tagger(model, logits, encoding)
        return tagger.as_predicted([word for word in tagger.words if word.place in places])

    def predicted_labels(self, model: TextModel, logits: Tensor, encoding: Encoding) -> list[str]:
        """Every entity that is found, in the order of the text."""
        return [entity[0].label for entity in Tagger(model, logits, encoding).entities]

    def others(self, model: TextModel, target: Target) -> Sequence[Target]:
        raise NotDefined("an entity is not compared with the other tags that its words could have")

    def probabilities(self, model: TextModel, logits: Tensor, target: Target) -> dict[str, float]:
        """Of every tag, at the first word that the target is about."""
        assert target.position is not None
        chances = logits[:, target.position].double().softmax(-1)
        return dict(zip(model.labels, chances.tolist(), strict=True))

    def notes(self, model: TextModel, logits: Tensor, encoding: Encoding, targets: Sequence[Target]) -> tuple[str, ...]:
        """Which other entities there are, because one explanation is of one."""
        entities = Tagger(model, logits, encoding).entities
        label = targets[0].label
        if not entities:
            return ("The model finds no entity in this text; what is explained is one that it does not find.",)
        if len(entities) == 1 and entities[0][0].label == label:
            return ()
        named = [f"{entity[0].label} ({_chance(entity, logits):.0%})" for entity in entities[:LISTED]]
        more = f" and {len(entities) - LISTED} more" if len(entities) > LISTED else ""
        noun = "entity" if len(entities) == 1 else "entities"
        return (f"The model finds {len(entities)} {noun}: {', '.join(named)}{more}. This explains {label}.",)


@dataclass(frozen=True)
class TaggedWord:
    """A word of the text: the position of its first token, and its characters."""

    place: int
    start: int
    end: int


class Tagger:
    """The words of a text with their tags. Logits are (tag, token)."""

    def __init__(self, model: TextModel, logits: Tensor, encoding: Encoding) -> None:
        self.labels, self.logits, self.text = model.labels, logits, encoding.text
        self.kinds = [_kind(label) for label in self.labels]
        # Without prefixes, as in part-of-speech tagging, neighbours of one kind are not one entity.
        self.joins = any(_TAG.fullmatch(label) for label in self.labels)
        self.words = _words(encoding)
        self.tags: list[int] = logits[:, [word.place for word in self.words]].argmax(0).tolist()

    @property
    def entities(self) -> list[list[WordTag]]:
        """Every entity that the predicted tags make, in the order of the text."""
        groups: list[list[int]] = []
        for number, tag in enumerate(self.tags):
            if self.labels[tag] == OUTSIDE:
                continue
            before = self.tags[number - 1] if number else None
            if groups and groups[-1][-1] == number - 1 and before is not None and self._goes_on(before, tag):
                groups[-1].append(number)
            else:
                groups.append([number])
        return [self.as_predicted([self.words[number] for number in group]) for group in groups]

    def _goes_on(self, before: int, tag: int) -> bool:
        """Whether a tag belongs to the entity of the tag before it."""
        same = self.joins and self.kinds[before] == self.kinds[tag]
        return same and _prefix(self.labels[before]) not in _ENDS and _prefix(self.labels[tag]) not in _BEGINS

    def as_predicted(self, words: Sequence[TaggedWord]) -> list[WordTag]:
        """These words with the tags that are predicted."""
        tags = [self.tags[self.words.index(word)] for word in words]
        return self._targets(words, tags, "/".join(dict.fromkeys(self.kinds[tag] for tag in tags)))

    def likeliest(self, kind: str | None) -> list[WordTag]:
        """The entity, of this kind, that the model is surest of; where it finds none at all, the word and the tag that
        come nearest to one.
        """
        kinds = None if kind is None else {self.kinds[tag] for tag in self._tags_of(kind)}
        entities = self.entities
        if kinds is not None:
            entities = [entity for entity in entities if {self.kinds[target.index] for target in entity} & kinds]
        if entities:
            return max(entities, key=lambda entity: _chance(entity, self.logits))
        tags = [tag for tag, label in enumerate(self.labels) if label != OUTSIDE]
        tags = tags if kind is None else self._tags_of(kind)
        if not tags:
            raise WherefromError("The model has no tag but 'O', so that it finds no entity in any text.")
        near = [self._targets([word], [tag], self.kinds[tag]) for word in self.words for tag in tags]
        return max(near, key=lambda entity: _chance(entity, self.logits))

    def named(self, spec: str) -> list[WordTag]:
        """Words with a kind of entity, words alone, or a kind alone."""
        if words := self._occurrences(spec):
            return self.as_predicted(words)
        written, colon, kind = spec.rpartition(":")
        if colon:
            tags = self._tags_of(kind.strip())
            words = self._occurrences(written.strip())
            if not words:
                raise UnknownName(
                    f"The words {written.strip()!r} are not in the text that the model read. They begin and end"
                    " where words do; a second place is written as 'Paris#2: LOC'."
                )
            return self._likely(words, tags, kind.strip())
        if any(name.lower() == spec.strip().lower() for name in (*self.kinds, *self.labels)):
            return self.likeliest(spec.strip())
        raise UnknownName(
            f"{spec!r} is neither words of the text nor a kind of entity. A target is written as 'Paris: LOC'; the"
            f" model's kinds are {', '.join(dict.fromkeys(self.kinds))}."
        )

    def rather_than(self, label: str, other: str) -> list[WordTag]:
        """Why these words are tagged so, rather than as another kind."""
        first = self.named(label)
        _, colon, kind = other.rpartition(":")
        if colon and {target.place for target in self.named(other)} != {target.place for target in first}:
            raise BadOption(
                f"{label!r} and {other!r} are of different words: a tag is compared with another of the same."
            )
        tags = self._tags_of(kind.strip())
        places = [word for word in self.words if word.place in {target.place for target in first}]
        second = self._likely(places, tags, kind.strip())
        if any(a.index == b.index for a, b in zip(first, second, strict=True)):
            raise BadOption(f"{label!r} and {other!r} mean the same tag, so that there is no difference to explain.")
        name = f"{first[0].label} rather than {second[0].label.rpartition(': ')[2]}"
        return [replace(a, label=name, versus=b.index) for a, b in zip(first, second, strict=True)]

    def _likely(self, words: Sequence[TaggedWord], tags: Sequence[int], label: str) -> list[WordTag]:
        """Words as a kind of entity: of its tags (B-LOC, I-LOC) each word has the likeliest."""
        likely = self.logits[tags][:, [word.place for word in words]].argmax(0).tolist()
        best = [tags[number] for number in likely]
        exact = len(tags) == 1 and self.labels[tags[0]].lower() == label.lower()
        return self._targets(words, best, self.labels[tags[0]] if exact else self.kinds[tags[0]])

    def _tags_of(self, name: str) -> list[int]:
        """The tags that a name means: a tag of the model, or all tags of a kind; exactly, else in any case."""
        for known in (self.labels, self.kinds):
            for same in (str, str.lower):
                tags = [tag for tag, label in enumerate(known) if same(label) == same(name)]
                if tags:
                    return tags
        raise UnknownName.among("kind of entity", name, list(dict.fromkeys(self.kinds)))

    def _occurrences(self, written: str) -> list[TaggedWord]:
        """The words that these characters are; a number after # says which occurrence."""
        places = self._places(written)
        if places:
            return places[0]
        shorter, mark, number = written.rpartition("#")
        if not mark or not is_number(number.strip()):
            return []
        places = self._places(shorter.strip())
        return places[int(number) - 1] if 0 < int(number) <= len(places) else []

    def _places(self, written: str) -> list[list[TaggedWord]]:
        starts = {word.start: number for number, word in enumerate(self.words)}
        ends = {word.end: number for number, word in enumerate(self.words)}
        matches = (match.span() for match in re.finditer(f"(?={re.escape(written)})", self.text)) if written else ()
        spans = ((start, start + len(written)) for start, _ in matches)
        return [self.words[starts[a] : ends[b] + 1] for a, b in spans if a in starts and b in ends]

    def _targets(self, words: Sequence[TaggedWord], tags: Sequence[int], kind: str) -> list[WordTag]:
        written = self.text[words[0].start : words[-1].end]
        places = [place[0].start for place in self._places(written)]
        number = places.index(words[0].start) + 1 if words[0].start in places else 1
        label = f"{written}{f'#{number}' if number > 1 else ''}: {kind}"
        return [WordTag(tag, label, place=word.place) for word, tag in zip(words, tags, strict=True)]


def _words(encoding: Encoding) -> list[TaggedWord]:
    words: dict[int, TaggedWord] = {}
    for place, number in enumerate(encoding.word_of):
        if number < 0:
            continue
        start, end = encoding.offsets[place]
        written = encoding.text[start:end]
        start, end = start + len(written) - len(written.lstrip()), start + len(written.rstrip())
        first = words.get(number)
        words[number] = TaggedWord(place, start, end) if first is None else replace(first, end=max(first.end, end))
    return list(words.values())


def _chance(targets: Sequence[Target], logits: Tensor) -> float:
    """The probability that all of these words have their tags."""
    return joint_probability(targets, logits[None]).item()


def _prefix(label: str) -> str:
    match = _TAG.fullmatch(label)
    return match[1] if match else ""


def _kind(label: str) -> str:
    match = _TAG.fullmatch(label)
    return match[2] if match else label


register_task(TokenClassification())
