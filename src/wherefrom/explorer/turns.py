"""Whose pass goes through the model next: a person's click goes before the next pass of a long computation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch import Tensor

from wherefrom.core.encoding import Encoding
from wherefrom.model.text_model import PassCount, TextModel

# A long computation waits for its turn before every pass, so that a pass is as long as a click has to wait.
BATCH_TOKENS = 1024


class Stopped(Exception):
    """A computation that nobody waits for any more."""


class Turns:
    """One pass at a time, clicks first."""

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._taken = False
        self._clicks = 0

    @contextmanager
    def turn(self, *, click: bool) -> Iterator[None]:
        with self._free:
            self._clicks += click
            while self._taken or (self._clicks and not click):
                self._free.wait()
            self._taken = True
            self._clicks -= click
        try:
            yield
        finally:
            with self._free:
                self._taken = False
                self._free.notify_all()


class Current(threading.local):
    """Set by a thread while it works on a long computation."""

    stopped: threading.Event | None = None


@dataclass(frozen=True, eq=False)
class ServedModel(TextModel):
    """A model that several threads ask. Hooks of a pass are its own thread's (see `model/recording`), so that only the
    order of passes is decided here, and whether a computation goes on at all.
    """

    turns: Turns = field(default_factory=Turns)
    current: Current = field(default_factory=Current)
    # A fast tokenizer must not be used by two threads: it is changed for texts that are too long, and changed back.
    reading: threading.RLock = field(default_factory=threading.RLock)

    @classmethod
    def of(cls, model: TextModel) -> ServedModel:
        return cls(model.network, model.tokenizer, model.name, model.task, min(model.batch_tokens, BATCH_TOKENS))

    def encode(self, text: str, pair: str | None = None) -> Encoding:
        with self.reading:
            return super().encode(text, pair)

    def logits(
        self,
        inputs: dict[str, Tensor],
        count: PassCount,
        embeddings: Tensor | None = None,
        *,
        whole: bool = False,
        check: bool = True,
    ) -> Tensor:
        stopped = self.current.stopped
        if stopped is not None and stopped.is_set():
            raise Stopped
        with self.turns.turn(click=stopped is None):
            return super().logits(inputs, count, embeddings, whole=whole, check=check)
