"""Predictions for texts, or for what is left of them when some words are hidden, in full batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from wherefrom.case.asking import Asker, PendingAnswers
from wherefrom.case.door import Subject, subject_of
from wherefrom.core.encoding import Encoding
from wherefrom.core.prediction import Prediction, Without, spans_without
from wherefrom.core.target import joint_probability, written_value
from wherefrom.errors import BadOption
from wherefrom.model.tasks import TargetSpec
from wherefrom.model.text_model import TextModel

Spans = tuple[tuple[int, int, int], ...]  # start, end and segment


def predict_texts(
    model: TextModel, encodings: Sequence[Encoding], target: TargetSpec, without: Sequence[Without], fill: str
) -> list[Prediction]:
    """One prediction for each text. Of several texts, each is read without those of the words that it has."""
    hidden = hidden_spans(encodings, without)
    shared, pending = Asker(model), list[tuple[Subject, Asker, PendingAnswers]]()
    with torch.inference_mode(False), torch.no_grad():
        for encoding, spans in zip(encodings, hidden, strict=True):
            subject = subject_of(model, encoding, target)
            asker = shared if subject.model is model else Asker(subject.model)
            keep = np.ones((2, len(subject.encoding)), dtype=np.bool_)  # the whole text, and what is left of it
            keep[1, subject.encoding.tokens_at(spans)] = False
            pending.append((subject, asker, asker.note(subject.encoding, keep, fill)))
        for asker in {id(asker): asker for _, asker, _ in pending}.values():
            asker.run()
        return [
            _prediction(subject, answers, spans, fill)
            for (subject, _, answers), spans in zip(pending, hidden, strict=True)
        ]


def hidden_spans(encodings: Sequence[Encoding], without: Sequence[Without]) -> list[Spans]:
    """The characters that are hidden in each text. Raises on a word that no text has."""
    occurrences = [spans_without(encoding, without) for encoding in encodings]
    for place, entry in enumerate(without):
        if encodings and not any(spans[place] for spans in occurrences):
            where = "the text" if len(encodings) == 1 else "any of the texts"
            raise BadOption(f"{entry!r} is not in {where} as a word or phrase, so it cannot be hidden.")
    return [tuple(sorted({span for part in spans.values() for span in part})) for spans in occurrences]


def _prediction(subject: Subject, answers: PendingAnswers, hidden: Spans, fill: str) -> Prediction:
    model, encoding = subject.model, subject.encoding
    whole, rest = answers.logits
    targets = subject.targets(whole)
    probability = joint_probability(targets, rest[None]).item()
    predicted = model.task.decided(model, rest, encoding, targets)[0]
    return Prediction(
        text=encoding.text,
        prediction=written_value(probability) if targets[0].regression else predicted.label,
        target=targets[0].label,
        probability=probability,
        probabilities=model.task.probabilities(model, rest, targets[0]),
        pair=encoding.pair,
        hidden=hidden,
        fill=fill,
    )
