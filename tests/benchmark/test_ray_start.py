"""Ray that does not start: one clear error, and no process left behind."""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wherefrom.benchmark.cluster import ClusterNotStarted, on_ray
from wherefrom.benchmark.plan import RunPlan
from wherefrom.core.example import Example

ray = pytest.importorskip("ray")
psutil = pytest.importorskip("psutil")

TOO_SLOW = "The current node timed out during startup. This could happen because some of the raylet failed to startup."
PARENT = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', '{0}']); {0}".format(
    "import time; time.sleep(600)"
)


@pytest.fixture
def bystander() -> Iterator[Any]:
    """A process of the user's program that has nothing to do with Ray."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def failing_start(error: BaseException, started: list[Any]) -> Callable[..., None]:
    """A `ray.init` that starts two processes, one by the other, and fails, as Ray's does on a busy machine."""

    def init(**_: Any) -> None:
        program = str(Path(ray.__file__).parent / "raylet")
        parent = psutil.Popen([sys.executable, "-c", PARENT, program])
        while not parent.children():
            time.sleep(0.01)
        started.extend([parent, *parent.children()])
        raise error

    return init


def start(address: str | None = None) -> None:
    list(on_ray(RunPlan("films.csv"), [(0, [Example("1", "a film")])], 1, address))


@pytest.mark.parametrize(
    ("error", "address", "expected", "message"),
    [
        (Exception(TOO_SLOW), None, ClusterNotStarted, r"could not start on this machine: .*timed out.*--engine local"),
        (ConnectionError(""), None, ClusterNotStarted, r"could not start on this machine: ConnectionError"),
        (RuntimeError("No reply.\nat x"), "auto", ClusterNotStarted, r"no Ray cluster at auto: No reply\. Start one"),
        (KeyboardInterrupt(), None, KeyboardInterrupt, "^$"),
    ],
)
def test_a_start_that_fails_leaves_no_process(
    error: BaseException,
    address: str | None,
    expected: type[BaseException],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    bystander: Any,
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(ray, "init", failing_start(error, started))
    try:
        with pytest.raises(expected, match=message) as raised:
            start(address)
        assert "\n" not in str(raised.value)
        assert len(started) == 2
        assert not [process for process in started if process.is_running() and process.status() != "zombie"]
        assert bystander.poll() is None
    finally:
        for process in started:
            if process.is_running():
                process.kill()
        started[0].wait()


@pytest.mark.parametrize("address", ["127.0.0.1:{}", "[::1]:{}", "host.invalid:{}", "127.0.0.1:99999"])
def test_an_address_where_nobody_answers(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself would try for minutes."""
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray was started"))
    with socket.socket() as closed:  # bound, and nobody listens
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(ClusterNotStarted, match=r"There is no Ray cluster at .*: .*\. Start one by") as raised:
            start(address.format(closed.getsockname()[1]))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("address", ["127.0.0.1:{}", "localhost:{}"])
def test_an_address_where_somebody_answers(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: Any) -> None:
        raise RuntimeError("This is another server")

    monkeypatch.setattr(ray, "init", init)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(ClusterNotStarted, match=r"This is another server\. Start one"),
    ):
        start(address.format(server.getsockname()[1]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_real_node_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray._private import node, services

    def never(*_: Any) -> None:
        raise RuntimeError("This node is not known yet.")

    hours = iter(range(0, 10**6, 3600))  # each look at the clock is an hour later
    monkeypatch.setattr(services, "get_node", never)
    monkeypatch.setattr(node, "time", SimpleNamespace(**{**vars(time), "monotonic": lambda: next(hours)}))
    monkeypatch.setenv("RAY_gcs_server_port_wait_time_s", "600")
    with pytest.raises(ClusterNotStarted, match="The current node timed out during startup"):
        start()
    left = [child.cmdline() for child in psutil.Process().children(recursive=True) if child.status() != "zombie"]
    assert not [line for line in left if any("ray" in Path(argument).parts for argument in line)]
    assert not ray.is_initialized()
    gc.collect()  # Ray's handles of its processes warn when they are collected, here and not in a later test
