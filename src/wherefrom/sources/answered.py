"""A question with its passages as the caller gives it, and as the model reads it with its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from wherefrom.core.sources import Division
from wherefrom.core.units import Span
from wherefrom.errors import BadOption, WrongModel
from wherefrom.model.chat import ChatMessage
from wherefrom.model.generating import generate
from wherefrom.model.reading import continuation_tokens
from wherefrom.model.tasks.continuation import Continuation
from wherefrom.model.tasks.next_token import NextToken
from wherefrom.model.text_model import TextModel
from wherefrom.sources.methods import SourceCase
from wherefrom.sources.prompts import BuiltPrompt, Context, Prompt, prompt_of
from wherefrom.sources.removals import Removals

ANSWER_TOKENS = 64  # are generated at most


@dataclass(frozen=True)
class PassageQuestion:
    """What a caller asks about: see `Model.sources`."""

    question: str | Sequence[ChatMessage] | None
    context: Context | None = None
    answer: str | None = None
    prompt: str | None = None
    context_spans: Sequence[Span] | None = None
    by: Division = "sentence"
    tokens: int = ANSWER_TOKENS

    def read(self, model: TextModel) -> AnsweredPrompt:
        """The prompt with all passages, and the answer to it: the given one, or what the model generates."""
        if not isinstance(model.task, NextToken) or isinstance(model.task, Continuation):
            raise WrongModel(
                f"Only a causal language model answers from passages; this one was made for {model.task.name}."
            )
        built, notes = prompt_of(model, self.question, self.context, self.prompt, self.context_spans, self.by)
        whole = built.build(model, [True] * len(built.sources))
        _check_length(model, built, whole, 1)
        answer = self.answer
        read = _generated_answer(model, whole, self.tokens) if answer is None else _given_answer(model, whole, answer)
        _check_length(model, built, whole, len(read.tokens))
        return AnsweredPrompt(_question_text(self.question), self.by, built, whole, read, answer is None, notes)


@dataclass(frozen=True)
class Answer:
    """An answer as tokens, and where each is in its text."""

    text: str
    tokens: tuple[int, ...]
    offsets: tuple[Span, ...]

    def tokens_of(self, span: Span) -> range:
        """The tokens of a statement: all that share a character with it."""
        places = [place for place, (start, end) in enumerate(self.offsets) if start < span[1] and span[0] < end]
        if not places:
            raise BadOption(f"No token of the answer belongs to its characters {span[0]} to {span[1]}.")
        return range(places[0], places[-1] + 1)


@dataclass(frozen=True)
class AnsweredPrompt:
    """A prompt with all its passages, and the answer to it."""

    question: str
    by: Division
    prompt: Prompt
    whole: BuiltPrompt
    answer: Answer
    generated: bool  # whether the model wrote the answer itself
    notes: tuple[str, ...]

    def case(self, model: TextModel, spans: Sequence[Span]) -> SourceCase:
        """What methods are given about these statements of the answer."""
        removals = Removals(model, self.prompt, self.answer.tokens, self.whole)
        return SourceCase(removals, tuple(self.answer.tokens_of(span) for span in spans))


def _check_length(model: TextModel, prompt: Prompt, whole: BuiltPrompt, answer: int) -> None:
    """Nothing is cut silently: raise where prompt and answer are more than the model reads, and name what is lost."""
    limit, encoding = model.reading.limit, whole.encoding
    length = len(encoding) + encoding.cut + answer
    if limit is None or length <= limit:
        return
    room = limit - (length - len(encoding) - encoding.cut)
    ends = [end for _, end in encoding.offsets[: max(room, 0)]]
    reached = max(ends, default=0)
    lost = [number for number, (_, end) in whole.spans.items() if end > reached] or [len(prompt.sources) - 1]
    first = prompt.sources[lost[0]]
    place = f"{prompt.documents[first.document].name}, part {first.number + 1}"
    raise BadOption(
        f"Prompt and answer have {length} tokens; the model reads {limit}. {len(lost)} of {len(prompt.sources)} sources"
        f" would be cut, from {place} on: give fewer or shorter passages."
    )


def _given_answer(model: TextModel, whole: BuiltPrompt, answer: str) -> Answer:
    if not isinstance(answer, str) or not answer.strip():
        raise BadOption("The answer is no text, or empty: give some text, or leave it out for what the model answers.")
    model.reading.check(answer)
    tokens, offsets = continuation_tokens(model.reading, whole.encoding, answer)
    return Answer(answer, tokens, offsets)


def _generated_answer(model: TextModel, whole: BuiltPrompt, most: int) -> Answer:
    tokens = generate(model, whole.encoding, most, may_end=True)
    if not tokens:
        raise BadOption("The model ends at once, without an answer: give one with answer=, or change the question.")
    ends = list(accumulate((len(model.reading.decode(tokens[:count])) for count in range(len(tokens) + 1)), max))
    return Answer(model.reading.decode(tokens), tokens, tuple(pairwise(ends)))


def _question_text(question: str | Sequence[ChatMessage] | None) -> str:
    if question is None or isinstance(question, str):
        return (question or "").strip()
    return str(question[-1]["content"]).strip()
