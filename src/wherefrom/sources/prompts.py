"""The prompt with its passages, and the same prompt without some of their sentences.

A source is removed by writing the prompt without it and tokenizing again: that is what "without this passage" means to
the person who gave it. A passage of which nothing is left leaves no heading behind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from wherefrom.core.encoding import Encoding
from wherefrom.core.sources import Division, Document, Source
from wherefrom.core.units import Span, sentences
from wherefrom.errors import BadOption, UnknownName
from wherefrom.model.chat import ChatMessage
from wherefrom.model.reading import read_chat
from wherefrom.model.text_model import TextModel

Context = str | Sequence[str] | Mapping[str, str]
DIVISIONS: tuple[Division, ...] = ("sentence", "paragraph", "document")
PARAGRAPH = re.compile(r"\n\s*\n")
PLAIN_NOTE = "There is no chat template, so the model reads a plain prompt that ends with 'Answer:'."


@dataclass(frozen=True)
class Passage:
    """What is left of a document, and where its sources are in that."""

    heading: str
    text: str
    spans: tuple[tuple[int, Span], ...] = ()  # the number of a source, and its characters


@dataclass(frozen=True)
class BuiltPrompt:
    """A prompt as the model reads it, and where the sources that it contains are."""

    encoding: Encoding
    spans: Mapping[int, Span]  # the number of a source -> its characters in the text of the prompt


class PromptForm(Protocol):
    """How passages and a question become a prompt."""

    def build(self, model: TextModel, passages: Sequence[Passage]) -> BuiltPrompt:
        """The prompt with these passages, of which those without text are left out."""


@dataclass(frozen=True)
class ChatForm:
    """Messages of a chat, with the passages before the content of the last one."""

    messages: tuple[ChatMessage, ...]

    def build(self, model: TextModel, passages: Sequence[Passage]) -> BuiltPrompt:
        *before, last = self.messages
        content, spans = _with_question(passages, str(last["content"]))
        encoding = read_chat(model.reading, [*before, {**last, "content": content}])
        start = encoding.turns[-1][1]
        return BuiltPrompt(encoding, {number: (start + a, start + b) for number, (a, b) in spans.items()})


@dataclass(frozen=True)
class PlainForm:
    """A plain text, for models without a chat template."""

    question: str

    def build(self, model: TextModel, passages: Sequence[Passage]) -> BuiltPrompt:
        content, spans = _with_question(passages, f"{self.question}\nAnswer:")
        return BuiltPrompt(model.encode(content), spans)


@dataclass(frozen=True)
class GivenForm:
    """The caller's own prompt. What is outside of the passages stays as it is."""

    text: str
    places: tuple[Span, ...]  # of the passages, in order

    def build(self, model: TextModel, passages: Sequence[Passage]) -> BuiltPrompt:
        written, spans = "", dict[int, Span]()
        edges = [0, *(end for _, end in self.places)]
        for before, (start, _), passage in zip(edges, self.places, passages, strict=False):
            written += self.text[before:start]
            spans |= {number: (len(written) + a, len(written) + b) for number, (a, b) in passage.spans}
            written += passage.text
        return BuiltPrompt(model.encode(written + self.text[edges[-1] :]), spans)


@dataclass(frozen=True)
class Prompt:
    """Passages, what they are divided into, and the form in which the model reads them."""

    form: PromptForm
    documents: tuple[Document, ...]
    sources: tuple[Source, ...]
    named: bool = False  # whether the names of the documents are written above them

    def build(self, model: TextModel, kept: Sequence[bool]) -> BuiltPrompt:
        """The prompt with these sources alone. kept: one entry for each source."""
        return self.form.build(model, [self._passage(number, kept) for number in range(len(self.documents))])

    def build_unrelated(self, model: TextModel, text: str) -> BuiltPrompt:
        """The prompt with another text in place of all passages."""
        rest = [Passage("", "")] * (len(self.documents) - 1)
        return self.form.build(model, [Passage("", text), *rest])

    def _passage(self, document: int, kept: Sequence[bool]) -> Passage:
        own = [(number, source) for number, source in enumerate(self.sources) if source.document == document]
        text, ends = self.documents[document].text, [source.start for _, source in own[1:]]
        written, spans = "", list[tuple[int, Span]]()
        for (number, source), end in zip(own, [*ends, len(text)], strict=True):
            if kept[number]:
                spans.append((number, (len(written), len(written) + source.end - source.start)))
                written += text[source.start : end]  # with the space after it
        heading = f"{self.documents[document].name}\n" if self.named else ""
        return Passage(heading, written.rstrip(), tuple(spans))


