"""The messages of a chat: checked, rendered by the tokenizer's template, and found again in what it rendered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from transformers import PreTrainedTokenizerBase

from wherefrom.core.units import Span, Turn
from wherefrom.errors import BadOption
from wherefrom.model.chat_template import render_chat

ChatMessage = Mapping[str, Any]  # a role, and a content: text, a list of text parts, or None where nothing is said

_CHAT = "A prompt is a str, or a list of messages, each with a role and a content; "


@dataclass(frozen=True)
class CheckedMessage:
    role: str
    content: str | None  # with its parts joined
    fields: Mapping[str, Any]  # all that the template reads

    @property
    def said(self) -> str:
        return (self.content or "").strip()

    def row(self, text: str | None, *, in_parts: bool) -> dict[str, Any]:
        """What the template gets, with another text in place of what is said."""
        if text is None or not self.said:
            return {**self.fields}
        return {**self.fields, "content": [{"type": "text", "text": text}] if in_parts else text}


def rendered_turns(tokenizer: PreTrainedTokenizerBase, messages: object) -> tuple[str, tuple[Turn, ...]]:
    """A chat as its template renders it, and who says which of its characters.

    A message whose content is empty or None, such as a call of a tool, has no turn. Parts of a content are joined by
    line breaks; only a template that reads nothing but lists of parts gets a list.
    """
    chat = [_message(message) for message in _listed(messages)]
    if not getattr(tokenizer, "chat_template", None):  # a model on a server may have no tokenizer here
        raise BadOption(
            "There is no chat template, so messages cannot be read: give the prompt as a str, or a tokenizer with one."
        )
    try:
        return _located(tokenizer, chat, in_parts=False)
    except BadOption as problem:
        try:
            return _located(tokenizer, chat, in_parts=True)
        except BadOption:
            raise problem from None


def _listed(messages: object) -> list[object]:
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise BadOption(f"{_CHAT}not {type(messages).__name__}.")
    rows = list(cast("Iterable[object]", messages))
    if not rows:
        raise BadOption(f"{_CHAT}this list of messages is empty.")
    return rows


def _message(message: object) -> CheckedMessage:
    if not isinstance(message, Mapping):
        raise BadOption(f"{_CHAT}one of the messages is {type(message).__name__}.")
    fields = {str(key): value for key, value in message.items()}
    role, content = fields.get("role"), fields.get("content")
    if not isinstance(role, str) or not ({"content", "tool_calls"} & set(fields)):
        raise BadOption(f"{_CHAT}one of the messages has {', '.join(fields) or 'neither'}.")
    if isinstance(content, list | tuple):
        content = fields["content"] = "\n".join(map(_part, content))
    if content is not None and not isinstance(content, str):
        raise BadOption(
            f"The content of a message is text, a list of text parts, or None, not {type(content).__name__}."
        )
    return CheckedMessage(role, content, fields)


def _part(part: object) -> str:
    text = part.get("text") if isinstance(part, Mapping) else part
    if not isinstance(text, str):
        kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
        raise BadOption(f"Of the parts of a message only text can be read, not {kind!r}.")
    return text


def _located(
    tokenizer: PreTrainedTokenizerBase, chat: Sequence[CheckedMessage], *, in_parts: bool
) -> tuple[str, tuple[Turn, ...]]:
    """What is said may be found in the template, too, as "user" is in most of them. So the chat is rendered a second
    time, with a mark in place of everything that is said: what is around the marks is the template's own.
    """
    marks = [f"\U000f0000{number}\U000f0001" for number in range(len(chat))]
    frame = render_chat(
        tokenizer, [message.row(mark, in_parts=in_parts) for message, mark in zip(chat, marks, strict=True)]
    )
    text = render_chat(tokenizer, [message.row(message.content, in_parts=in_parts) for message in chat])
    spoken = [(message, mark) for message, mark in zip(chat, marks, strict=True) if message.said]
    pieces = [frame]  # of the template: before, between and after what is said
    for message, mark in spoken:
        before, mark_read, rest = pieces.pop().partition(mark)
        # A template that does not know lists writes them as Python does.
        if not mark_read or mark in rest or (in_parts and "'type'" in before):
            raise BadOption(f"The chat template does not show what {message.role!r} says as it was given.")
        pieces += [before, rest]
    speakers = [message for message, _ in spoken]
    spans = _between(text, pieces, speakers) or _unique(text, speakers)
    return text, tuple((message.role, *span) for message, span in zip(speakers, spans, strict=True))


def _between(text: str, pieces: Sequence[str], spoken: Sequence[CheckedMessage]) -> list[Span] | None:
    """Where everything that is said is, if these pieces of the template, and spaces, are all that is around it."""
    if not text.startswith(pieces[0]):
        return None
    spans, reached = list[Span](), len(pieces[0])
    for message, after in zip(spoken, pieces[1:], strict=True):
        for start, end, ends in _places(text, reached, message):
            at = next((place for place in ends if text.startswith(after, place)), None)
            if at is not None:
                spans.append((start, end))
                reached = at + len(after)
                break
        else:
            return None
    return spans if reached == len(text) else None


def _places(text: str, reached: int, message: CheckedMessage) -> Iterator[tuple[int, int, Iterable[int]]]:
    """Where a message may be written: as it is, with more or fewer spaces around it, or as JSON, as results of tools
    are. Its first character, its end, and where the template may continue.
    """
    start, said, content = _behind_spaces(text, reached), message.said, message.content or ""
    if text.startswith(said, start):
        end = start + len(said)
        yield start, end, range(end, _behind_spaces(text, end) + 1)
    before, _, after = content.partition(said)
    for only_ascii in (False, True):
        lead, core, tail = (json.dumps(part, ensure_ascii=only_ascii)[1:-1] for part in (before, said, after))
        if text.startswith(lead + core + tail, reached):
            start = reached + len(lead)
            yield start, start + len(core), [start + len(core) + len(tail)]


def _behind_spaces(text: str, place: int) -> int:
    return next((later for later in range(place, len(text)) if not text[later].isspace()), len(text))


def _unique(text: str, spoken: Sequence[CheckedMessage]) -> list[Span]:
    """Where the template writes something else around other messages: what is said must be found once."""
    spans, reached = list[Span](), 0
    for message in spoken:
        start = text.find(message.said)
        if start < reached or text.find(message.said, start + 1) >= 0:
            raise BadOption(f"The chat template does not show what {message.role!r} says as it was given.")
        reached = start + len(message.said)
        spans.append((start, reached))
    return spans
