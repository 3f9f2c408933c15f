"""Shards: the same rows in few files, whatever happens while they are made."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow
import pyarrow.parquet as parquet
import pytest

from benchmark.test_store import damaged_receipt, fill, manifest, part
from wherefrom.benchmark import Run
from wherefrom.benchmark.parts import Part
from wherefrom.benchmark.receipts import StoredParts, alone_in, costs_in, examples_kept, numbers_in, read_receipt
from wherefrom.benchmark.shards import groups
from wherefrom.benchmark.store import open_store
from wherefrom.benchmark.tables import TABLES, encoded, merged
from wherefrom.errors import BadFile

PARTS = 5


@pytest.fixture
def apart(tmp_path: Path) -> Path:
    """A finished run whose parts are still parts."""
    fill(tmp_path / "apart", [2, 0, 1, 4, 3], PARTS)
    return tmp_path / "apart"


def compacted(folder: Path) -> None:
    with open_store(folder, manifest(PARTS)) as store:
        store.check()
        store.compact()


def same(one: Run, other: Run) -> None:
    for table in TABLES:
        assert list(one.rows(table)) == list(other.rows(table))
        pd.testing.assert_frame_equal(getattr(one, table), getattr(other, table))
    pd.testing.assert_frame_equal(one.costs, other.costs)
    pd.testing.assert_frame_equal(one.alone, other.alone)
    assert one.done == other.done


def content(run: Run) -> list[Any]:
    """All rows and all costs, without pandas, which takes its time."""
    receipts = [read_receipt(run.folder, one.first, one.last) for one in run.stored]
    costs = [cost for body in receipts for cost in (*costs_in(body), *alone_in(body))]
    return [run.done, sorted(map(str, costs)), *(list(run.rows(table)) for table in TABLES)]


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != "lock")


WHOLE = [
    "errors/00000-00004.parquet",
    "explanations/00000-00004.parquet",
    "manifest.json",
    "receipts/00000-00004.json",
    "scores/00000-00004.parquet",
]


def test_a_shard_holds_what_its_parts_held(apart: Path, tmp_path: Path) -> None:
    shutil.copytree(apart, tmp_path / "run")
    compacted(tmp_path / "run")
    assert files(tmp_path / "run") == WHOLE
    found = Run.load(tmp_path / "run")
    assert found.finished
    same(found, Run.load(apart))
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "run" / "scores"), found.scores)
    assert examples_kept(tmp_path / "run") == examples_kept(apart) == 2 * PARTS
    with open_store(tmp_path / "run", manifest(PARTS)) as store:
        assert store.check() == (set(range(PARTS)), [])
        store.compact()  # there is nothing left to do
    assert files(tmp_path / "run") == WHOLE


def test_rows_of_one_method_and_of_some_columns(tmp_path: Path) -> None:
    both = part(0)
    other = part(1)
    both.explanations.append(both.explanations[0] | {"method": "random"})
    with open_store(tmp_path / "run", manifest(2)) as store:
        store.write(0, both)
        store.write(1, other)
        store.compact()
    run = Run.load(tmp_path / "run")
    assert [row["method"] for row in run.rows("explanations")] == ["attcat", "random", "attcat"]
    assert list(run.rows("explanations", "random", columns=["example", "method"])) == [
        {"example": "e0", "method": "random"}
    ]


def test_only_neighbours_become_one_shard(tmp_path: Path) -> None:
    """Part 3 is missing; when it comes, it is put between the shards."""
    folder = tmp_path / "run"
    fill(folder, [0, 1, 2, 4, 5], 6)
    with open_store(folder, manifest(6)) as store:
        store.check()
        store.compact()
        assert sorted(path.name for path in (folder / "scores").iterdir()) == [
            "00000-00002.parquet",
            "00004-00005.parquet",
        ]
        assert Run.load(folder).done == [0, 1, 2, 4, 5]
        store.write(3, part(3))
        store.compact()
    assert [path.name for path in (folder / "receipts").iterdir()] == ["00000-00005.json"]
    fill(tmp_path / "apart", list(range(6)), 6)
    same(Run.load(folder), Run.load(tmp_path / "apart"))


def stored(*sizes: int, first: int = 0) -> list[StoredParts]:
    return [StoredParts(first + place, first + place, size=size) for place, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (stored(), []),
        (stored(1), []),
        (stored(1, 1, 1), [(0, 2)]),
        (stored(40, 40, 40, 40), [(0, 2)]),  # three reach 100; the fourth waits for others
        (stored(40, 40, 40, 40, 40), [(0, 2), (3, 4)]),
        (stored(1, 1, 50, 1, 1), [(0, 1), (3, 4)]),  # what is half as large as a shard stays as it is
        (stored(1, 1) + stored(1, 1, 1, first=5), [(0, 1), (5, 7)]),
        ([StoredParts(0, 9, size=20), *stored(1, 1, first=10)], [(0, 11)]),
    ],
)
def test_what_becomes_one_shard(given: list[StoredParts], expected: list[tuple[int, int]]) -> None:
    assert [(group[0].first, group[-1].last) for group in groups(given, size=100)] == expected


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("00012", (12, 12)),
        ("00000-00012", (0, 12)),
        ("123456-1234567", (123456, 1234567)),
        ("12", None),
        ("00012-00012", None),
        ("00012-00003", None),
        ("000012", None),
        ("00001-0123456789ab", None),
    ],
)
def test_names_of_parts_and_shards(name: str, numbers: tuple[int, int] | None) -> None:
    assert numbers_in(name) == numbers


def test_parts_are_merged_while_a_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wherefrom.benchmark.store.PARTS_WAITING", 3)
    fill(tmp_path / "run", list(range(7)), 7)
    assert sorted(path.name for path in (tmp_path / "run" / "receipts").iterdir()) == ["00000-00005.json", "00006.json"]
    fill(tmp_path / "apart", list(range(3)), 7)
    (shard,) = (tmp_path / "apart" / "scores").iterdir()
    assert shard.name == "00000-00002.parquet"


def test_row_groups_are_as_large_as_they_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [part(number).scores for number in range(6)]
    contents = [encoded("scores", one) for one in rows]
    large = parquet.ParquetFile(pyarrow.BufferReader(merged("scores", contents)))
    assert large.num_row_groups == 1
    monkeypatch.setattr("wherefrom.benchmark.tables.GROUP", 1)
    small = parquet.ParquetFile(pyarrow.BufferReader(merged("scores", contents)))
    assert small.num_row_groups > 5
    assert large.read().to_pylist() == small.read().to_pylist() == [row for one in rows for row in one]


def test_what_an_earlier_version_did_not_keep_is_null_in_a_shard(apart: Path) -> None:
    file = apart / "explanations" / "00000.parquet"
    parquet.write_table(parquet.read_table(file).drop_columns(["rationale", "pair_rationale"]), file)
    sums = read_receipt(apart, 0)["sums"] | {"explanations": hashlib.sha256(file.read_bytes()).hexdigest()}
    damaged_receipt(apart, sums=sums)
    before = Run.load(apart).explanations
    compacted(apart)
    assert files(apart) == WHOLE
    pd.testing.assert_frame_equal(Run.load(apart).explanations, before)


class Killed(BaseException):
    pass


def counted(patch: pytest.MonkeyPatch, before: Callable[[int], None]) -> None:
    """Call `before` with a number in front of every operation that changes files."""
    steps = iter(range(10_000))

    def step(function: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            before(next(steps))
            return function(*arguments, **more)

        return call

    patch.setattr(os, "fsync", step(os.fsync))
    for name in ("replace", "write_bytes", "unlink"):
        patch.setattr(Path, name, step(getattr(Path, name)))


def stopped(folder: Path, at: int) -> bool:
    """Merge, with an end at the n-th operation; False where there are not so many."""

    def before(step: int) -> None:
        if step >= at:  # and nothing after it succeeds either, as after a kill
            raise Killed

    with pytest.MonkeyPatch.context() as patch, open_store(folder, manifest(PARTS)) as store:
        store.check()
        counted(patch, before)
        try:
            store.compact()
        except Killed:
            return True
    return False


@pytest.mark.parametrize("kind", ["parts", "a shard and parts", "two shards with a part between"])
def test_killed_at_every_step_of_merging(tmp_path: Path, apart: Path, kind: str) -> None:
    """Nothing is lost, nothing doubled: before anybody repairs it, and after."""
    known, start = content(Run.load(apart)), tmp_path / "start"
    first = {"parts": [0], "a shard and parts": [0, 1, 2], "two shards with a part between": [0, 1, 3, 4]}[kind]
    fill(start, first, PARTS)
    compacted(start)
    fill(start, [number for number in range(PARTS) if number not in first], PARTS)
    at = 0
    while True:
        folder = tmp_path / str(at)
        shutil.copytree(start, folder)
        if not stopped(folder, at):
            break
        assert content(Run.load(folder)) == known
        assert examples_kept(folder) == 2 * PARTS
        with open_store(folder, manifest(PARTS)) as store:
            assert store.check() == (set(range(PARTS)), [])
            store.compact()
        assert files(folder) == WHOLE
        assert content(Run.load(folder)) == known
        shutil.rmtree(folder)
        at += 1
    pieces = len(list((start / "receipts").iterdir()))
    assert at == 4 * 4 + 4 * pieces  # four files: written, flushed, named, the name flushed; and those that are removed


def test_a_run_goes_on_after_a_kill_while_parts_were_merged(tmp_path: Path) -> None:
    """The shard counts, remains of its parts do not, and the run's other parts are added to it."""
    folder = tmp_path / "run"
    fill(folder, [0, 1, 2], PARTS)
    assert stopped(folder, 18)  # the shard has its receipt; of part 0 two tables are gone
    with open_store(folder, manifest(PARTS)) as store:
        assert store.check() == ({0, 1, 2}, [])
        assert [path.name for path in (folder / "receipts").iterdir()] == ["00000-00002.json"]
        for number in (3, 4):
            store.write(number, part(number))
        store.compact()
    assert files(folder) == WHOLE


