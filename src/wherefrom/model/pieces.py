"""Pieces of text in place of a model's own tokens, for a model that is only reached by its texts: a function, a server.

A text is cut into words, or into the tokens of a tokenizer that is given. Each piece has the characters from the end of
the one before it to its own end, so that all of them together are the text.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from wherefrom.core.encoding import Encoding, check_decoded
from wherefrom.core.units import Span, words
from wherefrom.errors import EmptyText
from wherefrom.model.hiding import FILLS
from wherefrom.model.reading import Split, TextAndPair

WITHOUT_TOKENIZER = {"mask": "[MASK]", "unk": "[UNK]"}  # what replaces a hidden word where there is no tokenizer
NOTHING, BETWEEN = 0, 1  # ids of pieces: nothing at all, and the boundary between the two texts of a pair

Problem = Literal["regression", "single_label_classification", "multi_label_classification"]


class Pieces:
    """Pieces of texts by number, in the order in which they were first seen. It only grows."""

    def __init__(self, fills: dict[str, str]) -> None:
        self.texts = ["", "", *fills.values()]
        self.fills = {kind: 2 + number for number, kind in enumerate(fills)}
        self.glued: set[int] = set()  # those that follow the piece before without a blank
        self._number: dict[str, int] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase | None) -> Pieces:
        if tokenizer is None:
            return cls(WITHOUT_TOKENIZER)
        special = {kind: getattr(tokenizer, f"{kind}_token", None) for kind in FILLS}
        return cls({kind: str(token) for kind, token in special.items() if token is not None})

    def number(self, text: str) -> int:
        with self._lock:
            if text not in self._number:
                self._number[text] = len(self.texts)
                if text == text.lstrip():
                    self.glued.add(len(self.texts))
                self.texts.append(text)
            return self._number[text]


@dataclass(frozen=True, eq=False)
class PieceReading:
    """Reading into pieces: words, or the tokens of a tokenizer."""

    tokenizer: PreTrainedTokenizerBase
    pieces: Pieces
    limit: int | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)

    def check(self, text: str) -> None:
        check_decoded(text)
        if not self._spans(text):
            raise EmptyText("There is no text to explain: it is empty or blank.")

    def tokenize_all(self, texts: Sequence[TextAndPair], limit: int | None) -> list[Encoding]:
        return [self.tokenize(text, pair, limit) for text, pair in texts]

    def tokenize(self, text: str, pair: str | None, limit: int | None) -> Encoding:
        del limit
        tokens, ids, offsets, segment = list[str](), list[int](), list[Span](), list[int]()
        for number, part in enumerate((text,) if pair is None else (text, pair)):
            if number:
                tokens, ids = [*tokens, "[SEP]"], [*ids, BETWEEN]
                offsets, segment = [*offsets, (0, 0)], [*segment, -1]
            found = self.split(part)
            tokens += [part[start:end] for start, end in found.offsets]
            ids += found.ids
            offsets += found.offsets
            segment += [number] * len(found.ids)
        return Encoding(text, pair, tuple(tokens), tuple(ids), None, tuple(offsets), tuple(segment))

    def split(self, text: str) -> Split:
        spans, ids, reached = self._spans(text), list[int](), 0
        for number, (_, end) in enumerate(spans, 1):
            upto = len(text) if number == len(spans) else max(reached, end)
            ids.append(self.pieces.number(text[reached:upto]))
            reached = upto
        return Split(tuple(ids), tuple(spans))

    def names(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.pieces.texts[piece].strip() or self.pieces.texts[piece] for piece in ids)

    def token_text(self, token: int) -> str:
        return self.pieces.texts[token]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.pieces.texts[piece] for piece in ids)

    def _spans(self, text: str) -> list[Span]:
        if self.tokenizer is None:
            return words(text)
        with self.lock:
            read = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return [(int(start), int(end)) for start, end in read["offset_mapping"]]


@dataclass(frozen=True, eq=False)
class PieceHiding:
    """Hiding of pieces: the text of a fill token replaces one."""

    pieces: Pieces

    @property
    def fills(self) -> dict[str, int]:
        return self.pieces.fills

    @property
    def marks(self) -> frozenset[int]:
        """Pieces without a blank before them: two rows with the same fills differ where their blanks do."""
        return frozenset(self.pieces.glued)

    def usual_fill(self) -> str:
        return next(iter(self.fills), "delete")

    def start_token(self) -> int:
        return NOTHING


class StandIn(nn.Module):
    """What a module says of itself, where the model is a function or on a server."""

    dtype = torch.float64

    def __init__(self, labels: Sequence[str], problem: Problem) -> None:
        super().__init__()
        self.config = PreTrainedConfig(id2label=dict(enumerate(labels)), problem_type=problem)
        self.config.pad_token_id = NOTHING
        self.eval()