def prompt_of(
    model: TextModel,
    question: str | Sequence[ChatMessage] | None,
    context: Context | None,
    prompt: str | None,
    context_spans: Sequence[Span] | None,
    by: Division,
) -> tuple[Prompt, tuple[str, ...]]:
    """What the caller gave as a prompt, and what a reader has to know about it. Raises on what cannot be used."""
    if by not in DIVISIONS:
        raise UnknownName.among("division", str(by), DIVISIONS)
    if prompt is not None or context_spans is not None:
        if question is not None or context is not None or prompt is None or context_spans is None:
            raise BadOption("Give a question and its context, or prompt= and context_spans=, not parts of both.")
        return _given_prompt(prompt, context_spans, by), ()
    documents, named = documents_of(context)
    sources = divided(documents, by)
    if isinstance(question, str):
        if not question.strip():
            raise BadOption("The question is empty.")
        if not getattr(model.reading.tokenizer, "chat_template", None):
            return Prompt(PlainForm(question.strip()), documents, sources, named), (PLAIN_NOTE,)
        form: PromptForm = ChatForm(({"role": "user", "content": question.strip()},))
        return Prompt(form, documents, sources, named), ()
    if not isinstance(question, Sequence) or not question:
        raise BadOption("Ask a question: a str, or a list of messages, each with a role and a content.")
    last: Any = question[-1]
    if not isinstance(last, Mapping) or not isinstance(last.get("content"), str) or not last["content"].strip():
        raise BadOption("The last message of the chat asks the question: it needs a content that is text.")
    messages = (*question[:-1], {**last, "content": last["content"].strip()})
    return Prompt(ChatForm(messages), documents, sources, named), ()


def documents_of(context: Context | None) -> tuple[tuple[Document, ...], bool]:
    """The passages, and whether the caller named them."""
    if context is None or isinstance(context, bytes) or len(context) == 0:
        raise BadOption("There is no passage: give context= as a text, a list of texts, or texts by name.")
    named = isinstance(context, Mapping)
    texts = (
        list(context.values())
        if isinstance(context, Mapping)
        else [context]
        if isinstance(context, str)
        else list(context)
    )
    names = list(context) if isinstance(context, Mapping) else [f"passage {number + 1}" for number in range(len(texts))]
    seen: dict[str, str] = {}
    for name, text in zip(names, texts, strict=True):
        if not isinstance(text, str):
            raise BadOption(f"{name} is no text but {type(text).__name__}.")
        if not isinstance(name, str) or not name.strip():
            raise BadOption("A passage is named by a text that is not empty.")
        if not text.strip():
            raise BadOption(f"{name} is empty.")
        if text.strip() in seen:
            raise BadOption(f"{name} is the same as {seen[text.strip()]}: removing one would leave the other.")
        seen[text.strip()] = name
    return tuple(Document(name, text) for text, name in seen.items()), named


def divided(documents: Sequence[Document], by: Division) -> tuple[Source, ...]:
    """The sources of all documents, in order."""
    found = []
    for number, document in enumerate(documents):
        for place, (start, end) in enumerate(_parts(document.text, by)):
            found.append(Source(number, place, document.text[start:end], start, end))
    return tuple(found)


def _parts(text: str, by: Division) -> list[Span]:
    if by == "sentence":
        return sentences(text)
    if by == "document":
        return [(0, len(text))]
    edges = [0, *(gap.end() for gap in PARAGRAPH.finditer(text)), len(text)]
    return [(start, start + len(text[start:end].rstrip())) for start, end in pairwise(edges) if text[start:end].strip()]


def _given_prompt(prompt: str, context_spans: Sequence[Span], by: Division) -> Prompt:
    if not isinstance(prompt, str) or not prompt.strip():
        raise BadOption("The prompt is empty.")
    places = []
    for span in context_spans:
        try:
            start, end = (int(edge) for edge in span)
        except (TypeError, ValueError) as error:
            raise BadOption(f"A context span is (start, end) in characters of the prompt, not {span!r}.") from error
        if not 0 <= start < end <= len(prompt):
            raise BadOption(f"The context span {start}:{end} lies outside of a prompt of {len(prompt)} characters.")
        inside = prompt[start:end]
        if not inside.strip():
            raise BadOption(f"The context span {start}:{end} has no text in it.")
        start += len(inside) - len(inside.lstrip())
        places.append((start, start + len(inside.strip())))
    if not places:
        raise BadOption("There is no passage: context_spans= is empty.")
    places.sort()
    for one, two in pairwise(places):
        if two[0] < one[1]:
            raise BadOption(f"The context spans {one[0]}:{one[1]} and {two[0]}:{two[1]} share characters.")
    documents, _ = documents_of([prompt[start:end] for start, end in places])
    return Prompt(GivenForm(prompt, tuple(places)), documents, divided(documents, by))


def _with_question(passages: Sequence[Passage], question: str) -> tuple[str, dict[int, Span]]:
    """The passages, a blank line between them, and the question after them."""
    shown = [passage for passage in passages if passage.text]
    written, spans = "Context:\n" if shown else "", dict[int, Span]()
    for passage in shown:
        written += passage.heading
        spans |= {number: (len(written) + a, len(written) + b) for number, (a, b) in passage.spans}
        written += f"{passage.text}\n\n"
    return f"{written}Question: {question}", spans
