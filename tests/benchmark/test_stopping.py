"""A run that is stopped says what was kept and how to go on; one that loses a worker gets another."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmark.films import TEXTS
from wherefrom.benchmark import Run
from wherefrom.benchmark.engines import REPLACEMENTS, WorkerLost, WorkerReplaced, in_processes
from wherefrom.benchmark.parts import Part
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run
from wherefrom.core.example import Example

COUNT = 5000  # so many that no run comes to its end before it is stopped
PLAN: dict[str, Any] = {"methods": ("attcat", "random"), "metrics": ("aopc",), "examples_per_part": 1}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "many.jsonl"
    rows = [{"id": f"m{number}", "text": f"{TEXTS[number % len(TEXTS)]} !"} for number in range(COUNT)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs groups of processes")
@pytest.mark.parametrize(
    ("sent", "workers", "code"), [(signal.SIGINT, 2, 130), (signal.SIGTERM, 2, 143), (signal.SIGINT, 1, 130)]
)
@pytest.mark.slow
def test_a_stopped_run_says_what_was_kept(
    tmp_path: Path, model_folder: Path, many: Path, sent: signal.Signals, workers: int, code: int
) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "wherefrom", "run", str(many), "--out", str(out), "--model", str(model_folder)]
    command += ["--methods", "attcat,random", "--metrics", "aopc", "--part", "1", "--workers", str(workers)]
    started: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **started, start_new_session=True) as process:
        while not list(out.glob("receipts/0*.json")):
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.01)
        if sent == signal.SIGINT:
            os.killpg(process.pid, sent)  # as a terminal does: to all processes of the command
        else:
            process.send_signal(sent)
        told, problems = process.communicate(timeout=600)
    assert (process.returncode, told) == (code, "")
    # What the run will cost comes before it, and where the machine is busy for half a minute, lines of progress.
    found = re.fullmatch(
        r"(?:(?:[\d,]+ examples x|by the first part:|[\d,]+ of [\d,]+ examples).*\n)*"
        rf"stopped: (\d+) of {COUNT} examples are kept in {re.escape(str(out))}; the same command resumes.\n",
        problems,
    )
    assert found, problems
    assert len(Run.load(out).done) == int(found[1]) >= 1


def chunks(count: int) -> list[tuple[int, list[Example]]]:
    return [(number, [Example(str(number), TEXTS[number % len(TEXTS)])]) for number in range(count)]


def children(of: int | None = None) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            if parent == (of or os.getpid()) and b"spawn_main" in (entry.parent / "cmdline").read_bytes():
                found.append(int(entry.parent.name))
        except (OSError, IndexError):
            continue
    return found


def work_while_killing(plan: RunPlan, count: int, *, always: bool) -> list[int]:
    """The numbers of the parts that come back, while workers are killed: one of them, or all after every part."""
    before, seen = set(children()), list[int]()
    for number, part in in_processes(plan, iter(chunks(count)), 2):
        assert isinstance(part, Part)
        assert [row["example"] for row in part.explanations] == [str(number)]
        victims = [worker for worker in children() if worker not in before]
        for worker in victims if always else victims[: not seen]:
            os.kill(worker, signal.SIGKILL)
        seen.append(number)
    return seen


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_nothing_is_lost_or_done_twice(model_folder: Path) -> None:
    plan = RunPlan("", model=str(model_folder), methods=["random"], metrics=["entropy"])
    with pytest.warns(WorkerReplaced, match="It is replaced"):
        seen = work_while_killing(plan, 12, always=False)
    assert sorted(seen) == list(range(12))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.slow
def test_workers_are_not_replaced_for_ever(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert REPLACEMENTS > 0
    monkeypatch.setattr("wherefrom.benchmark.engines.REPLACEMENTS", 0)
    plan = RunPlan("", model=str(model_folder), methods=["random"], metrics=["entropy"])
    before = set(children())
    with pytest.raises(WorkerLost, match="What was done is kept"):
        work_while_killing(plan, 60, always=True)
    assert not set(children()) - before


KILLED = """
from pathlib import Path
from wherefrom.benchmark.engines import in_processes

class Starting:
    def __reduce__(self):
        return exec, ("import time; open({path!r}, 'a').write('.'); time.sleep(3600)",)

if __name__ == "__main__":
    list(in_processes(Starting(), iter([(0, []), (1, [])]), 2))
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.slow
def test_workers_that_are_still_starting_end_with_a_killed_parent(tmp_path: Path) -> None:
    """What a worker is started with is still being read, which here takes an hour."""
    started, script = tmp_path / "started", tmp_path / "script.py"
    script.write_text(KILLED.format(path=str(started)))
    with subprocess.Popen([sys.executable, str(script)]) as process:
        while not started.exists() or len(started.read_text()) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        workers = children(process.pid)
        process.kill()
    assert len(workers) == 2
    end = time.monotonic() + 60
    while any(Path(f"/proc/{worker}/cmdline").exists() for worker in workers):
        assert time.monotonic() < end, "the workers outlive their parent"
        time.sleep(0.05)


def test_the_same_plan_in_processes(tmp_path: Path, model_folder: Path, many: Path) -> None:
    """What replaces a worker changes no number."""
    given = PLAN | {"model": str(model_folder), "limit": 6}
    one, two = (run(RunPlan(str(many), **given, workers=count), tmp_path / str(count)) for count in (1, 2))
    assert one.scores.equals(two.scores)
