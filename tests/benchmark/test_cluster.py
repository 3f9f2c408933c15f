"""Ray on two nodes, which are two raylets on this machine: whatever is stopped or lost, the tables are those of a run
in one process.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmark.films import TEXTS
from benchmark.tables import same_tables
from wherefrom.benchmark import Run
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc"),
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]

COUNT = 200  # so many that no command comes to its end before it is stopped
MEMORY = 80_000_000  # of the object store, the least that Ray takes


@pytest.fixture(scope="module")
def texts_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "many.jsonl"
    rows = [{"id": f"m{number}", "text": TEXTS[number % len(TEXTS)]} for number in range(COUNT)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, model_folder: Path, texts_file: Path) -> Run:
    """The same run in this process."""
    return run(plan(model_folder, texts_file, workers=1), tmp_path_factory.mktemp("local") / "run")


def plan(model_folder: Path, texts_file: Path, **how: Any) -> RunPlan:
    given: dict[str, Any] = {"methods": ("random",), "metrics": ("aopc",), "examples_per_part": 1}
    return RunPlan(str(texts_file), model=str(model_folder), **given, **how)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head with room for one worker; a second node comes and goes."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": MEMORY}
    with pytest.MonkeyPatch.context() as patched:
        # By default Ray lets all else go first, and its workers would hardly ever run on a busy machine.
        patched.setenv("RAY_worker_niceness", "0")
        patched.setenv("RAY_worker_register_timeout_seconds", "600")
        try:
            found: Any = Cluster(initialize_head=True, head_node_args=head)
        except Exception as error:
            pytest.skip(f"Ray cannot start a cluster on this machine: {(str(error) or repr(error)).splitlines()[0]}")
        yield found
        found.shutdown()


@pytest.fixture
def second(cluster: Any) -> Iterator[Any]:
    node = cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
    yield node
    if node in cluster.list_all_nodes():
        cluster.remove_node(node)


def workers_of(node: Any) -> list[int]:
    """The processes of our workers on a node: those of its raylet that call themselves so."""
    raylet, found = node.all_processes["raylet"][0].process.pid, []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            if parent == raylet and b"ray::RayWorker" in (entry.parent / "cmdline").read_bytes():
                found.append(int(entry.parent.name))
        except (OSError, IndexError):
            continue
    return found


def receipts(out: Path) -> int:
    return len(list(out.glob("receipts/[0-9]*.json")))


@pytest.mark.usefixtures("second", "interruptible")
def test_the_command_is_stopped_and_killed_and_goes_on(
    tmp_path: Path, cluster: Any, local: Run, model_folder: Path, texts_file: Path
) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "wherefrom", "run", str(texts_file), "--out", str(out), "--part", "1"]
    command += ["--model", str(model_folder), "--methods", "random", "--metrics", "aopc"]
    command += ["--engine", "ray", "--address", cluster.address, "--workers", "2"]
    for sent, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        before = receipts(out)
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            while receipts(out) == before:
                assert process.poll() is None, process.communicate()
                time.sleep(0.01)
            os.killpg(process.pid, sent)  # as a terminal does: to all processes of the command
            told, problems = process.communicate(timeout=600)
        assert (process.returncode, told) == (code, ""), problems
        done = Run.load(out).done
        assert before < len(done) < COUNT
        if sent != signal.SIGKILL:
            stopped = f"stopped: {len(done)} of {COUNT} examples are kept in {out}; the same command resumes.\n"
            # What the run will cost comes before it, and where the machine is busy for half a minute, progress.
            lines = r"(?:(?:[\d,]+ examples x|by the first part:|[\d,]+ of [\d,]+ examples).*\n)*"
            assert re.fullmatch(lines + re.escape(stopped), problems), problems
    same = plan(model_folder, texts_file, engine="ray", address=cluster.address, workers=2)
    same_tables(run(same, out), local)


def test_a_worker_is_killed_and_a_node_is_removed(
    tmp_path: Path, cluster: Any, second: Any, local: Run, model_folder: Path, texts_file: Path
) -> None:
    happened: list[str] = []

    def disturb(done: int, _: int) -> None:
        if done == 5:
            while not all(map(workers_of, (cluster.head_node, second))):  # one on each: neither has room for two
                time.sleep(0.01)
            os.kill(workers_of(cluster.head_node)[0], signal.SIGKILL)
            happened.append("worker")
        if done == 50:
            cluster.remove_node(second, allow_graceful=False)
            happened.append("node")

    disturbed = plan(model_folder, texts_file, engine="ray", address=cluster.address, workers=2)
    found = run(disturbed, tmp_path / "run", on_progress=disturb)
    assert happened == ["worker", "node"]
    same_tables(found, local)
