"""When memory ends: how much a pass will take, how much there is, and a batch that does not fit done in halves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch

from wherefrom.case.kinds import KINDS, either, methods_served
from wherefrom.errors import NotEnoughMemory
from wherefrom.model.device import free_on_accelerator, give_back_memory

TextResult = TypeVar("TextResult")


# What allocators say when there is nothing left.
ALLOCATORS = ("out of memory", "can't allocate memory", "bad_alloc")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means out of memory; torch's CPU allocator and C++ code raise a plain RuntimeError."""
    text = str(error).lower()
    kinds = (torch.OutOfMemoryError, MemoryError, NotEnoughMemory)
    return isinstance(error, kinds) or any(words in text for words in ALLOCATORS)


def in_halves(
    places: Sequence[int], lengths: Sequence[int], work: Callable[[Sequence[int]], dict[int, TextResult]]
) -> dict[int, TextResult]:
    """What `work` gives for these texts; where they do not fit into memory together, for each half of them.

    lengths: in tokens, of every text by its place: for the error where one text alone does not fit.
    """
    try:
        return work(places)
    except (RuntimeError, MemoryError, NotEnoughMemory) as error:
        if not is_out_of_memory(error) or (len(places) == 1 and isinstance(error, NotEnoughMemory)):
            raise
        if len(places) == 1:
            raise not_enough_memory(lengths[places[0]]) from error
    # Outside of the handler, so that the failed pass is no longer held by the error's traceback.
    give_back_memory()
    middle = len(places) // 2
    return in_halves(places[:middle], lengths, work) | in_halves(places[middle:], lengths, work)


def not_enough_memory(
    tokens: int, needed: int | None = None, free: int | None = None, instead: Sequence[str] | None = None
) -> NotEnoughMemory:
    """The error for a text that does not fit; with what it needs and what there is, in bytes, where that is known.

    instead: methods that take less memory; all that keep no attention unless given.
    """
    others = methods_served(kind for kind in KINDS.values() if kind.light) if instead is None else instead
    way_out = f"Shorten the text, or take a method that takes less memory: {either(others)}."
    if needed is None or free is None:
        return NotEnoughMemory(f"There is not enough memory for a text of {tokens} tokens. {way_out}")
    return NotEnoughMemory(
        f"This takes about {_written(needed)} for a text of {tokens} tokens, and {_written(free)} are free. {way_out}"
    )


def _written(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


@contextmanager
def clear_when_memory_ends(tokens: int) -> Iterator[None]:
    """Turn an allocator's error within the block into one that says what to do."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise not_enough_memory(tokens) from error
        raise


def free_memory(device: torch.device) -> int | None:
    """How many bytes can still be allocated; None where that is not known."""
    if device.type != "cpu":
        return free_on_accelerator(device)
    if not sys.platform.startswith("linux"):
        return None
    known = [_kilobytes("/proc/meminfo", "MemAvailable"), _left_of_address_space(), _left_of_group()]
    return min((size for size in known if size is not None), default=None)


def _kilobytes(path: str, name: str) -> int | None:
    """A number of kilobytes that a file of the kernel names, in bytes."""
    try:
        lines = Path(path).read_text(encoding="ascii").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)
    except (OSError, ValueError):
        return None


def _left_of_address_space() -> int | None:
    """Of what `ulimit -v` allows."""
    import resource  # not on every system

    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    used = _kilobytes("/proc/self/status", "VmSize")
    return None if most == resource.RLIM_INFINITY or used is None else max(0, most - used)


def _left_of_group() -> int | None:
    """Of what a container may take: pages of files do not count, because the kernel gives them back."""
    try:
        group = Path("/sys/fs/cgroup")
        most, used = (group / "memory.max").read_text(encoding="ascii"), (group / "memory.current").read_text()
        files = (group / "memory.stat").read_text().partition("\nfile ")[2].split("\n")[0]
        return max(0, int(most) - int(used) + int(files or 0))
    except (OSError, ValueError):  # no group, or no limit ("max")
        return None
