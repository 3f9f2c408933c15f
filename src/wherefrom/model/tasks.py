"""What a model was made to do: which head it has, what can be asked of it, and where in the text its answer is read.

Every task turns the model's output into logits (row, class), so that everything above need not know which task it is;
extractive question answering alone has two boundaries to find, (row, 2, token).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wherefrom.core.encoding import Encoding
from wherefrom.core.target import Boundary, Target, resolve_target
from wherefrom.core.units import Span
from wherefrom.errors import BadOption, EmptyText, MissingToken, NotDefined, UnknownName, WherefromError

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel

Asked = str | int | tuple[str | int, str | int] | None
LONGEST_ANSWER = 30  # tokens, as question-answering pipelines have it


@dataclass(frozen=True)
class Classification:
    """Which class, or which labels."""

    name: str = "classification"
    endings: tuple[str, ...] = ("ForSequenceClassification",)
    auto: str = "AutoModelForSequenceClassification"
    sample: str = "Is it so?"  # a text the task can read, for trying a model out

    def checked(self, _model: TextModel, encoding: Encoding) -> Encoding:
        return encoding

    def logits(self, output: Any, inputs: dict[str, Tensor], places: Tensor | None) -> Tensor:
        del inputs, places
        found: Tensor = output.logits
        return found

    def places(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        """The position that each row's answer is read from; None where all are. (row,)"""
        reads, ids = model.anatomy.reads, inputs["input_ids"]
        if reads == "every":
            return None
        if reads == "first":
            return torch.zeros(len(ids), dtype=torch.long, device=ids.device)
        pad = model.network.config.get_text_config().pad_token_id  # decoders take the last token that is not padding
        order = torch.arange(ids.shape[1], device=ids.device)
        return (order * (ids != (-1 if pad is None else pad))).argmax(-1)

    def target(self, model: TextModel, asked: Asked) -> Target:
        if isinstance(asked, tuple):
            one, other = (self.target(model, part) for part in asked)
            return replace(one, label=f"{one.label} rather than {other.label}", versus=other.index)
        assert asked is not None
        return resolve_target(asked, model.labels, independent=model.independent)

    def predicted(self, model: TextModel, logits: Tensor, _encoding: Encoding) -> Target:
        return self.target(model, int(logits.argmax()))

    @property
    def depends_on_text(self) -> bool:
        """Whether what can be explained depends on the text, and comes in several parts (see `Answer.aims`)."""
        return False

    def aims(self, model: TextModel, asked: Asked, logits: Tensor, encoding: Encoding) -> Sequence[Target]:
        """What is explained part by part and added up."""
        return [self.predicted(model, logits, encoding) if asked is None else self.target(model, asked)]

    def others(self, model: TextModel, target: Target) -> Sequence[Target]:
        """Every other class, for comparing the explanations of classes. Where there is none, an error says why."""
        if target.versus is not None:
            raise NotDefined("a difference of two classes has no other class to compare with")
        if len(model.labels) < 2:
            raise NotDefined("the model has only one class")
        return [self.target(model, i) for i in range(len(model.labels)) if i != target.index]

    def answer(self, model: TextModel, logits: Tensor, encoding: Encoding) -> Sequence[Span] | None:
        """Where in the second text the predicted answer stands; None for tasks that have none."""
        del model, logits, encoding
        return None

    def probabilities(self, model: TextModel, logits: Tensor) -> dict[str, float]:
        """Of every class, for the views. (class,)"""
        chances = logits.double().sigmoid() if model.independent else logits.double().softmax(-1)
        return dict(zip(model.labels, chances.tolist(), strict=True))


