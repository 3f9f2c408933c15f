"""The training loop of all studies. A training that is killed at any moment resumes, and ends with the same weights as
one that was not.

While a network is trained, its weights, the optimiser's state and the position in the data are stored in one file,
which is replaced as a whole: after every epoch, and once a minute within long ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from wherefrom.errors import BadFile
from wherefrom.files import replacing
from wherefrom.typing import OnProgress

CHECKPOINT = "checkpoint.pt"
SECONDS_BETWEEN_CHECKPOINTS = 60.0


@dataclass(frozen=True)
class Epoch:
    loss: float  # mean over the rows, while the network changes
    dev_score: float  # the higher the better: accuracy, or minus an adversary's loss
    dev_loss: float
    seconds: float  # of the processor

    @property
    def rank(self) -> tuple[float, float]:
        return self.dev_score, -self.dev_loss


class DevResult(NamedTuple):
    """How good a network is on texts that it is not trained on."""

    score: float  # the higher the better
    loss: float


@dataclass(frozen=True)
class Training:
    """A network and all that decides what becomes of it."""

    network: nn.Module
    optimiser: torch.optim.Optimizer
    epochs: int
    batches: Callable[[int], Sequence[Sequence[int]]]  # the row numbers of every batch of an epoch
    loss: Callable[[Sequence[int]], Tensor]  # of the rows of one batch
    before_step: Callable[[int, int], None] = lambda step, steps: None
    clip: float | None = None  # the largest norm of the gradient
    measure: Callable[[], DevResult] | None = None  # after every epoch; the best one's weights are kept, not the last
    patience: int | None = None  # training ends after so many epochs without a better one

    def run(self, checkpoint: Path, on_progress: OnProgress | None = None) -> list[Epoch]:
        """Train to the end, from the checkpoint if there is one. The checkpoint is left for the caller to delete, once
        the weights are stored elsewhere.
        """
        state = self._resumed(checkpoint) if checkpoint.is_file() else _Progress([], 0, 0.0, 0.0, {})
        report = on_progress or (lambda *_: None)
        per_epoch = len(self.batches(0))
        report(len(state.history) * per_epoch + state.step, self.epochs * per_epoch)
        while len(state.history) < self.epochs and not stalled(state.history, self.patience):
            self._run_epoch(state, per_epoch, checkpoint, report)
        if self.measure is not None:
            self.network.load_state_dict(state.best)
        self.network.eval()
        return state.history

    def _run_epoch(self, state: _Progress, per_epoch: int, checkpoint: Path, report: OnProgress) -> None:
        epoch, steps = len(state.history), self.epochs * per_epoch
        batches = self.batches(epoch)
        started, before, written = time.process_time(), state.seconds, time.monotonic()
        self.network.train()
        for rows in batches[state.step :]:
            self.before_step(epoch * per_epoch + state.step, steps)
            self.optimiser.zero_grad()
            loss = self.loss(rows)
            loss.backward()
            if self.clip is not None:
                nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)
            self.optimiser.step()
            state.loss += loss.item() * len(rows)
            state.step += 1
            report(epoch * per_epoch + state.step, steps)
            if state.step < per_epoch and time.monotonic() - written > SECONDS_BETWEEN_CHECKPOINTS:
                state.seconds = before + time.process_time() - started
                self._store(state, checkpoint)
                written = time.monotonic()
        dev = DevResult(0.0, 0.0) if self.measure is None else self.measure()
        seconds = before + time.process_time() - started
        done = Epoch(state.loss / sum(map(len, batches)), dev.score, dev.loss, seconds)
        if self.measure is not None and (
            not state.history or done.rank > max(earlier.rank for earlier in state.history)
        ):
            state.best = {name: value.detach().clone() for name, value in self.network.state_dict().items()}
        state.history.append(done)
        state.step, state.loss, state.seconds = 0, 0.0, 0.0
        self._store(state, checkpoint)

    def _store(self, state: _Progress, checkpoint: Path) -> None:
        content: dict[str, Any] = {
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "history": [asdict(epoch) for epoch in state.history],
            "step": state.step,
            "loss": state.loss,
            "seconds": state.seconds,
            "best": state.best,
        }
        with replacing(checkpoint, durable=True) as unfinished, unfinished.open("wb") as file:
            torch.save(content, file)

    def _resumed(self, checkpoint: Path) -> _Progress:
        try:
            stored = torch.load(checkpoint, weights_only=True)
            self.network.load_state_dict(stored["network"])
            self.optimiser.load_state_dict(stored["optimiser"])
            history = [Epoch(**epoch) for epoch in stored["history"]]
            return _Progress(history, stored["step"], stored["loss"], stored["seconds"], stored["best"])
        except (UnpicklingError, EOFError, RuntimeError, KeyError, TypeError, ValueError) as error:
            raise BadFile(
                f"{checkpoint} is not a checkpoint of this training: {error}. Delete it to start that training again."
            ) from error


@dataclass
class _Progress:
    """How far a training has come."""

    history: list[Epoch]  # finished epochs
    step: int  # of the epoch that is not finished
    loss: float  # the sum over its rows
    seconds: float  # that it took
    best: dict[str, Tensor]  # weights of the best epoch, where epochs are measured


def stalled(history: Sequence[Epoch], patience: int | None) -> bool:
    """Whether the last epochs, as many as the patience allows, were no better than an earlier one."""
    if not history or patience is None:
        return False
    best = max(range(len(history)), key=lambda number: history[number].rank)
    return len(history) - 1 - best >= patience
