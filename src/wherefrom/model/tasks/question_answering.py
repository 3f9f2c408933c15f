"""Extractive question answering: where in the second text the answer to the first begins and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wherefrom.core.encoding import Encoding
from wherefrom.core.target import Boundary, SavedTarget, Target
from wherefrom.core.units import Span
from wherefrom.errors import BadOption, NotDefined, UnknownName, WherefromError
from wherefrom.model.tasks.task import TargetSpec
from wherefrom.registry import Reference

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel

LONGEST_ANSWER = 30  # tokens, as question-answering pipelines have it


@dataclass(frozen=True)
class QuestionAnswering:
    name: str = "question_answering"
    endings: tuple[str, ...] = ("ForQuestionAnswering",)
    auto: str = "AutoModelForQuestionAnswering"
    sample: str = "Is it so?"
    has_labels: bool = False
    position_depends_on_family: bool = False
    finds_end_by_padding: bool = False

    def check_text(self, _model: TextModel, encoding: Encoding) -> Encoding:
        if encoding.pair is None:
            raise WherefromError(
                "A question-answering model needs a question and a context: explain((question, context)), or --pair."
            )
        return encoding

    def logits(self, output: Any, inputs: dict[str, Tensor], positions: Tensor | None) -> Tensor:
        del positions
        both = torch.stack([output.start_logits, output.end_logits], 1)  # (row, 2, token)
        return both.masked_fill(inputs["attention_mask"][:, None] == 0, -torch.inf)

    def positions(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        del model, inputs
        return None

    def fixed_target(self, model: TextModel, spec: TargetSpec) -> Target | None:
        del model
        if spec is not None and not isinstance(spec, str):
            raise BadOption(
                "The target of a question-answering model is start, end, span, or an answer that stands in the context."
            )
        return None

    def targets(self, model: TextModel, spec: TargetSpec, logits: Tensor, encoding: Encoding) -> Sequence[Target]:
        self.fixed_target(model, spec)
        start, end = _best_answer(logits, encoding)
        if spec is None or spec == "span":
            return [start, end]
        if spec == "start":
            return [start]
        if spec == "end":
            return [end]
        return _answer_in_context(str(spec), encoding)

    def restored(
        self, model: TextModel, label: str, saved: Sequence[SavedTarget], logits: Tensor, encoding: Encoding
    ) -> Sequence[Target]:
        for index, _, end in saved:
            if end is None or not 0 <= index < len(encoding):
                raise BadOption(f"The explanation is of {label!r}, but this model has no such target.")
        found = [Boundary(index, label, end=bool(end)) for index, _, end in saved]
        return found or self.targets(model, label, logits, encoding)

    def predicted(self, model: TextModel, logits: Tensor, encoding: Encoding) -> Target:
        del model
        return _best_answer(logits, encoding)[0]

    def predicted_labels(self, model: TextModel, logits: Tensor, encoding: Encoding) -> list[str]:
        return [self.predicted(model, logits, encoding).label]

    def others(self, model: TextModel, target: Target) -> Sequence[Target]:
        raise NotDefined("an answer's places are not classes to compare with")

    def answer(self, model: TextModel, logits: Tensor, encoding: Encoding) -> Sequence[Span] | None:
        del model
        start, end = _best_answer(logits, encoding)
        return [(encoding.offsets[start.index][0], encoding.offsets[end.index][1])]

    def probabilities(self, model: TextModel, logits: Tensor) -> dict[str, float]:
        del model, logits
        return {}

    def offers(self, model: TextModel) -> frozenset[Reference]:
        del model
        return frozenset({"answer"})


def _best_answer(logits: Tensor, encoding: Encoding) -> tuple[Boundary, Boundary]:
    """The best answer in the context: the end not before the start, and not too far behind it."""
    context = _context(encoding)
    start, end = logits[:, : len(encoding)].double().log_softmax(-1)
    pairs = ((i, j) for place, i in enumerate(context) for j in context[place : place + LONGEST_ANSWER])
    return _boundaries(encoding, *max(pairs, key=lambda pair: float(start[pair[0]] + end[pair[1]])))


def _answer_in_context(answer: str, encoding: Encoding) -> Sequence[Target]:
    found = (encoding.pair or "").find(answer)
    offsets = encoding.offsets
    inside = [i for i in _context(encoding) if found <= offsets[i][0] and offsets[i][1] <= found + len(answer)]
    if found < 0 or not inside:
        raise UnknownName(f"The answer {answer!r} does not stand in the context that the model read.")
    return _boundaries(encoding, inside[0], inside[-1])


def _context(encoding: Encoding) -> list[int]:
    return [i for i, part in enumerate(encoding.segment) if part == 1]


def _boundaries(encoding: Encoding, first: int, last: int) -> tuple[Boundary, Boundary]:
    answer = (encoding.pair or "")[encoding.offsets[first][0] : encoding.offsets[last][1]].strip()
    return Boundary(first, answer), Boundary(last, answer, end=True)
