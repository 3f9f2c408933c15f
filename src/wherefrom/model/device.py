"""Where a model runs: which device, how numbers get there, and how much memory it has left.

Everything that treats an accelerator unlike the processor stands here. It was written without one at hand: tests go
through it with stand-ins and with the `meta` device, and nothing of it was measured.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor, nn

from wherefrom.errors import BadOption

DeviceSpec = str | torch.device


def device_named(spec: DeviceSpec) -> torch.device:
    """The device of that name, whether or not this machine has it."""
    try:
        return torch.device(spec)
    except (RuntimeError, TypeError) as error:
        raise BadOption(f"There is no device {spec!r}. Take cpu, cuda, mps or another that torch knows.") from error


def move(network: nn.Module, device: DeviceSpec) -> None:
    """Move a network, in place."""
    try:
        network.to(device)
    except Exception as error:  # AssertionError, RuntimeError and others, by the build of torch and by the device
        first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise BadOption(f"The model cannot be moved to the device {str(device)!r}: {first}") from error


def put(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Numbers on a device. To a graphics card from pinned memory, so that the copy does not hold up the processor: what
    uses it there comes behind it in the same stream.
    """
    if device.type != "cuda":
        return torch.tensor(rows, device=device)
    return torch.tensor(rows).pin_memory().to(device, non_blocking=True)


def free_on_accelerator(device: torch.device) -> int | None:
    """How many bytes can still be allocated there: what the driver has free, and what torch's allocator keeps without
    using it. None where this is not known.
    """
    if device.type != "cuda":
        return None
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + max(0, kept)


def give_back_memory() -> None:
    """Have torch hand back the pieces of a graphics card's memory that it keeps without using them, before something
    smaller is tried: many small pieces may be free and no large one.
    """
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def trim_heap() -> None:
    """Have the C library hand back memory that was freed. It keeps pages between small things that are still in use, so
    that a process which computes for hours would grow. A few milliseconds; only where there is such a function (glibc).
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
