"""The order of passes through the model: a click runs before the next pass of a long computation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from wherefrom.model.anatomy import Anatomy
from wherefrom.model.network import Facts, Network, NetworkCall

# A long computation waits for its turn before every pass, so that a pass is as long as a click has to wait.
BATCH_TOKENS = 1024


class Stopped(BaseException):
    """A computation was stopped. No Exception, so that a trial of the model (see `model/probing`)
    does not mistake it for the model's failure.
    """


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
class TurnTakingNetwork:
    """A network that several threads use. Hooks of a pass act in its own thread (see `model/recording`), so that only
    the order of passes is decided here, and whether a computation continues at all.
    """

    network: Network
    turns: Turns = field(default_factory=Turns)
    current: Current = field(default_factory=Current)

    @property
    def module(self) -> PreTrainedModel:
        return self.network.module

    @property
    def facts(self) -> Facts:
        return self.network.facts

    @property
    def anatomy(self) -> Anatomy:
        return self.network.anatomy

    @property
    def device(self) -> torch.device:
        return self.network.device

    def embed(self, input_ids: Tensor) -> Tensor:
        return self.network.embed(input_ids)

    def run(
        self,
        call: NetworkCall,
        positions: Tensor | None = None,
        *,
        whole: bool = False,
        cache: DynamicCache | None = None,
    ) -> tuple[Any, Tensor | None]:
        stopped = self.current.stopped
        if stopped is not None and stopped.is_set():
            raise Stopped
        with self.turns.turn(click=stopped is None):
            return self.network.run(call, positions, whole=whole, cache=cache)
