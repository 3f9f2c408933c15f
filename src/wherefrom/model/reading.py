"""What a model reads: a text, a pair of texts or a chat becomes an `Encoding`; a continuation becomes tokens."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from torch import nn
from transformers import PreTrainedTokenizerBase

from wherefrom.core.encoding import Encoding, check_decoded
from wherefrom.core.units import Span, Turn
from wherefrom.errors import EmptyText, WrongModel
from wherefrom.model.chat import ChatMessage, rendered_turns

TextAndPair = tuple[str, str | None]
OPTIONS = {"return_offsets_mapping": True, "return_special_tokens_mask": True, "verbose": False}
UNLIMITED = 100_000  # tokenizers without a limit of their own give something like 1e30


class Split(NamedTuple):
    """A text as tokens, without the special ones that a tokenizer adds."""

    ids: tuple[int, ...]
    offsets: tuple[Span, ...]
    types: tuple[int, ...] | None = None


class Reading(Protocol):
    @property
    def tokenizer(self) -> PreTrainedTokenizerBase: ...

    @property
    def limit(self) -> int | None:
        """How many tokens the model can read, or None."""

    @property
    def lock(self) -> threading.RLock:
        """Held by whoever uses the tokenizer while other threads may read."""

    def check(self, text: str) -> None:
        """Raise where nothing can be read in a text."""

    def tokenize(self, text: str, pair: str | None, limit: int | None) -> Encoding:
        """A text, or two in one row, truncated where they are longer than the limit."""

    def tokenize_all(self, texts: Sequence[TextAndPair], limit: int | None) -> list[Encoding]:
        """The same for several: a fast tokenizer reads many texts in little more time than one."""

    def split(self, text: str) -> Split:
        """A text as tokens, without special ones and never truncated."""

    def names(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Tokens as the vocabulary writes them."""

    def token_text(self, token: int) -> str:
        """A token as text, with the space before it."""

    def decode(self, ids: Sequence[int]) -> str:
        """Tokens as text."""


@dataclass(frozen=True, eq=False)
class TokenizerReading:
    """Reading with a fast tokenizer, the only kind that says where each token is in the text."""

    tokenizer: PreTrainedTokenizerBase
    limit: int | None
    # A fast tokenizer must not be used by two threads: it is changed for texts that are too long, and changed back.
    lock: threading.RLock = field(default_factory=threading.RLock)

    def check(self, text: str) -> None:
        if not text.strip():
            raise EmptyText("There is no text to explain: it is empty or blank.")
        check_decoded(text)

    def tokenize(self, text: str, pair: str | None, limit: int | None) -> Encoding:
        with self.lock, _tokenizer_errors():
            read = self.tokenizer(text, pair, truncation=False, **OPTIONS)
            length = len(read["input_ids"])
            if limit is not None and length > limit:
                read = self.tokenizer(text, pair, truncation=True, max_length=limit, **OPTIONS)
        row = {name: [values] for name, values in read.items()} | {"sequence": [read.sequence_ids()]}
        return self._encoding(text, pair, row, 0, length - len(read["input_ids"]))

    def tokenize_all(self, texts: Sequence[TextAndPair], limit: int | None) -> list[Encoding]:
        if len({pair is None for _, pair in texts}) != 1:
            return [self.tokenize(text, pair, limit) for text, pair in texts]
        first, second = [text for text, _ in texts], [pair for _, pair in texts if pair is not None]
        with self.lock, _tokenizer_errors():
            read = self.tokenizer(first, second or None, truncation=False, **OPTIONS)
        rows = {**read, "sequence": [read.sequence_ids(number) for number in range(len(texts))]}
        return [
            self._encoding(text, pair, rows, number, 0)
            if limit is None or len(rows["input_ids"][number]) <= limit
            else self.tokenize(text, pair, limit)
            for number, (text, pair) in enumerate(texts)
        ]

    def _encoding(self, text: str, pair: str | None, rows: Mapping[str, Any], number: int, cut: int) -> Encoding:
        """One of the rows that the tokenizer read."""
        ids, types = rows["input_ids"][number], rows.get("token_type_ids")
        marks = zip(rows["special_tokens_mask"][number], rows["sequence"][number], strict=True)
        segment = tuple(-1 if special or sequence is None else sequence for special, sequence in marks)
        if all(part < 0 for part in segment):
            raise EmptyText("The tokenizer finds nothing to read in this text: it may hold only control characters.")
        return Encoding(
            text=text,
            pair=pair,
            tokens=tuple(self.tokenizer.convert_ids_to_tokens(ids)),
            input_ids=tuple(ids),
            token_type_ids=None if types is None else tuple(types[number]),
            offsets=tuple((int(start), int(end)) for start, end in rows["offset_mapping"][number]),
            segment=segment,
            cut=cut,
        )

    def split(self, text: str) -> Split:
        with self.lock:
            read = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        types = read.get("token_type_ids")
        offsets = tuple((int(start), int(end)) for start, end in read["offset_mapping"])
        return Split(tuple(read["input_ids"]), offsets, None if types is None else tuple(types))

    def names(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.tokenizer.convert_ids_to_tokens(list(ids)))

    def token_text(self, token: int) -> str:
        piece = str(self.tokenizer.convert_ids_to_tokens(token))
        text = str(self.tokenizer.decode([token])) or piece
        # Decoded alone, a token of SentencePiece loses the space before it.
        return f" {text}" if piece.startswith("\u2581") and not text.startswith((" ", "\u2581")) else text

    def decode(self, ids: Sequence[int]) -> str:
        with self.lock:
            return str(self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))


