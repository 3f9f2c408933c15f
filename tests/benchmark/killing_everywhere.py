"""Kill a small run at every operation that changes its folder, let it go on, and compare it with the undisturbed run.

A program of its own: torch and the model are loaded once, and every attempt is a process that is forked from here, in
which the operations that change a folder are counted. It is killed by SIGKILL before the n-th one, in the middle where
that writes, or at the end. So the moments do not depend on the machine's speed. None is left out: between two of these
operations nothing changes the folder, which an audit hook watches.

Times are the only thing in which two runs differ. The clock that measures them stands still here, so that whole files
can be compared, byte by byte. Prints what was done as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import filelock  # noqa: F401  # before any process is forked, so that none has to load it
import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import torch

from wherefrom import load
from wherefrom.benchmark.datasets import DataSet
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.receipts import examples_kept
from wherefrom.benchmark.run import run
from wherefrom.benchmark.store import MANIFEST, Store, read_manifest
from wherefrom.core.files import UNFINISHED

WRITE = "write_bytes"
SHARD = "scores/00000-00001.parquet"  # both parts of the run
OPERATIONS: tuple[tuple[Any, str], ...] = (
    (Path, WRITE),
    (os, "fsync"),
    (os, "replace"),
    (os, "rename"),
    (os, "unlink"),
    (os, "mkdir"),
)
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"}  # audit events


class Operations:
    """Counts the operations of this process, and kills it at one of them.

    moment: the operation's number, and whether it is killed before or halfway through it.
    """

    def __init__(self, folder: Path, moment: tuple[int, str] | None) -> None:
        self.folder, self.moment = folder, moment
        self.seen: list[str] = []
        self.uncounted: list[str] = []
        self.inside = False
        for holder, name in OPERATIONS:
            setattr(holder, name, self._counted(name, getattr(holder, name)))
        sys.addaudithook(self._audit)

    def _counted(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            number = len(self.seen)
            self.seen.append(name)
            if self.moment == (number, "before"):
                die()
            if self.moment == (number, "half"):
                path, content = args
                with path.open("wb") as file:
                    file.write(content[: len(content) // 2])
                die()
            self.inside = True
            try:
                return original(*args, **options)
            finally:
                self.inside = False

        return counted

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Note whatever changes the folder and is not counted: a moment at which nobody tried to kill it."""
        opens_to_write = event == "open" and isinstance(args[0], str) and args[2] & (os.O_WRONLY | os.O_RDWR)
        if self.inside or not (opens_to_write or event in CHANGES):
            return
        path = Path(os.fspath(args[0]))
        if self.folder in path.parents and path.name != "lock":
            self.uncounted.append(f"{event} {path}")


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it outlived SIGKILL")


