"""Tables that workers write themselves to a storage that all of them reach; the run's folder has receipts only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from benchmark.tables import same_tables
from benchmark.test_shards import content
from benchmark.test_store import fill, manifest, part
from wherefrom.benchmark import Run, RunPlan
from wherefrom.benchmark.cluster import merge_on_ray
from wherefrom.benchmark.parts import store_tables
from wherefrom.benchmark.receipts import examples_kept
from wherefrom.benchmark.run import run
from wherefrom.benchmark.storage import Storage
from wherefrom.benchmark.store import open_store
from wherefrom.benchmark.tables import TABLES
from wherefrom.core.files import write_atomically
from wherefrom.errors import BadFile

PARTS = 3


@pytest.fixture(params=["a folder", "file://", "memory://"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A storage of each kind, empty."""
    if request.param == "memory://":
        yield f"memory://{uuid4().hex}"
        MemoryFileSystem.store.clear()
    else:
        yield f"{'file://' if request.param == 'file://' else ''}{tmp_path / 'shared'}"


def names(root: str) -> list[str]:
    """The files of a storage."""
    if root.startswith("memory://"):
        return sorted(MemoryFileSystem().find(root))
    return sorted(str(path) for path in Path(root.removeprefix("file://")).rglob("*") if path.is_file())


def test_a_storage_keeps_files(root: str) -> None:
    storage = Storage(root)
    assert storage.size("scores/a") is None
    storage.write("scores/a", b"some bytes", "table")
    storage.write("scores/b", memoryview(b"others"), "table")
    assert (storage.size("scores/a"), len(names(root))) == (10, 2)
    with storage.open("scores/a") as file:
        assert file.read() == b"some bytes"
    assert storage.digest("scores/a") == hashlib.sha256(b"some bytes").hexdigest()
    storage.remove("scores/a")
    storage.remove("scores/a")  # which is gone already
    assert storage.size("scores/a") is None
    with pytest.raises(BadFile, match="scores/a"), storage.open("scores/a"):
        pass


def filled(folder: Path, root: str, numbers: list[int]) -> None:
    with open_store(folder, manifest(PARTS), root) as store:
        store.check()
        for number in numbers:
            store.write(number, store_tables(part(number), number, Path("nowhere"), root))


def tables_in(folder: Path) -> list[Path]:
    return [path for table in TABLES for path in (folder / table).iterdir()]


def test_the_folder_has_receipts_and_the_storage_tables(tmp_path: Path, root: str) -> None:
    folder = tmp_path / "run"
    filled(folder, root, [0, 2])
    assert Run.load(folder).done == [0, 2]
    filled(folder, root, [1])
    fill(tmp_path / "here", [0, 1, 2], PARTS)
    known = content(Run.load(tmp_path / "here"))
    assert content(Run.load(folder)) == known
    assert (tables_in(folder), len(names(root))) == ([], 3 * PARTS)
    with open_store(folder, manifest(PARTS), root) as store:
        store.check()
        store.compact()
    assert (tables_in(folder), len(names(root))) == ([], 3)
    found = Run.load(folder)
    assert found.finished
    assert content(found) == known
    pd.testing.assert_frame_equal(found.scores, Run.load(tmp_path / "here").scores)


def test_killed_at_every_step_of_merging_in_a_storage(
    tmp_path: Path, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def stopped(folder: Path, at: int) -> bool:
        steps = iter(range(1000))

        def step(function: Any) -> Any:
            def call(*arguments: Any, **more: Any) -> Any:
                if next(steps) >= at:
                    raise Killed
                return function(*arguments, **more)

            return call

        with monkeypatch.context() as patch, open_store(folder, manifest(PARTS), root) as store:
            store.check()
            for owner, name in ((Storage, "write"), (Storage, "remove"), (Path, "unlink")):
                patch.setattr(owner, name, step(getattr(owner, name)))
            patch.setattr("wherefrom.benchmark.receipts.write_atomically", step(write_atomically))
            try:
                store.compact()
            except Killed:
                return True
        return False

    fill(tmp_path / "here", [0, 1, 2], PARTS)
    known, at = content(Run.load(tmp_path / "here")), 0
    while True:
        folder = tmp_path / str(at)
        filled(folder, root, [0, 1, 2])
        if not stopped(folder, at):
            break
        assert content(Run.load(folder)) == known
        assert examples_kept(folder) == 2 * PARTS
        with open_store(folder, manifest(PARTS), root) as store:
            assert store.check() == ({0, 1, 2}, [])
            store.compact()
        assert content(Run.load(folder)) == known
        at += 1
    assert at >= 4 + 4 * PARTS


def test_a_worker_that_was_given_up_changes_nothing(tmp_path: Path, root: str) -> None:
    """It may still write a part that another worker has made, with other times in it."""
    folder = tmp_path / "run"
    filled(folder, root, [0, 1, 2])
    before = content(Run.load(folder))
    store_tables(part(5), 1, Path("nowhere"), root)
    assert content(Run.load(folder)) == before


def test_a_table_that_is_gone_is_damage(tmp_path: Path, root: str) -> None:
    folder = tmp_path / "run"
    filled(folder, root, [0, 1])
    Storage(root).remove(Run.load(folder).stored[1].file("scores"))
    with pytest.raises(BadFile, match=r"is missing. Run 'wherefrom run' again"):
        Run.load(folder)
    with open_store(folder, manifest(PARTS), root) as store:
        done, (damage,) = store.check()
        assert (done, damage.number) == ({0}, 1)


def test_a_run_goes_on_in_another_storage(tmp_path: Path, root: str) -> None:
    folder = tmp_path / "run"
    fill(folder, [0], PARTS)
    filled(folder, str(tmp_path / "other"), [1])
    filled(folder, root, [2])
    fill(tmp_path / "here", [0, 1, 2], PARTS)
    known = content(Run.load(tmp_path / "here"))
    assert content(Run.load(folder)) == known
    with open_store(folder, manifest(PARTS), root, merge_on_ray) as store:  # no cluster: it is merged here
        store.check()
        store.compact()
    assert content(Run.load(folder)) == known
    assert not tables_in(folder)
    assert len(names(root)) == 3


def test_a_storage_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadFile, match="nosuch://there cannot be opened as a storage"):
        Storage("nosuch://there")

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("access denied")

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", refuse)
    with pytest.raises(BadFile, match=r"part 0 of the run could not be written to memory://x/.*: access denied"):
        store_tables(part(0), 0, tmp_path, "memory://x")


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_run_whose_workers_write_themselves(tmp_path: Path, model_folder: Path, texts: Path, workers: int) -> None:
    given: dict[str, Any] = {"methods": ["random"], "metrics": ["aopc"], "examples_per_part": 3, "limit": 7}
    given["model"] = str(model_folder)
    known = run(RunPlan(str(texts), **given, workers=1), tmp_path / "here")
    shared = tmp_path / "shared"
    found = run(RunPlan(str(texts), **given, workers=workers, storage=shared), tmp_path / "run")
    same_tables(found, known)
    assert not tables_in(tmp_path / "run")
    assert len(names(str(shared))) == 3
    assert found.plan.storage == str(shared)