@contextmanager
def _tokenizer_errors() -> Iterator[None]:
    """What a tokenizer of damaged files raises, as an error of ours. A panic of tokenizers is no Exception."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        why = " ".join(str(error).split())[:200]
        raise WrongModel(f"The tokenizer fails on this text ({type(error).__name__}: {why}).") from error


def limit_of(module: nn.Module, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """How many tokens a model can read, by its position embeddings, its configuration and its tokenizer."""
    positions = getattr(module.config, "max_position_embeddings", None)
    for table in (m for name, m in module.named_modules() if name.endswith("position_embeddings")):
        if isinstance(table, nn.Embedding) and table.padding_idx is not None:  # RoBERTa counts positions from there
            positions = table.num_embeddings - table.padding_idx - 1
    known = [n for n in (positions, tokenizer.model_max_length) if n is not None and 0 < n < UNLIMITED]
    return min(known, default=None)


def read_chat(reading: Reading, messages: Sequence[ChatMessage]) -> Encoding:
    """A chat as its template renders it; tokens of the template are special."""
    return read_turns(reading, *rendered_turns(reading.tokenizer, messages))


def read_turns(reading: Reading, text: str, turns: Sequence[Turn]) -> Encoding:
    """A rendered chat, without the special tokens that a tokenizer adds, because the template has its own."""
    check_decoded(text)
    read = reading.split(text)
    inside = [any(a < end and start < b and start < end for _, a, b in turns) for start, end in read.offsets]
    if not any(inside):
        raise EmptyText("The tokenizer finds nothing to read in what is said.")
    return Encoding(
        text=text,
        pair=None,
        tokens=reading.names(read.ids),
        input_ids=read.ids,
        token_type_ids=read.types,
        offsets=read.offsets,
        segment=tuple(0 if is_said else -1 for is_said in inside),
        turns=tuple(turns),
    )


def continuation_tokens(
    reading: Reading, prompt: Encoding, continuation: str
) -> tuple[tuple[int, ...], tuple[Span, ...]]:
    """A continuation as tokens, and the characters of each. A space goes before it where the prompt has none at its
    end.
    """
    check_decoded(continuation)
    added = 0 if continuation[:1].isspace() or prompt.text[-1:].isspace() else 1
    read = reading.split(f"{' ' * added}{continuation}")
    if not read.ids:
        raise EmptyText("The continuation is empty: give some text, or leave it out for what the model generates.")
    return read.ids, tuple((max(0, start - added), max(0, end - added)) for start, end in read.offsets)


def continuation_ids(reading: Reading, prompt: Encoding, continuation: str) -> tuple[int, ...]:
    """A continuation as tokens: see `continuation_tokens`."""
    return continuation_tokens(reading, prompt, continuation)[0]


def token_ids(reading: Reading, text: str) -> list[int]:
    """A piece of text as tokens, without special ones."""
    return list(reading.split(text).ids)


def output_ids(reading: Reading, output: str) -> tuple[int, ...]:
    """The output of a model with an encoder and a decoder as tokens."""
    check_decoded(output)
    with reading.lock:
        ids = reading.tokenizer(text_target=output, add_special_tokens=False)["input_ids"]
    if not ids:
        raise EmptyText("The output is empty: give some text, or leave it out for what the model generates.")
    return tuple(ids)
