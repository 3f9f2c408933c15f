"""Run `wherefrom study` in processes that are killed by SIGKILL, then let it end. Prints where each attempt began.

A program of its own: torch is loaded once, and every attempt is a process that is forked from here.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

import wherefrom.progress
from wherefrom.cli import main as cli
from wherefrom.progress import OnProgress
from wherefrom_studies import training
from wherefrom_studies.attcat import study  # noqa: F401  # before any process is forked

TRAINING, MEASURING = "steps of training", "texts of"
RESUMABLE = {TRAINING: f"models/*/{training.CHECKPOINT}", MEASURING: "runs/*/receipts/*.json"}


def attempt(arguments: list[str], out: Path, killed_while: str | None) -> None:
    """One attempt in a process of its own. It is killed in the middle of this piece of work, once there is something to
    go on from; or not at all.
    """
    child = os.fork()
    if child == 0:

        @contextmanager
        def watch(what: str) -> Iterator[OnProgress]:
            began = False

            def moved(done: int, everything: int) -> None:
                nonlocal began
                if not began:
                    print(json.dumps([out.name, what.partition(" sst2")[0], done, everything]), flush=True)
                    began = True
                middle = killed_while is not None and what.startswith(killed_while) and 0 < done < everything
                if middle and any(out.glob(RESUMABLE[killed_while or ""])):
                    os.kill(os.getpid(), signal.SIGKILL)

            yield moved

        wherefrom.progress.bar = watch  # type: ignore[assignment]
        sys.argv = ["wherefrom", "study", "attcat", "--out", str(out), *arguments]
        code = 3
        try:
            cli.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    wanted = 0 if killed_while is None else signal.SIGKILL
    if os.waitstatus_to_exitcode(status) != -wanted:
        sys.exit(f"an attempt that was to end with {-wanted} ended with {os.waitstatus_to_exitcode(status)}")


def main() -> None:
    torch.set_num_threads(1)
    training.SECONDS_BETWEEN_CHECKPOINTS = -1.0  # one after every step
    root, *arguments = sys.argv[1:]
    attempt(arguments, Path(root) / "whole", None)
    for moment in (TRAINING, MEASURING, None):
        attempt(arguments, Path(root) / "killed", moment)


main()
