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

import filelock  # noqa: F401  # before any process is forked, so that none has to load it
import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import torch

from wherefrom import load
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run
from wherefrom.progress import OnProgress

KILLS = 20
PARTS = 2  # an attempt makes no more of them, so that the run is not at its end before all kills, however fast it is


def wait_to_be_killed() -> OnProgress:
    """On progress, wait for ever after so many parts."""
    before: list[int] = []

    def on_progress(done: int, _: int) -> None:
        before.append(done)
        while done - before[0] >= PARTS:
            signal.pause()

    return on_progress


def attempt(settings: dict[str, Any], out: Path, moment: Callable[[int], None] | None) -> None:
    """One attempt in a process of its own, killed when `moment` is over, which is called with its number; or not."""
    child = os.fork()
    if child == 0:
        try:
            run(RunPlan(**settings), out, on_progress=None if moment is None else wait_to_be_killed())
        except BaseException as error:
            print(f"failed: {error!r}", flush=True)
            os._exit(3)
        os._exit(0)
    if moment is not None:
        moment(child)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if (moment is not None) != os.WIFSIGNALED(status) or (moment is None and status):
        sys.exit(f"an attempt ended with {status}")


def main() -> None:
    torch.set_num_threads(1)
    settings, chance = json.loads(sys.argv[1]), random.Random()
    settings["model"] = load(settings["model"])
    folder, stamps = Path(settings.pop("out")), dict[str, int]()

    def at_once(_: int) -> None:
        """While it starts, reads the data and looks at what is there."""
        time.sleep(chance.uniform(0.0, 0.2))

    def at_work(child: int) -> None:
        """Some time after it has made a part, which may be within the next one or while it is written."""
        before = len(list(folder.glob("receipts/0*.json")))
        while len(list(folder.glob("receipts/0*.json"))) == before:
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return  # it failed, as is said below
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.15))

    for number in range(KILLS):
        attempt(settings, folder, at_once if number % 4 == 3 else at_work)
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