@pytest.mark.parametrize("table", [*TABLES, "receipts"])
def test_a_damaged_shard_is_set_aside_and_made_good(tmp_path: Path, apart: Path, table: str) -> None:
    known = Run.load(apart)
    shutil.copytree(apart, tmp_path / "run")
    folder = tmp_path / "run"
    compacted(folder)
    (file,) = (folder / table).iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(BadFile, match="Run 'wherefrom run' again"):
        Run.load(folder)
    with open_store(folder, manifest(PARTS)) as store:
        done, (damage,) = store.check()
        assert (done, damage.number, damage.last, damage.parts) == (set(), 0, PARTS - 1, PARTS)
        assert len(list((folder / "aside").iterdir())) == 4
        for number in range(PARTS):
            store.write(number, part(number))
        store.compact()
    same(Run.load(folder), known)


def test_parts_that_are_still_there_make_a_damaged_shard_good(tmp_path: Path, apart: Path) -> None:
    known = Run.load(apart)
    folder = tmp_path / "run"
    shutil.copytree(apart, folder)
    assert stopped(folder, 16)  # the shard is there, and all of its parts as well
    shard = folder / "scores" / "00000-00004.parquet"
    shard.write_bytes(b"")
    with open_store(folder, manifest(PARTS)) as store:
        done, (damage,) = store.check()
        assert (done, damage.parts) == (set(range(PARTS)), PARTS)
        store.compact()
    same(Run.load(folder), known)


