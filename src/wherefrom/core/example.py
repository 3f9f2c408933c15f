"""What a data set asks about: a text or a pair, its label, and what people marked in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from wherefrom.core.encoding import has_surrogate
from wherefrom.errors import BadFile


class Mark(NamedTuple):
    """Characters that somebody marked: [start, end) of the text, or of its pair where `segment` is 1; for one label, if
    it says so.
    """

    start: int
    end: int
    segment: int = 0
    label: str | None = None


@dataclass(frozen=True)
class Example:
    """One row of a data set. `rationale` and `answer` are None where nobody looked for one, and empty where nothing was
    found.
    """

    id: str
    text: str
    pair: str | None = None
    label: str | int | tuple[str, ...] | None = None
    rationale: tuple[Mark, ...] | None = None
    answer: tuple[Mark, ...] | None = None
    # What is explained of this row, by --target label: a label or token, or one rather than another (its foil).
    target: str | int | tuple[str | int, str | int] | None = None
    mask_span: tuple[int, int] | None = None  # the characters that a language model is asked for, as a verb's
    messages: tuple[Mapping[str, Any], ...] | None = None  # of a chat; the text is then what they say
    question: bool = False  # whether the text is a question about its pair, and nothing says what class it is of
    where: str = ""  # the file and line it was read from, for messages
    metadata: Mapping[str, str] = field(default_factory=dict)  # other columns, where they are asked for

    @property
    def asked(self) -> str | tuple[str, str] | tuple[Mapping[str, Any], ...]:
        """As `Model.explain` takes it."""
        if self.messages is not None:
            return self.messages
        return self.text if self.pair is None else (self.text, self.pair)


def example_of(row: Mapping[str, Any], *, where: str, number: int) -> Example:
    """An example from a record with the fields id, text, pair, label, rationale, pair_rationale, answer, explain, foil,
    mask_span, messages and question; says what does not fit.
    """
    messages = _messages(row.get("messages"), where)
    text, pair = row.get("text"), row.get("pair")
    if messages is not None:
        if any(row.get(name) is not None for name in ("rationale", "pair_rationale", "answer", "mask_span")):
            raise BadFile(f"{where}: a row with messages has no rationale, answer or mask_span.")
        text, pair = "\n".join(str(message.get("content") or "") for message in messages), None
    if not isinstance(text, str) or (messages is None and not text.strip()):
        fields = ", ".join(map(str, row)) or "none"
        if text is None:
            raise BadFile(f"{where}: there is no text (its fields: {fields}). Name its field: --columns text=NAME.")
        raise BadFile(f"{where}: the text is empty or not a text.")
    if isinstance(pair, list) and pair and all(isinstance(choice, str) and choice.strip() for choice in pair):
        pair = "\n".join(" ".join(choice.split()) for choice in pair)  # choices, one a line
    if pair is not None and (not isinstance(pair, str) or not pair.strip()):
        raise BadFile(f"{where}: the second text is empty or not a text.")
    for name, value in (("text", text), ("second text", pair), ("id", row.get("id")), ("label", row.get("label"))):
        if isinstance(value, str) and has_surrogate(value):
            raise BadFile(f"{where}: the {name} has half of a character in it (a lone surrogate), which is no text.")
    rationale = _marks(row.get("rationale"), text, 0, where, "rationale")
    beside = _marks(row.get("pair_rationale"), pair, 1, where, "rationale of the second text")
    both = None if rationale is None and beside is None else (rationale or ()) + (beside or ())
    identifier = row.get("id")
    return Example(
        id=str(number) if identifier is None or identifier == "" else str(identifier),
        text=text,
        pair=pair,
        label=_label(row.get("label"), where),
        rationale=both,
        answer=_answer(row.get("answer"), pair, where),
        target=_target(row.get("explain"), row.get("foil"), where),
        mask_span=_mask_span(row.get("mask_span"), text, where),
        messages=messages,
        question=bool(row.get("question", False)),
        where=where,
    )


def _messages(value: Any, where: str) -> tuple[Mapping[str, Any], ...] | None:
    """The messages of a chat; what each has to be is checked when the model reads them."""
    if value is None:
        return None
    if not isinstance(value, Sequence) or not value or not all(isinstance(message, Mapping) for message in value):
        raise BadFile(f"{where}: messages must be a list of objects, each with a role and a content.")
    return tuple(value)


def _label(label: Any, where: str) -> str | int | tuple[str, ...] | None:
    if label is None or isinstance(label, str):
        return label or None
    if isinstance(label, bool):
        return int(label)
    if isinstance(label, int | np.integer):
        return int(label)
    if isinstance(label, float | np.floating) and math.isfinite(label):
        # Files have 1.0 for a class. 0.5 is no class's number: an error later on, unless --labels says what it is.
        return int(label) if label == int(label) else f"{label:g}"
    if isinstance(label, Mapping) and not any(
        isinstance(item, float) and not math.isfinite(item) for item in label.values()
    ):
        return tuple(str(name) for name, value in label.items() if value)  # each label with 1 or 0
    if isinstance(label, Sequence) and all(isinstance(item, str | int) for item in label):
        return tuple(map(str, label))
    raise BadFile(f"{where}: the label is {label!r}; it must be a name, a whole number, or a list of names.")


def _target(value: Any, foil: Any, where: str) -> str | int | tuple[str | int, str | int] | None:
    """A label or token by its name or number, and its foil: in a field of its own, or as the second of two."""
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2 and foil is None:
        value, foil = value
    value, foil = (None if name == "" else name for name in (value, foil))  # an empty cell of a table
    named = [_name_of_target(name, where) for name in (value, foil) if name is not None]
    if foil is None:
        return named[0] if named else None
    if len(named) < 2:
        raise BadFile(
            f"{where}: there is a foil, {foil!r}, but nothing to explain, and no label, that it could be a foil of."
        )
    return named[0], named[1]


def _name_of_target(value: Any, where: str) -> str | int:
    if isinstance(value, np.integer | int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and value:
        return value
    raise BadFile(
        f"{where}: what is to be explained, or its foil, is {value!r}; it must be a label or token, by name or number."
    )


def _mask_span(value: Any, text: str, where: str) -> tuple[int, int] | None:
    if value is None or value == "":
        return None
    marks = _marks([value], text, 0, where, "mask_span")
    assert marks is not None
    return marks[0].start, marks[0].end


def _marks(
    entries: Any, text: str | None, segment: int, where: str, what: str, label: str | None = None
) -> tuple[Mark, ...] | None:
    if entries is None:
        return None
    if isinstance(entries, Mapping):  # by label
        parts = [_marks(spans, text, segment, where, what, str(name)) or () for name, spans in entries.items()]
        return tuple(mark for part in parts for mark in part)
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise BadFile(f"{where}: the {what} is {entries!r}; it must be a list of [start, end] character positions.")
    marks = []
    for span in entries:
        if not (
            isinstance(span, Sequence) and len(span) == 2 and all(isinstance(place, int | np.integer) for place in span)
        ):
            raise BadFile(f"{where}: the {what} has {span!r} where [start, end] character positions should be.")
        start, end = int(span[0]), int(span[1])
        if text is None:
            raise BadFile(f"{where}: there is a {what}, but no second text.")
        if not 0 <= start < end <= len(text):
            raise BadFile(
                f"{where}: the {what} has [{start}, {end}], which does not fit a text of {len(text)} characters."
            )
        marks.append(Mark(start, end, segment, label))
    return tuple(marks)


def _answer(value: Any, context: str | None, where: str) -> tuple[Mark, ...] | None:
    """Answers are in the second text: as the words themselves, as spans, or as SQuAD has them."""
    if value is None:
        return None
    if context is None:
        raise BadFile(f"{where}: there is an answer, but no second text that it could be in.")
    if isinstance(value, str):
        start = context.find(value)
        if start < 0 or not value:
            raise BadFile(f"{where}: the answer {value!r} is not in the second text.")
        return (Mark(start, start + len(value), 1),)
    spans = _answer_spans(value, where) if isinstance(value, Mapping) else value
    if isinstance(spans, Sequence) and spans and all(isinstance(span, Mapping) for span in spans):
        spans = [_with_end(span, where) for span in spans]
        for span in spans:
            if {"start", "end"} - span.keys():
                raise BadFile(f"{where}: the answer {dict(span)!r} lacks its start or end.")
            if not all(type(span[name]) is int for name in ("start", "end")):
                raise BadFile(f"{where}: the start and end of the answer {dict(span)!r} must be whole numbers.")
            text = span.get("text")
            if text is not None and context[span["start"] : span["end"]] != text:
                raise BadFile(
                    f"{where}: the answer is {text!r}, but at [{span['start']}, {span['end']}]"
                    f" is {context[span['start'] : span['end']]!r}."
                )
        spans = [[span["start"], span["end"]] for span in spans]
    return _marks(spans, context, 1, where, "answer")


def _answer_spans(answers: Mapping[str, Any], where: str) -> Any:
    """Answers in an object: a list `spans`, or two lists `text` and `answer_start`, as `datasets` has SQuAD."""
    if "spans" in answers:
        return answers["spans"] if answers["spans"] is not None else ()
    texts, starts = answers.get("text"), answers.get("answer_start")
    if isinstance(texts, Sequence) and isinstance(starts, Sequence) and not isinstance(texts, str):
        if len(texts) != len(starts):
            raise BadFile(f"{where}: the answer has {len(texts)} texts and {len(starts)} starts.")
        return [{"answer_start": start, "text": text} for start, text in zip(starts, texts, strict=True)]
    if "answer_start" in answers or {"start", "end"} <= answers.keys():
        return [answers]
    raise BadFile(
        f"{where}: the answer is an object with {', '.join(map(str, answers)) or 'nothing'} in it; it needs"
        " text and answer_start, or spans."
    )


def _with_end(answer: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """An answer by its start and text as one with an end."""
    if "answer_start" not in answer:
        return answer
    start, text = answer["answer_start"], answer.get("text")
    if type(start) is not int or not isinstance(text, str):
        raise BadFile(f"{where}: the answer {dict(answer)!r} needs a text, and a whole number where it starts.")
    return {"start": start, "end": start + len(text), "text": text}
