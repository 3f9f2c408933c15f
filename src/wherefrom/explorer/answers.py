"""Answers to texts with hidden words, kept for all who ask: clicks, tests and methods share them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor

from wherefrom.case.asking import Asker, InputRow
from wherefrom.model.prefix import Prefix
from wherefrom.model.text_model import TextModel

OVERHEAD = 1_000  # bytes that a kept answer takes beside its numbers, about


class AnswerCache:
    """The logits of rows that went through a model; the one that was not used for longest goes first."""

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
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

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
    """An asker for one thread that looks into a cache which all threads share before it asks the model."""

    def __init__(self, model: TextModel, cache: AnswerCache) -> None:
        super().__init__(model)
        self.cache = cache
        self._bound = model.task.bound  # a model bound to an output answers otherwise

    def _logits(self, rows: Sequence[InputRow], prefix: Prefix | None = None) -> Tensor:
        keys = [self._key(row) for row in rows]
        known = [self.cache.get(key) for key in keys]
        missing = [place for place, found in enumerate(known) if found is None]
        if missing:
            computed = super()._logits([rows[place] for place in missing], prefix)
            for place, logits in zip(missing, computed, strict=True):
                own = logits if logits.ndim == 1 else logits[..., : len(rows[place])]
                kept = own.clone()  # or it would keep the whole batch in memory
                known[place] = kept
                self.cache.put(keys[place], kept)
        found = [one for one in known if one is not None]
        if found[0].ndim == 1:
            return torch.stack(found)
        whole = found[0].new_full((len(found), len(found[0]), max(map(len, rows))), -torch.inf)
        for padded, logits in zip(whole, found, strict=True):
            padded[:, : logits.shape[-1]] = logits
        return whole

    def _key(self, row: InputRow) -> object:
        """What decides the answer to a row: as `Asker` tells rows apart."""
        pinned = tuple(place for place, token in enumerate(row.ids) if token in self.model.hiding.marks)
        return self._bound, row.words, row.types, pinned
