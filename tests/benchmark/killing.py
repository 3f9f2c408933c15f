"""Run a benchmark that is killed at random moments, again and again, then let it end. Prints how often it was killed.

A program of its own: torch is loaded once, and every attempt is a process that is forked from here and killed by
SIGKILL.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from wherefrom import load
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run

KILLS = 20


def attempt(settings: dict[str, Any], out: Path, moment: Callable[[], None] | None) -> bool:
    """One attempt in a process of its own, killed when `moment` is over; True if it was killed, False if it came to its
    end.
    """
    child = os.fork()
    if child == 0:
        try:
            run(RunPlan(**settings), out)
        except BaseException as error:
            print(f"failed: {error!r}", flush=True)
            os._exit(3)
        os._exit(0)
    if moment is not None:
        moment()
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
        sys.exit(3)
    return os.WIFSIGNALED(status)


def main() -> None:
    torch.set_num_threads(1)
    settings, chance = json.loads(sys.argv[1]), random.Random()
    settings["model"] = load(settings["model"])
    folder, stamps = Path(settings.pop("out")), dict[str, int]()

    def at_once() -> None:
        """While it starts, reads the data and looks at what is there."""
        time.sleep(chance.uniform(0.0, 0.2))

    def at_work() -> None:
        """Some time after it has made a part, which may be within the next one or while it is written."""
        before = len(list(folder.glob("receipts/0*.json")))
        while len(list(folder.glob("receipts/0*.json"))) == before:
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.15))

    for number in range(KILLS):
        if not attempt(settings, folder, at_once if number % 4 == 3 else at_work):
            sys.exit(f"it ended after {number} kills: give it more to do")
        unchanged(folder, stamps)
    parts = len(stamps)
    attempt(settings, folder, None)
    unchanged(folder, stamps)
    print(json.dumps({"kills": KILLS, "parts_before_the_end": parts}))


def unchanged(folder: Path, stamps: dict[str, int]) -> None:
    """What was done once is not done twice."""
    for receipt in folder.glob("receipts/0*.json"):
        now = receipt.stat().st_mtime_ns
        if stamps.setdefault(receipt.name, now) != now:
            sys.exit(f"{receipt} was made twice")


main()
