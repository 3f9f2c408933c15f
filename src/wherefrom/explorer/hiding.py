"""Clicks: what the model answers to a text with some of its words hidden or replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wherefrom.case.asking import PendingAnswers
from wherefrom.case.door import Subject
from wherefrom.core.encoding import Encoding
from wherefrom.core.labels import visible
from wherefrom.core.target import Target, joint_probability
from wherefrom.errors import BadOption, NotSeen, WherefromError
from wherefrom.explorer.answers import CachingAsker
from wherefrom.explorer.limits import Limits, TooMuch
from wherefrom.explorer.questions import HeadsQuestion, HidingQuestion, TextQuestion
from wherefrom.explorer.service import Finish, ModelService, PlainData, Prepare
from wherefrom.explorer.sheet import PageUnits, text_data
from wherefrom.model.network import inputs_of
from wherefrom.model.recording import keep_nothing, recording
from wherefrom.model.text_model import TextModel

SHOWN = 40  # labels with their probabilities, the likeliest first
FOUND = 50  # of the labels that are predicted


def reading(service: ModelService, question: TextQuestion) -> Prepare:
    """A text as the model reads it, and what it predicts."""

    def prepare(asker: CachingAsker) -> Finish:
        query = TargetQuery(service, question, asker)
        units = PageUnits(query.subject.encoding, question.level)

        def finish() -> PlainData:
            logits, targets = query.answer()
            return {"text": text_data(units)} | answer_data(query.subject.model, targets, logits, units.encoding)

        return finish

    return prepare


def hiding(service: ModelService, question: HidingQuestion) -> Prepare:
    """The probability of the target without some of the words, or with others in their place."""

    def prepare(asker: CachingAsker) -> Finish:
        query = TargetQuery(service, question, asker)
        units = PageUnits(query.subject.encoding, question.level)
        changed, tokens = _changed(service, query.subject, units, question)
        keep = np.ones((1, len(changed)), dtype=np.bool_)
        keep[0, tokens] = False
        part = query.asker.note(changed, keep, question.fill)

        def finish() -> PlainData:
            logits, targets = query.answer()
            before = probability(targets, logits)
            if changed is not units.encoding:
                targets = _moved(service, query.subject, targets, part.logits[0], changed)
            return answer_data(query.subject.model, targets, part.logits[0], changed) | {"whole": before}

        return finish

    return prepare


def without_heads(service: ModelService, question: HeadsQuestion) -> Prepare:
    """The probability of the target when some heads add nothing to what their layer writes."""

    def prepare(asker: CachingAsker) -> Finish:
        query = TargetQuery(service, question, asker)
        model, encoding = query.subject.model, query.subject.encoding
        without = logits_without(model, encoding, question.off)

        def finish() -> PlainData:
            logits, targets = query.answer()
            return answer_data(model, targets, without, encoding) | {"whole": probability(targets, logits)}

        return finish

    return prepare


class TargetQuery:
    """The subject of a click, and the pending answer to the whole text. A model that is bound to an output has a
    separate asker, which runs when the answer is read.
    """

    def __init__(self, service: ModelService, question: TextQuestion, shared: CachingAsker) -> None:
        self.service = service
        self.subject = service.subject(question)
        self.asker = shared if self.subject.model is service.model else service.asker(self.subject.model)
        self._pending = _whole(self.asker, self.subject.encoding)

    def answer(self) -> tuple[Tensor, Sequence[Target]]:
        """The logits of the whole text, and the components of the target."""
        self.asker.run()  # the shared one ran already
        logits = self._pending.logits[0]
        return logits, targets_of(self.service, self.subject, logits)


def logits_without(model: TextModel, encoding: Encoding, off: Sequence[tuple[int, int]]) -> Tensor:
    """The logits of a text when these heads' contexts are zero: (layer, head), both from 0."""
    reached = set[tuple[int, int]]()

    def hook(point: str, layer: int, x: Tensor) -> Tensor:
        of_layer = [head for at, head in off if at == layer]
        if point != "context" or not of_layer:
            return x
        heads = x.shape[-3]  # some families fold the batch, which is one text here, and the heads into one dimension
        if max(of_layer) >= heads:
            raise BadOption(f"Layer {layer + 1} has {heads} heads; there is no head {max(of_layer) + 1}.")
        reached.update((layer, head) for head in of_layer)
        kept = torch.ones(heads, dtype=x.dtype, device=x.device)
        kept[of_layer] = 0
        return x * kept[:, None, None]

    blocks = model.network.anatomy.blocks
    with torch.no_grad(), recording([b.module for b in blocks], [b.attention for b in blocks], hook, keep=keep_nothing):
        logits = model.run(inputs_of(model.network, [encoding]), whole=True)
    if reached != set(off):
        raise NotSeen("Some of these heads were not seen in the pass, so they could not be switched off.")
    return logits[0]


