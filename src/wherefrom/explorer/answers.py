"""A cache of logits of texts with hidden words, shared by clicks, checks and methods."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

import torch
from torch import Tensor

from wherefrom.case.asking import Asker, InputRow
from wherefrom.model.prefix import Prefix
from wherefrom.model.text_model import TextModel

OVERHEAD = 1_000  # bytes that a kept answer takes beside its numbers, about


class AnswerCache:
    """The logits of rows that went through a model; an LRU cache."""

    def __init__(self, room: int) -> None:
        self.room, self.size = room, 0
        self._kept: OrderedDict[object, Tensor] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self.size = 0

    def get(self, key: object) -> Tensor | None:
        with self._lock:
            logits = self._kept.get(key)
            if logits is not None:
                self._kept.move_to_end(key)
            return logits

    def put(self, key: object, logits: Tensor) -> None:
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = logits
            self.size += _bytes(logits)
            while self.size > self.room and len(self._kept) > 1:
                _, gone = self._kept.popitem(last=False)
                self.size -= _bytes(gone)


def _bytes(logits: Tensor) -> int:
    return logits.numel() * logits.element_size() + OVERHEAD


class CachingAsker(Asker):
    """An asker for one thread that looks into the cache of all threads before it runs the model."""

    def __init__(self, model: TextModel, cache: AnswerCache) -> None:
        super().__init__(model)
        self.cache = cache

    def _logits(self, rows: Sequence[InputRow], prefix: Prefix | None = None) -> Tensor:
        keys = [self._key(row) for row in rows]
        known = [self.cache.get(key) for key in keys]
        missing = [place for place, answer in enumerate(known) if answer is None]
        if missing:
            computed = super()._logits([rows[place] for place in missing], prefix)
            for place, logits in zip(missing, computed, strict=True):
                unpadded = logits if logits.ndim == 1 else logits[..., : len(rows[place])]
                known[place] = answer = unpadded.clone()  # a view would keep the whole batch in memory
                self.cache.put(keys[place], answer)
        answers = [answer for answer in known if answer is not None]
        if answers[0].ndim == 1:
            return torch.stack(answers)
        whole = answers[0].new_full((len(answers), len(answers[0]), max(map(len, rows))), -torch.inf)
        for padded, logits in zip(whole, answers, strict=True):
            padded[:, : logits.shape[-1]] = logits
        return whole

    def _key(self, row: InputRow) -> bytes:
        """A digest of what the logits of a row depend on, among it the output that a model is bound to. The numbers
        themselves would take more memory than the logits, and than what is counted for them.
        """
        numbers = repr((self.model.task.bound, row.key(self.model.hiding.marks)))
        return blake2b(numbers.encode("utf-8", "surrogatepass"), digest_size=16).digest()
