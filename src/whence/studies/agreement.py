"""Subject-verb agreement (Linzen et al. 2016): the verb is masked; singular or plural is decided at [MASK], and explained from there.

A recipe for data of one sentence a line: text, the right form of its verb (label), the wrong one (foil), where the verb stands (verb_span).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from whence.core.case import Case
from whence.errors import BadFile, WhenceError
from whence.studies.decomposition import scores_of


@dataclass(frozen=True)
class Sentence:
    text: str
    right: str
    wrong: str
    start: int
    end: int
    attractors: int = 0  # nouns of the other number between subject and verb

    def masked(self, mask: str) -> str:
        """The sentence with its verb hidden."""
        return self.text[: self.start] + mask + self.text[self.end :]


def sentences(path: str | os.PathLike[str]) -> Iterator[Sentence]:
    """The sentences of a file of JSON lines."""
    with Path(path).open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
                start, end = row["verb_span"]
                sentence = Sentence(row["text"], row["label"], row["foil"], start, end, row.get("n_attractors", 0))
            except (ValueError, KeyError, TypeError) as error:
                raise BadFile(f"{path}, line {number}, is no sentence with text, label, foil and verb_span: {error!r}.") from error
            if sentence.text[start:end] != sentence.right:
                raise BadFile(f"{path}, line {number}: the verb {sentence.right!r} does not stand at {start}-{end}.")
            yield sentence


def place_of_mask(case: Case) -> int:
    """Where the case's one [MASK] stands."""
    mask = case.model.filler("mask")
    places = [place for place, token in enumerate(case.encoding.input_ids) if token == mask]
    if len(places) != 1:
        raise WhenceError(
            f"A sentence of this task has one {case.model.tokenizer.mask_token}, where its verb was; this one has {len(places)}."
        )
    return places[0]


def scores_at_mask(case: Case, method: str = "alti", **options: object) -> Tensor:
    """R_[MASK], or whatever the method gives; [MASK] itself scores minus infinity, so that no metric removes it. (token,)

    The case must read its decision at [MASK]: that of a masked language model does.
    """
    place = place_of_mask(case)
    if case.model.row_read(case.encoding)[place] != 1:
        raise WhenceError("This model does not decide at [MASK]: give a case of a masked language model.")
    scores = scores_of(case, method, **options).clone()
    scores[place] = -torch.inf
    return scores
