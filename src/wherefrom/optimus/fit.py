"""Optimus Batch: the combination that is best over many texts, found once and then as fast as raw attention."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Protocol

import numpy as np

from wherefrom.case.case import Case
from wherefrom.case.door import read_input
from wherefrom.case.explain import by_batches, cases_of
from wherefrom.case.passes import Passes
from wherefrom.core.arrays import Numbers
from wherefrom.core.encoding import ModelInput
from wherefrom.core.units import Level
from wherefrom.errors import BadOption, EmptyText
from wherefrom.model.fingerprint import fingerprint, known_fingerprint
from wherefrom.model.text_model import TextModel
from wherefrom.optimus.combination import Combination, Fitted
from wherefrom.optimus.search import Fallback, RawChoice, Search, ask_together, chosen, faithfulness, search


class Loaded(Protocol):
    """What `wherefrom.load` gives."""

    text_model: TextModel


def fit(
    model: Loaded,
    texts: Sequence[ModelInput],
    *,
    raw: RawChoice = "A",
    metric: str = "rft",
    level: Level = "token",
    fallback: Fallback = "maximum",
) -> Fitted:
    """The combination with the best mean score over these texts, each explained for what the model predicts.

    Never fit on the texts that it is tried on afterwards. Nothing is learned from labels: only texts are needed.
    """
    if isinstance(texts, str) or not texts:
        raise EmptyText(
            "A combination is fitted on texts: give a list of at least one, and not those that it is tried on."
        )
    reader = model.text_model
    encodings = [read_input(reader, text, level) for text in texts]
    grader = faithfulness(metric)

    def work(places: Sequence[int]) -> dict[int, tuple[Search, tuple[int, int]]]:
        passes = Passes(reader, [encodings[place] for place in places])
        passes.announce({"answers", "head_attention" if raw == "A" else "scores"})
        cases = {
            place: components[0] for place, components in cases_of(passes, places, [None] * len(places), level).items()
        }
        ask_together(list(cases.values()), grader)
        shape = {place: case.attention(scores=raw != "A") for place, case in cases.items()}
        return {
            place: (search(case, "prime", raw, grader), (len(shape[place]), len(shape[place][0])))
            for place, case in cases.items()
        }

    searched = by_batches(reader, encodings, work)
    first, (layers, heads) = searched[0]
    totals: list[Numbers] = [searched[place][0].scores for place in range(len(encodings))]
    scores = np.mean(totals, 0)
    best = chosen(scores, grader, fallback)
    return Fitted(
        combination=first.combinations[best],
        score=float(scores[best]),
        baseline=float(scores[0]),
        metric=metric,
        level=level,
        layers=layers,
        heads=heads,
        texts=len(texts),
        model=reader.name,
        fingerprint=fingerprint(reader),
    )


def combination_of(source: object, case: Case) -> tuple[Combination, tuple[str, ...]]:
    """The combination that a file, a fit or a combination names, checked against the model; and what to know of
    it.
    """
    if isinstance(source, str):
        source = Combination.read(source) or source
    if isinstance(source, Combination):
        return source, ()
    if isinstance(source, str | PathLike):
        source = Fitted.load(source)
    if not isinstance(source, Fitted):
        raise BadOption(
            "combination is a file written by 'wherefrom optimus', a Fitted or"
            f" a Combination, not {type(source).__name__}."
        )
    layers = case.attention(scores=False)
    if (source.layers, source.heads) != (len(layers), len(layers[0])):
        raise BadOption(
            f"The combination was fitted on a model of {source.layers} layers with"
            f" {source.heads} heads ({source.model}); this one has"
            f" {len(layers)} with {len(layers[0])}. Fit one for this model with 'wherefrom optimus'."
        )
    notes = [
        f"Fitted on {source.texts} texts by {source.metric}: mean {source.score:.4g},"
        f" the baseline {source.baseline:.4g}."
    ]
    if source.fingerprint != known_fingerprint(case.model):
        notes.append(
            f"The combination was fitted on another model ({source.model}) of the same shape; it may not suit this one."
        )
    if source.level != case.level:
        notes.append(f"The combination was fitted by {source.level}, and is used by {case.level}.")
    return source.combination, tuple(notes)