def test_damage_does_not_get_a_right_checksum(apart: Path) -> None:
    """A part that is damaged after it was looked at is not merged."""
    with open_store(apart, manifest(PARTS)) as store:
        store.check()
        other = part(2).scores[:1]
        (apart / "scores" / "00002.parquet").write_bytes(encoded("scores", other))
        with pytest.raises(BadFile, match=r"00002.parquet was cut short or changed. Run 'wherefrom run' again"):
            store.compact()
    assert not list((apart / "receipts").glob("*-*"))
    with open_store(apart, manifest(PARTS)) as store:
        done, (damage,) = store.check()
        assert (done, damage.number) == ({0, 1, 3, 4}, 2)


def test_receipts_that_speak_of_the_same_parts(apart: Path) -> None:
    """Somebody put another run's shard into the folder: it is refused, and nothing is counted twice."""
    with open_store(apart, manifest(PARTS)) as store:
        store.check()
        store.compact()
    fill(apart.parent / "other", [3, 4, 5], 6)
    with open_store(apart.parent / "other", manifest(6)) as store:
        store.check()
        store.compact()
    rewritten = json.loads((apart / "manifest.json").read_text())
    assert rewritten["parts"] == PARTS
    for table in (*TABLES, "receipts"):
        (file,) = (apart.parent / "other" / table).iterdir()
        shutil.copy(file, apart / table)
    assert Run.load(apart).done == list(range(PARTS))  # it speaks of a part that this run does not have
    fill(apart.parent / "more", [0, 1, 2, 3], 6)
    with open_store(apart.parent / "more", manifest(6)) as store:
        store.check()
        store.compact()
    for table in (*TABLES, "receipts"):
        (file,) = (apart.parent / "other" / table).iterdir()
        shutil.copy(file, apart.parent / "more" / table)
    with pytest.raises(BadFile, match="speaks of parts that another receipt has as well"):
        Run.load(apart.parent / "more")


def test_an_empty_part_is_merged_as_well(tmp_path: Path) -> None:
    with open_store(tmp_path / "run", manifest(2)) as store:
        store.write(0, Part(costs={"examples": 0}))
        store.write(1, Part(costs={"examples": 0}))
        store.compact()
    run = Run.load(tmp_path / "run")
    assert run.done == [0, 1]
    assert run.scores.empty