def attempt(
    settings: dict[str, Any], folder: Path, moment: tuple[int, str] | None, *, count: bool = False
) -> list[str]:
    """The run in a process of its own, killed at the moment. Gives the names of the operations if they are counted."""
    noted = folder.with_name("operations.json")
    child = os.fork()
    if child == 0:
        try:
            time.perf_counter = lambda: 0.0
            started: list[int] = []
            operations = Operations(folder, moment) if count or moment is not None else None
            run(RunPlan(**settings), folder, on_progress=lambda done, _: started.append(done))
            folder.with_name("started.json").write_text(str(started[0]))
            if moment is not None:
                die()
            if operations is not None:
                with noted.open("w") as file:
                    json.dump([operations.seen, operations.uncounted], file)
        except BaseException:
            traceback.print_exc()
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if moment is not None:
        if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            sys.exit(f"it should have been killed at {moment}, but ended with {status}")
        return []
    if status:
        sys.exit(f"an attempt that nobody disturbed ended with {status}")
    if not count:
        return []
    seen, uncounted = json.loads(noted.read_text())
    if uncounted:
        sys.exit(f"changes of the folder that are not counted: {uncounted}")
    return list(seen)


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a run but those that are set aside; of the manifest what holds for every attempt."""
    found = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock" and path.parent.name != "aside"
    }
    if MANIFEST in found:
        manifest = {name: value for name, value in read_manifest(folder).items() if name not in ("started", "sum")}
        found[MANIFEST] = json.dumps(manifest).encode()
    return found


def uncompacted(settings: dict[str, Any], folder: Path) -> dict[str, bytes]:
    """The files of the undisturbed run before its parts become a shard."""
    child = os.fork()
    if child == 0:
        time.perf_counter = lambda: 0.0
        Store.compact = lambda *_: None  # type: ignore[method-assign]
        run(RunPlan(**settings), folder)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"the run whose parts stay parts ended with {status}")
    return content(folder)


def kill_everywhere(
    settings: dict[str, Any],
    whole: dict[str, bytes],
    parts: dict[str, bytes],
    folder: Path,
    prepare: Callable[[], None] = lambda: None,
    *,
    until: str | None = None,
    damaged: tuple[str, ...] = (),
) -> Counter[str]:
    """Kill the run at each of its operations, every time from the beginning. How often it was killed, by the moment.

    whole: the files of the undisturbed run. parts: those that it had before its parts became a shard.
    prepare: makes the folder as it is before the run, where there is something.
    until: the first operation of this name is the last that is tried.
    damaged: files that are damaged before the run; they are whole after it.
    """
    prepare()
    operations = attempt(settings, folder, None, count=True)
    shutil.rmtree(folder)
    if until is not None:
        operations = operations[: operations.index(until) + 1]
    moments = [(number, name, "before") for number, name in enumerate(operations)]
    moments += [(number, name, "half") for number, name in enumerate(operations) if name == WRITE]
    moments += [] if until is not None else [(len(operations), "end", "at")]
    for number, name, when in moments:
        prepare()
        attempt(settings, folder, (number, when))
        where = f"killed {when} {name}, operation {number} of {len(operations)}"
        for file, found in content(folder).items():
            if not Path(file).name.startswith(UNFINISHED) and file not in damaged and found != (whole | parts)[file]:
                sys.exit(f"{where}: {file} is neither whole nor missing")
        kept = examples_kept(folder)
        attempt(settings, folder, None)
        found_now = content(folder)
        if found_now != whole:
            other = sorted(file for file in found_now.keys() | whole if found_now.get(file) != whole.get(file))
            sys.exit(f"{where}: {other} is not as in the undisturbed run")
        if not damaged and int(folder.with_name("started.json").read_text()) != kept:
            sys.exit(f"{where}: a part was made twice")
        if damaged and len(list((folder / "aside").iterdir())) != 4:
            sys.exit(f"{where}: not everything of the damaged part was set aside")
        shutil.rmtree(folder)
    return Counter(f"{when} {name}" for _, name, when in moments)


def main() -> None:
    torch.set_num_threads(1)
    settings = json.loads(sys.argv[1])
    settings["model"] = load(settings["model"])
    # What is found or made only once in a process, such as the readers of data sets, is made before any is forked.
    for example in DataSet(settings["data"], limit=1):
        settings["model"].compare(example.text, settings["methods"], settings["metrics"])
    out = Path(settings.pop("out")).resolve()
    undisturbed, folder = out / "undisturbed", out / "killed"
    attempt(settings, undisturbed, None)
    whole, parts = content(undisturbed), uncompacted(settings, out / "uncompacted")

    def with_damage() -> None:
        """A finished run, but one file was cut short, and a writer left its unfinished files behind."""
        shutil.copytree(undisturbed, folder)
        cut = folder / SHARD
        cut.write_bytes(cut.read_bytes()[:100])
        for parent in (folder, folder / "receipts"):
            (parent / f"{UNFINISHED}0123456789ab").write_bytes(b"{")

    fresh = kill_everywhere(settings, whole, parts, folder)
    repair = kill_everywhere(settings, whole, parts, folder, with_damage, until=WRITE, damaged=(SHARD,))
    print(json.dumps({"fresh": fresh, "repair": repair, "files": len(whole)}))


main()
