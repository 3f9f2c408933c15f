"""Optimus Batch: the combination that is best over many texts, found once and then as fast as raw attention."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Protocol

import numpy as np
import torch

from wherefrom.case.case import Case, make_cases, together
from wherefrom.core.arrays import Numbers
from wherefrom.core.units import Level
from wherefrom.errors import BadOption, EmptyText
from wherefrom.model.fingerprint import fingerprint
from wherefrom.model.text_model import TextModel
from wherefrom.optimus.combination import Combination, Fitted
from wherefrom.optimus.search import Choice, Fallback, ask_together, chosen, faithfulness, search

Text = str | tuple[str, str]


class Loaded(Protocol):
    """What `wherefrom.load` gives."""

    text_model: TextModel


def fit(
    model: Loaded,
    texts: Sequence[Text],
    *,
    raw: Choice = "A",
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
    encodings = [reader.encode(*((text,) if isinstance(text, str) else text)) for text in texts]
    grader = faithfulness(metric)
    totals: list[Numbers] = []
    with torch.inference_mode(False):
        for cases in make_cases(reader, encodings, [None] * len(encodings), level=level):
            _ = next(iter(cases.values())).attention(scores=raw != "A")  # first: this pass also says what is predicted
            ask_together(list(cases.values()), grader)
            for case in cases.values():
                layers = case.attention(scores=raw != "A")
                parts = [case.toward(target) for target in reader.task.aims(reader, None, case.logits, case.encoding)]
                with together(parts):
                    found = search(parts[0], "prime", raw, grader)
                totals.append(found.scores)
    scores = np.mean(totals, 0)
    best = chosen(scores, grader, fallback)
    return Fitted(
        combination=found.combinations[best],
        score=float(scores[best]),
        baseline=float(scores[0]),
        metric=metric,
        level=level,
        layers=len(layers),
        heads=len(layers[0]),
        texts=len(texts),
        model=reader.name,
        fingerprint=fingerprint(reader.network),
    )


def combination_of(given: object, case: Case) -> tuple[Combination, tuple[str, ...]]:
    """The combination that a file, a fit or a combination stands for, checked against the model; and what to know of
    it.
    """
    if isinstance(given, str):
        given = Combination.read(given) or given
    if isinstance(given, Combination):
        return given, ()
    if isinstance(given, str | PathLike):
        given = Fitted.load(given)
    if not isinstance(given, Fitted):
        raise BadOption(
            "combination is a file written by 'wherefrom optimus', a Fitted or"
            f" a Combination, not {type(given).__name__}."
        )
    layers = case.attention(scores=False)
    if (given.layers, given.heads) != (len(layers), len(layers[0])):
        raise BadOption(
            f"The combination was fitted on a model of {given.layers} layers with"
            f" {given.heads} heads ({given.model}); this one has"
            f" {len(layers)} with {len(layers[0])}. Fit one for this model with 'wherefrom optimus'."
        )
    notes = [
        f"Fitted on {given.texts} texts by {given.metric}: mean {given.score:.4g}, the baseline {given.baseline:.4g}."
    ]
    if given.fingerprint != fingerprint(case.model.network):
        notes.append(
            f"The combination was fitted on other weights ({given.model}) of the same shape; it may not suit these."
        )
    if given.level != case.level:
        notes.append(f"The combination was fitted by {given.level}, and is used by {case.level}.")
    return given.combination, tuple(notes)
