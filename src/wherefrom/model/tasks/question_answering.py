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
from wherefrom.errors import BadOption, EmptyText, NotDefined, UnknownName, WherefromError
from wherefrom.model.tasks.task import TargetSpec, Task
from wherefrom.registry import Reference, register_task

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel

NO_ANSWER = "no answer"  # what a model says by putting start and end at [CLS], as SQuAD 2.0 has it
LONGEST_ANSWER = 30  # tokens, as question-answering pipelines have it


@dataclass(frozen=True)
class QuestionAnswering(Task):
    name = "question_answering"
    auto = "AutoModelForQuestionAnswering"
    sample_pair = "It is, and it was."

    def check_text(self, _model: TextModel, encoding: Encoding) -> Encoding:
        if encoding.pair is None:
            raise WherefromError(
                "A question-answering model needs a question and a context: explain((question, context)), or --pair."
            )
        if not _context(encoding):
            raise EmptyText("The tokenizer finds nothing to read in the context: it may hold only control characters.")
        return encoding

    def logits(self, output: Any, inputs: dict[str, Tensor], positions: Tensor | None) -> Tensor:
        del positions
        both = torch.stack([output.start_logits, output.end_logits], 1)  # (row, 2, token)
        return both.masked_fill(inputs["attention_mask"][:, None] == 0, -torch.inf)

    def fixed_target(self, model: TextModel, spec: TargetSpec) -> Target | None:
        del model
        if spec is not None and not isinstance(spec, str):
            raise BadOption(
                "The target of a question-answering model is start, end, span, an answer in the context, or"
                f" '{NO_ANSWER}'."
            )
        return None

    def targets(self, model: TextModel, spec: TargetSpec, logits: Tensor, encoding: Encoding) -> Sequence[Target]:
        self.fixed_target(model, spec)
        start, end = _best_answer(model, logits, encoding)
        if spec is None or spec == "span":
            return [start, end]
        if spec == "start":
            return [start]
        if spec == "end":
            return [end]
        return _answer_in_context(model, str(spec), encoding)

    def restored(
        self, model: TextModel, label: str, saved: Sequence[SavedTarget], logits: Tensor, encoding: Encoding
    ) -> Sequence[Target]:
        if any(target.boundary is None or not 0 <= target.index < len(encoding) for target in saved):
            raise BadOption(f"The explanation is of {label!r}, but this model has no such target.")
        boundaries = [Boundary(target.index, label, end=target.boundary == "end") for target in saved]
        return boundaries or self.targets(model, label, logits, encoding)

    def predicted(self, model: TextModel, logits: Tensor, encoding: Encoding) -> Target:
        return _best_answer(model, logits, encoding)[0]

    def others(self, model: TextModel, target: Target) -> Sequence[Target]:
        raise NotDefined("an answer's places are not classes to compare with")

    def answer(self, model: TextModel, logits: Tensor, encoding: Encoding) -> Sequence[Span] | None:
        start, end = _best_answer(model, logits, encoding)
        if encoding.special[start.index]:
            return []
        return [(encoding.offsets[start.index][0], encoding.offsets[end.index][1])]

    def offers(self, model: TextModel) -> frozenset[Reference]:
        del model
        return frozenset({"answer"})


def _best_answer(model: TextModel, logits: Tensor, encoding: Encoding) -> tuple[Boundary, Boundary]:
    """The best answer in the context: the end not before the start, and not too far after it. None, where [CLS] is
    likelier as start and end than the best answer is: that is how SQuAD 2.0's models say that there is none.
    """
    context = _context(encoding)
    start, end = logits[:, : len(encoding)].double().log_softmax(-1)
    pairs = ((i, j) for place, i in enumerate(context) for j in context[place : place + LONGEST_ANSWER])
    best = max(pairs, key=lambda pair: float(start[pair[0]] + end[pair[1]]))
    none = _place_of_none(model, encoding)
    if none is not None and float(start[none] + end[none]) > float(start[best[0]] + end[best[1]]):
        return Boundary(none, NO_ANSWER), Boundary(none, NO_ANSWER, end=True)
    return _boundaries(encoding, *best)


def _place_of_none(model: TextModel, encoding: Encoding) -> int | None:
    """The position of [CLS]; None where the tokenizer has no such token, so that the model cannot say that there is no
    answer.
    """
    token = model.reading.tokenizer.cls_token_id
    return encoding.input_ids.index(token) if token in encoding.input_ids else None


def _answer_in_context(model: TextModel, answer: str, encoding: Encoding) -> Sequence[Target]:
    none = _place_of_none(model, encoding)
    if answer == NO_ANSWER and answer not in (encoding.pair or "") and none is not None:
        return Boundary(none, NO_ANSWER), Boundary(none, NO_ANSWER, end=True)
    start = (encoding.pair or "").find(answer)
    offsets = encoding.offsets
    inside = [i for i in _context(encoding) if start <= offsets[i][0] and offsets[i][1] <= start + len(answer)]
    if start < 0 or not inside:
        raise UnknownName(f"The answer {answer!r} is not in the context that the model read.")
    return _boundaries(encoding, inside[0], inside[-1])


def _context(encoding: Encoding) -> list[int]:
    return [i for i, part in enumerate(encoding.segment) if part == 1]


def _boundaries(encoding: Encoding, first: int, last: int) -> tuple[Boundary, Boundary]:
    answer = (encoding.pair or "")[encoding.offsets[first][0] : encoding.offsets[last][1]].strip()
    return Boundary(first, answer), Boundary(last, answer, end=True)


register_task(QuestionAnswering())