def _whole(asker: CachingAsker, encoding: Encoding) -> PendingAnswers:
    return asker.note(encoding, np.ones((1, len(encoding)), dtype=np.bool_), "delete")


def check_places(units: PageUnits, question: HidingQuestion, limits: Limits) -> None:
    """Raise where a question names too many stretches of a text, or some that it does not have."""
    if len(question.hidden) + len(question.replaced) > limits.hidden:
        raise TooMuch(f"At most {limits.hidden:,} words can be hidden or replaced.")
    count = len(units.groups)
    for place in (*question.hidden, *question.replaced):
        if place >= count:
            raise BadOption(f"The text has {count} {question.level}s; there is no number {place + 1}.")


def _changed(
    service: ModelService, subject: Subject, units: PageUnits, question: HidingQuestion
) -> tuple[Encoding, list[int]]:
    """The text with its replacements, and which of its tokens are hidden."""
    check_places(units, question, service.limits)
    if not question.replaced:
        return units.encoding, units.tokens(question.hidden)
    if question.messages is not None:
        raise BadOption("Words of a chat can be hidden, not replaced: change the message instead.")
    texts, spans = units.replaced(question.replaced)
    service.limits.check_text(*texts)
    changed = subject.extended(service.encode(texts[0], texts[1] if len(texts) > 1 else None))
    return changed, changed.tokens_at(span for place in question.hidden if (span := spans[place]) is not None)


def targets_of(service: ModelService, subject: Subject, logits: Tensor) -> Sequence[Target]:
    """The components of the target."""
    with service.model.reading.lock:
        return subject.targets(logits)


def _moved(
    service: ModelService, subject: Subject, targets: Sequence[Target], logits: Tensor, changed: Encoding
) -> Sequence[Target]:
    """The same targets in a text that was changed: an answer may be elsewhere, or missing."""
    if all(target.position is None for target in targets):
        return targets
    with service.model.reading.lock:
        try:
            return replace(subject, target=targets[0].label).targets(logits, changed)
        except WherefromError:
            return replace(subject, target=None).targets(logits, changed)


def probability(targets: Sequence[Target], logits: Tensor) -> float:
    return joint_probability(targets, logits[None]).item()


def answer_data(model: TextModel, targets: Sequence[Target], logits: Tensor, encoding: Encoding) -> dict[str, Any]:
    """What a model answers: the probability of the target, of the prediction, and of all labels, likeliest first."""
    labels = sorted(model.task.probabilities(model, logits, targets[0]).items(), key=lambda row: -row[1])
    predicted = model.task.decided(model, logits, encoding, targets)
    return {
        "target": visible(targets[0].label),
        "probability": probability(targets, logits),
        "prediction": visible(predicted[0].label),
        "predicted": probability(predicted, logits),
        "probabilities": [[visible(label), chance] for label, chance in labels[:SHOWN]],
        "more": max(0, len(labels) - SHOWN),
        "independent": targets[0].independent,
        "found": [visible(label) for label in model.task.predicted_labels(model, logits, encoding)[:FOUND]],
    }
