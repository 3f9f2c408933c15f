"""The same method elsewhere: what it says by other models, and of slightly edited texts. Metrics that compare with it
take it from the evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from wherefrom.core.comparison import Comparison, Grade
from wherefrom.core.edits import EDITS, EditedText, TextUnits, same_units
from wherefrom.core.encoding import Encoding
from wherefrom.core.explanation import Explanation
from wherefrom.errors import WherefromError
from wherefrom.grading.evidence import Evidence
from wherefrom.model.text_model import TextModel

Elsewhere = Comparison | str  # what another model explains of one text; or why it explains nothing


class EditedReading(NamedTuple):
    """One text after a small edit, and what is explained of it."""

    name: str  # of the edit
    edits: list[EditedText]  # of the text and of its pair
    result: Elsewhere


class EditedReadings(NamedTuple):
    """One text after every small edit that changes what the model reads."""

    readings: list[EditedReading]
    why: str  # there are none


def compared_with(evidence: Evidence, explanation: Explanation, name: str, elsewhere: Elsewhere) -> Evidence:
    """The evidence with the scores that another model gives, or why there are none."""
    other, why = _second(explanation, name, elsewhere)
    scores = None if other is None else np.asarray(other.scores)
    return replace(evidence, second=scores, missing={**evidence.missing, "second": why})


def _second(explanation: Explanation, name: str, elsewhere: Elsewhere) -> tuple[Explanation | None, str]:
    if isinstance(elsewhere, str) or name in elsewhere.failed:
        why = elsewhere if isinstance(elsewhere, str) else elsewhere.failed[name]
        return None, f"the other model could not explain this text: {why}"
    other = elsewhere.explanations[elsewhere.names.index(name)]
    if other.target != explanation.target:
        return None, f"the models decide differently: {explanation.target} and {other.target}"
    if other.tokens != explanation.tokens:
        return None, f"the models cut the text into different {explanation.level}s; compare them by word"
    return other, ""


def edits_of(model: TextModel, encoding: Encoding) -> Iterator[tuple[str, list[EditedText], Encoding]]:
    """Every small edit of a text, and of its pair at the same time, that changes what the model reads."""
    if encoding.spans or encoding.turns:
        return
    texts = [encoding.text] if encoding.pair is None else [encoding.text, encoding.pair]
    for name, edit in EDITS.items():
        edits = [edit(text) for text in texts]
        if [edited.text for edited in edits] == texts:
            continue
        with suppress(WherefromError):  # a text that is not read any more, such as one that was nothing but a comma
            again = model.encode(*(edited.text for edited in edits))
            if again.input_ids != encoding.input_ids:
                yield name, edits, again


def why_not_edited(encoding: Encoding) -> str:
    if encoding.spans:
        return "units of your own have no place in an edited text"
    if encoding.turns:
        return "an edit of a chat would change its template, too"
    return "no small edit (case, punctuation, white space, order of a list) changes what the model reads"


def with_edited(evidence: Evidence, explanation: Explanation, name: str, edited: EditedReadings) -> Evidence:
    """The evidence with the scores of the same units in edited texts, or why there are none."""
    names, rows, whys = list[str](), list[list[float]](), dict[str, None]()
    if edited.why:
        whys[edited.why] = None
    before = TextUnits(explanation.offsets, explanation.segment)
    for reading in edited.readings:
        if isinstance(reading.result, str) or name in reading.result.failed:
            why = reading.result if isinstance(reading.result, str) else reading.result.failed[name]
            whys[f"the edited text could not be explained: {why}"] = None
            continue
        other = reading.result.explanations[reading.result.names.index(name)]
        if other.target != explanation.target or (other.value is None and other.prediction != explanation.prediction):
            whys["the model decides otherwise about every edited text"] = None
            continue
        places = same_units(before, TextUnits(other.offsets, other.segment), reading.edits)
        names.append(reading.name)
        rows.append([np.nan if place is None else other.scores[place] for place in places])
    if rows:
        return replace(evidence, edited=np.asarray(rows, dtype=np.float64), edits=tuple(names))
    return replace(evidence, missing={**evidence.missing, "edited": "; ".join(whys)})


def mean_over_pairs(grades: Sequence[Grade]) -> Grade:
    """One grade of an explanation from those by every other model: the mean of those that are defined, and in the
    details how many these are.
    """
    known = [grade for grade in grades if grade.value is not None]
    if not known:
        return replace(grades[0], why="; ".join(dict.fromkeys(grade.why for grade in grades)))
    values = [float(grade.value) for grade in known if grade.value is not None]
    details = {**known[0].details, "pairs": len(known)} if len(grades) == 1 else {"pairs": len(known), "values": values}
    return replace(known[0], value=sum(values) / len(values), details=details)
