"""When memory ends: work on a batch is done again on its halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from wherefrom.errors import ModelFailed

Result = TypeVar("Result")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ended; torch's allocator on the CPU raises a plain RuntimeError."""
    text = str(error).lower()
    kinds = (torch.OutOfMemoryError, MemoryError)
    return isinstance(error, kinds) or "out of memory" in text or "can't allocate memory" in text


def in_halves(
    places: Sequence[int], lengths: Sequence[int], work: Callable[[Sequence[int]], dict[int, Result]]
) -> dict[int, Result]:
    """What `work` gives for these texts; where they do not fit into memory together, for each half of them.

    lengths: in tokens, of every text by its place: for the error where one text alone does not fit.
    """
    try:
        return work(places)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        if len(places) == 1:
            raise not_enough_memory(lengths[places[0]]) from error
    # Outside of the handler, so that the failed pass is no longer held by the error's traceback.
    middle = len(places) // 2
    return in_halves(places[:middle], lengths, work) | in_halves(places[middle:], lengths, work)


def not_enough_memory(tokens: int) -> ModelFailed:
    return ModelFailed(f"There is not enough memory for a text of {tokens} tokens.")