@dataclass(frozen=True)
class NextToken(Classification):
    """Which token comes next."""

    name: str = "causal_lm"
    endings: tuple[str, ...] = ("ForCausalLM", "LMHeadModel")
    auto: str = "AutoModelForCausalLM"

    def logits(self, output: Any, inputs: dict[str, Tensor], places: Tensor | None) -> Tensor:
        rows = torch.arange(len(inputs["input_ids"]), device=output.logits.device)
        found: Tensor = output.logits[rows, places]
        return found

    def places(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        del model
        return inputs["attention_mask"].sum(-1) - 1

    def target(self, model: TextModel, asked: Asked) -> Target:
        if isinstance(asked, tuple):
            return super().target(model, asked)
        if isinstance(asked, int):
            if not 0 <= asked < len(model.tokenizer):
                raise UnknownName(f"There is no token {asked}: the vocabulary has {len(model.tokenizer)}.")
            return Target(asked, _shown(model, asked))
        return Target(_token(model, str(asked)), str(asked))

    def others(self, model: TextModel, target: Target) -> Sequence[Target]:
        raise NotDefined("a language model's tokens are too many to compare with each")

    def probabilities(self, model: TextModel, logits: Tensor) -> dict[str, float]:
        likely = logits.double().softmax(-1).topk(5)
        return {
            _shown(model, token): chance
            for chance, token in zip(likely.values.tolist(), likely.indices.tolist(), strict=True)
        }


@dataclass(frozen=True)
class MaskedToken(NextToken):
    """Which token stands at the mask."""

    name: str = "masked_lm"
    sample: str = "Is {mask} so?"
    endings: tuple[str, ...] = ("ForMaskedLM",)
    auto: str = "AutoModelForMaskedLM"

    def checked(self, model: TextModel, encoding: Encoding) -> Encoding:
        """The mask is the question: like a special token, it is never hidden, ranked or removed."""
        mask = model.tokenizer.mask_token
        if mask is None:
            raise MissingToken("The tokenizer has no mask token, so a masked language model cannot be asked.")
        masks = [i for i, token in enumerate(encoding.input_ids) if token == model.tokenizer.mask_token_id]
        if len(masks) != 1:
            raise WherefromError(
                f"A masked language model is asked with exactly one {mask} in the text; this one has {len(masks)}."
            )
        segment = tuple(-1 if i == masks[0] else part for i, part in enumerate(encoding.segment))
        if all(part < 0 for part in segment):
            raise EmptyText(
                f"There is nothing beside {mask} in the text, so nothing that could explain what stands there."
            )
        return replace(encoding, segment=segment)

    def places(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        masked = inputs["input_ids"].eq(model.tokenizer.mask_token_id)
        return masked.int().argmax(-1)


@dataclass(frozen=True)
class Answer(Classification):
    """Where in the second text the answer to the first begins and ends."""

    name: str = "question_answering"
    endings: tuple[str, ...] = ("ForQuestionAnswering",)
    auto: str = "AutoModelForQuestionAnswering"

    def checked(self, _model: TextModel, encoding: Encoding) -> Encoding:
        if encoding.pair is None:
            raise WherefromError(
                "A question-answering model needs a question and a context: explain((question, context)), or --pair."
            )
        return encoding

    def logits(self, output: Any, inputs: dict[str, Tensor], places: Tensor | None) -> Tensor:
        del places
        both = torch.stack([output.start_logits, output.end_logits], 1)  # (row, 2, token)
        return both.masked_fill(inputs["attention_mask"][:, None] == 0, -torch.inf)

    def places(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        del model, inputs
        return None

    @property
    def depends_on_text(self) -> bool:
        return True

    def probabilities(self, model: TextModel, logits: Tensor) -> dict[str, float]:
        del model, logits
        return {}

    def predicted(self, model: TextModel, logits: Tensor, encoding: Encoding) -> Target:
        return self._boundaries(model, logits, encoding)[0]

    def aims(self, model: TextModel, asked: Asked, logits: Tensor, encoding: Encoding) -> Sequence[Target]:
        if asked is None or asked in ("span", "start", "end"):
            start, end = self._boundaries(model, logits, encoding)
            return {"start": [start], "end": [end]}.get(str(asked), [start, end])
        if not isinstance(asked, str):
            raise BadOption(
                "The target of a question-answering model is start, end, span, or an answer that stands in the context."
            )
        assert encoding.pair is not None
        found = encoding.pair.find(asked)
        inside = [
            i
            for i in _context(encoding)
            if found <= encoding.offsets[i][0] and encoding.offsets[i][1] <= found + len(asked)
        ]
        if found < 0 or not inside:
            raise UnknownName(f"The answer {asked!r} does not stand in the context that the model read.")
        return _span(encoding, inside[0], inside[-1])

    def others(self, model: TextModel, target: Target) -> Sequence[Target]:
        raise NotDefined("an answer's places are not classes to compare with")

    def answer(self, model: TextModel, logits: Tensor, encoding: Encoding) -> Sequence[Span] | None:
        start, end = self._boundaries(model, logits, encoding)
        return [(encoding.offsets[start.index][0], encoding.offsets[end.index][1])]

    def _boundaries(self, model: TextModel, logits: Tensor, encoding: Encoding) -> tuple[Boundary, Boundary]:
        """The best answer in the context: the end not before the start, and not too far behind it."""
        del model
        context = _context(encoding)
        start, end = logits[:, : len(encoding)].double().log_softmax(-1)
        pairs = ((i, j) for place, i in enumerate(context) for j in context[place : place + LONGEST_ANSWER])
        return _span(encoding, *max(pairs, key=lambda pair: float(start[pair[0]] + end[pair[1]])))


def _context(encoding: Encoding) -> list[int]:
    return [i for i, part in enumerate(encoding.segment) if part == 1]


def _span(encoding: Encoding, first: int, last: int) -> tuple[Boundary, Boundary]:
    answer = (encoding.pair or "")[encoding.offsets[first][0] : encoding.offsets[last][1]].strip()
    return Boundary(first, answer), Boundary(last, answer, end=True)


def _token(model: TextModel, word: str) -> int:
    """A word as one token of the vocabulary, as it stands after a space if the vocabulary tells the difference."""
    for text in (f" {word.strip()}", word):
        ids = model.tokenizer(text, add_special_tokens=False)["input_ids"]
        if len(ids) == 1 and ids[0] != model.tokenizer.unk_token_id:
            return int(ids[0])
    if word in model.tokenizer.get_vocab():
        return int(model.tokenizer.get_vocab()[word])
    raise UnknownName(f"{word!r} is not one token of this model's vocabulary; only single tokens can be explained.")


def _shown(model: TextModel, token: int) -> str:
    return str(model.tokenizer.decode([token])).strip() or str(model.tokenizer.convert_ids_to_tokens(token))


Task = Classification
TASKS: dict[str, Task] = {task.name: task for task in (Classification(), Answer(), MaskedToken(), NextToken())}
