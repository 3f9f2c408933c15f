"""A chat as its tokenizer's template renders it. A template comes with a model, so it may be wrong or hostile: whatever
it raises becomes one line, and it is stopped when it runs too long or writes too much.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from transformers import PreTrainedTokenizerBase

from wherefrom.errors import BadOption, MissingExtra

# The longest templates in use run some hundred lines for each message, so that a chat of thousands stays far below.
MOST_STEPS = 2_000_000
MOST_SECONDS = 5.0
MOST_CHARACTERS = 10_000_000


class _Unbounded(Exception):
    """The template was stopped."""


def render_chat(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, Any]]) -> str:
    """The text of a chat, up to where the model's answer begins."""
    try:
        import jinja2  # noqa: F401  # which transformers renders templates with
    except ModuleNotFoundError as error:
        raise MissingExtra("Reading a chat", "report") from error
    try:
        _refuse_powers(str(tokenizer.get_chat_template()))
        with _stopped_in_time():
            rows = [dict(message) for message in messages]
            return str(tokenizer.apply_chat_template(rows, tokenize=False, add_generation_prompt=True))
    except Exception as error:  # a template may raise anything
        raise BadOption(f"The tokenizer's chat template does not render these messages: {_one_line(error)}") from error


def _refuse_powers(template: str) -> None:
    """9**9**9 is one operation that does not end, and jinja computes constants as early as it compiles."""
    from jinja2 import Environment

    for _, kind, value in Environment().lex(template):
        if (kind, value) == ("operator", "**"):
            raise _Unbounded("it computes powers, for which no chat has a use")


@contextmanager
def _stopped_in_time() -> Iterator[None]:
    """Templates are compiled to Python, so a trace function sees each of their lines, and raises after too many."""
    end, before = time.monotonic() + MOST_SECONDS, sys.gettrace()
    steps = characters = 0

    def count(frame: FrameType, event: str, value: Any) -> Any:
        nonlocal steps, characters
        steps += 1
        if steps > MOST_STEPS or (steps % 1000 == 0 and time.monotonic() > end):
            raise _Unbounded(f"it was stopped after {steps:,} steps")
        if frame.f_code.co_filename != "<template>":
            return None
        if event == "return" and isinstance(value, str):  # what it writes is yielded piece by piece
            characters += len(value)
            if characters > MOST_CHARACTERS:
                raise _Unbounded(f"it was stopped after {characters:,} characters")
        return count

    sys.settrace(count)
    try:
        yield
    finally:
        sys.settrace(before)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or "it gives no reason"
    kind = "" if isinstance(error, _Unbounded) else f"{type(error).__name__}: "
    return f"{kind}{text[:300]}{'...' if len(text) > 300 else ''}"
