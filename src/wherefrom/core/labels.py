"""What every view calls a token, a word or a sentence: nothing unseen, and no tokenizer's signs for spaces."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wherefrom.core.units import Span

# Control characters of a terminal; marks that change the direction of the text that follows, with which a text could
# disguise itself; line separators that only some programs respect; lone surrogates, which cannot be written to a file.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SPACES = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥"})
_BYTES = str.maketrans({"Ġ": "␣", "▁": "␣", "Ċ": "↵", "ĉ": "⇥"})  # as tokenizers write a space, a line break, a tab
# How vocabularies write these signs: byte-level ones, SentencePiece, and plain text.
SPELLINGS = tuple(
    str.maketrans(spelling)
    for spelling in (
        {"␣": "Ġ", "↵": "Ċ", "⇥": "ĉ"},
        {"␣": "▁", "↵": "<0x0A>", "⇥": "<0x09>"},
        {"␣": " ", "↵": "\n", "⇥": "\t"},
    )
)


def visible(text: str) -> str:
    """Control characters spelt out, as in \\x07, where they can be seen and do nothing; line breaks and tabs stay."""
    return _UNSEEN.sub(lambda match: ascii(match[0])[1:-1], text)


def token_label(text: str, token: str = "") -> str:
    """What every view calls a token, a word or a sentence: as it stands in the text, without the spaces around it; a
    space alone as a sign for it; where nothing of it stands in the text, as the tokenizer writes it, but
    for its signs for spaces.
    """
    return " ".join(visible(text).split()) or visible(text.translate(_SPACES) or token.translate(_BYTES))


def blank_label(text: str) -> str:
    """Signs for white space, of which the text is nothing else, or for a token of a vocabulary that is white space."""
    return text.translate(_SPACES).translate(_BYTES)


def is_blank(text: str) -> bool:
    """Whether a text is white space, or the signs for it."""
    return bool(text) and not set(text.translate(_SPACES)) - set("␣↵⇥")


def token_labels(
    tokens: Sequence[str], offsets: Sequence[Span], segment: Sequence[int], text: str, pair: str | None = None
) -> list[str]:
    """The labels of all tokens of a text and its pair."""
    texts = {0: text, 1: pair or ""}
    return [
        token_label(texts.get(part, "")[start:end], token)
        for token, (start, end), part in zip(tokens, offsets, segment, strict=True)
    ]
