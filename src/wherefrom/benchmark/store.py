"""The folder of a run: its manifest, and its results in parts, each of which is stored wholly or not at all.

    manifest.json            the plan, what was found about its data and model, versions, and a hash of these
    explanations/00012.parquet, scores/00012.parquet, errors/00012.parquet
    receipts/00012.json      written last: the checksums of the part's files, and what the part cost
    aside/                   damaged files, kept so that their damage can be examined

A part is done when its receipt is there and every file is as the receipt says. So a run may be killed at any moment.
Parts that are done are merged into shards (shards.py), which have such files and receipts as well.
"""

from __future__ import annotations

import json
import os
import time
from bisect import bisect
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wherefrom.benchmark.columns import explanation_of
from wherefrom.benchmark.parts import Part, PartInStorage, store_tables
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.receipts import (
    RECEIPTS,
    Damage,
    StoredParts,
    alone_in,
    checksum,
    costs_in,
    examined,
    numbers_in,
    read_receipt,
    receipt_path,
    write_receipt,
)
from wherefrom.benchmark.shards import PARTS_WAITING, SHARD_BYTES, Merging, groups, merge, merge_tables, remove
from wherefrom.benchmark.tables import TABLES, arrow_and_parquet, batches_of, joined, rows_of, schemas
from wherefrom.benchmark.words import WordSummary, summarise_words
from wherefrom.core.explanation import Explanation
from wherefrom.core.files import UNFINISHED, exists, json_text, named, write_atomically
from wherefrom.errors import BadFile, MissingExtra

if TYPE_CHECKING:
    import pandas

FORMAT = 3
MANIFEST = "manifest.json"


class FolderTaken(BadFile):
    """The folder belongs to a run by another plan, or contains other files."""


class FolderInUse(BadFile):
    """Another process is running in the folder."""


def _pandas() -> Any:
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise MissingExtra("Reading a run", "bench") from error
    return pandas


class Store:
    """A run's folder, open for writing. Only one process at a time has it (see `open_store`)."""

    def __init__(
        self, folder: Path, manifest: Mapping[str, Any], at: str | None = None, merging: Merging = merge_tables
    ) -> None:
        """at: the storage that shards go to, where it is not the folder. merging: writes the tables of a shard."""
        self.folder, self.manifest, self.at, self.merging = folder, manifest, at, merging
        self._stored: dict[int, StoredParts] = {}  # by the number of the first part
        self._waiting_parts = self._waiting_bytes = 0  # parts that came after the last merging

    @property
    def parts(self) -> int:
        return int(self.manifest["parts"])

    def check(self) -> tuple[set[int], list[Damage]]:
        """Which parts are done, and which are damaged. Damaged files are set aside, remains of what was interrupted are
        removed.
        """
        for leftover in (*self.folder.glob(f"{UNFINISHED}*"), *self.folder.glob(f"*/{UNFINISHED}*")):
            leftover.unlink()
        examination = examined(self.folder, self.parts)
        for damage in examination.damaged:
            self._set_aside(damage)
        for entry in examination.superseded:
            remove(entry, self.folder)
        self._stored = {entry.first: entry for entry in examination.stored}
        self._remove_unfinished_shards()
        return {number for entry in examination.stored for number in entry.numbers}, examination.damaged

    def write(self, number: int, part: Part | PartInStorage) -> None:
        """Write the files first and the receipt last: a part without its receipt does not count."""
        kept = store_tables(part, number, self.folder, None) if isinstance(part, Part) else part
        write_receipt(self.folder, kept.stored, [kept.costs], [kept.alone])
        self._stored[number] = kept.stored
        self._waiting_parts += 1
        self._waiting_bytes += kept.stored.size
        if self._waiting_parts >= PARTS_WAITING or self._waiting_bytes >= SHARD_BYTES:
            self.compact()

    def compact(self) -> None:
        """Merge neighbouring parts into shards."""
        for group in groups([self._stored[first] for first in sorted(self._stored)]):
            shard = merge(group, self.folder, self.at, self.merging)
            for stored in group:
                del self._stored[stored.first]
            self._stored[shard.first] = shard
        self._waiting_parts = self._waiting_bytes = 0

    def _remove_unfinished_shards(self) -> None:
        """Remove tables of shards that have no receipt: of those that were being made when the run was killed."""
        for table in TABLES:
            for path in (self.folder / table).glob("[0-9]*-*.parquet"):
                numbers = numbers_in(path.stem)
                if numbers is not None and not receipt_path(self.folder, *numbers).exists():
                    path.unlink()

    def _set_aside(self, damage: Damage) -> None:
        away = self.folder / "aside"
        away.mkdir(exist_ok=True)
        stamp = time.time_ns()
        stored = StoredParts(damage.number, damage.number if damage.last is None else damage.last)
        # The receipt last: if this is interrupted, the part is found damaged again, and the rest of it is kept as well.
        for name, file in [(table, self.folder / stored.file(table)) for table in TABLES] + [
            ("receipt", receipt_path(self.folder, stored.first, stored.last))
        ]:
            if file.exists() or file.is_symlink():
                file.replace(away / f"{name}-{file.name}-{stamp}")


@contextmanager
def open_store(
    folder: Path, manifest: Mapping[str, Any], at: str | None = None, merging: Merging = merge_tables
) -> Iterator[Store]:
    """The folder of a new run, or of the same run as before. A second process and another configuration are refused.

    at: the storage that the tables go to, where it is not the folder. merging: writes the tables of a shard.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / "lock")
    with _explaining_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)  # the system releases it as well when the process is killed
        except Timeout as error:
            raise FolderInUse(
                f"Another process is running in {folder}. Wait until it is done, or choose another folder with --out."
            ) from error
    try:
        with _explaining_errors(folder):
            _check_or_write_manifest(folder, manifest)
            for name in (*TABLES, RECEIPTS, "aside"):
                if (folder / name).is_symlink():
                    raise BadFile(f"{folder / name} is a link to elsewhere; a run is kept in its own folder alone.")
            for name in (*TABLES, RECEIPTS):
                (folder / name).mkdir(exist_ok=True)
        yield Store(folder, manifest, at, merging)
    finally:
        lock.release()


@contextmanager
def _explaining_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadFile(f"The run cannot be stored in {folder}: {error.strerror or error}.") from error


def _check_or_write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    if not (folder / MANIFEST).exists():
        others = [
            path.name
            for path in folder.iterdir()
            if path.name not in ("lock",) and not path.name.startswith(UNFINISHED)
        ]
        if others:
            raise FolderTaken(
                f"{folder} is not a run, and not empty ({', '.join(sorted(others)[:3])},"
                " ...). Choose another folder with --out."
            )
        written = json_text(manifest, indent=1)
        write_atomically(folder / MANIFEST, written, "manifest of the run", durable=True)
        return
    there = read_manifest(folder)
    if there["hash"] != manifest["hash"]:
        differences = "; ".join(_differences(there["configuration"], manifest["configuration"]))
        raise FolderTaken(
            f"{folder} holds a run of another configuration ({differences}). Choose another"
            " folder with --out, or use the same plan."
        )


def _differences(before: Mapping[str, Any], now: Mapping[str, Any], name: str = "") -> Iterator[str]:
    for key in dict.fromkeys([*before, *now]):
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _differences(old, new, f"{name}{key}.")
        elif old != new:
            yield f"{name}{key}: {_short(old)} there, {_short(new)} now"


def _short(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def new_manifest(configuration: Mapping[str, Any], *, parts: int, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of a run. configuration: everything that decides the numbers; facts: other things worth knowing."""
    plain = json.loads(json.dumps(configuration))  # as it will be read back
    manifest = {"wherefrom_run": FORMAT, "hash": checksum(plain), "parts": parts, "configuration": plain, **facts}
    return manifest | {"sum": checksum(json.loads(json.dumps(manifest)))}


def read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not (exists(path) and path.is_file()):
        raise BadFile(
            f"{named(folder)} is not the folder of a run: it has no {MANIFEST}. Make one with 'wherefrom run'."
        )
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadFile(f"{path} cannot be read: {error}.") from error
    if not isinstance(manifest, dict) or manifest.get("wherefrom_run") != FORMAT:
        raise BadFile(
            f"{path} was not written by this version of Wherefrom (its field 'wherefrom_run' is missing or another)."
        )
    if manifest.get("hash") != checksum(manifest.get("configuration")):
        raise BadFile(f"{path} is damaged: the hash is not that of the configuration.")
    # The hash says which run it is; the sum covers the rest as well, such as how many parts make it complete.
    if manifest.get("sum") != checksum({name: value for name, value in manifest.items() if name != "sum"}):
        raise BadFile(f"{path} is damaged: its checksum does not match.")
    _check_fields(manifest, path)
    return manifest


def _check_fields(manifest: Mapping[str, Any], path: Path) -> None:
    """What reads a run relies on these. A manifest that somebody made may have a right checksum and lack them."""
    wanted: dict[str, type] = {"data": str, "configuration": dict, "how": dict, "model": dict, "metrics": list}
    wrong = [name for name, kind in wanted.items() if not isinstance(manifest.get(name), kind)]
    wrong += [name for name in ("parts", "examples") if type(manifest.get(name)) is not int or manifest[name] < 1]
    if not wrong:
        plan, model = manifest["configuration"].get("plan"), manifest["model"]
        wrong += [] if isinstance(plan, dict) and isinstance(plan.get("methods"), list) else ["configuration.plan"]
        wrong += [f"model.{name}" for name in ("name", "fingerprint") if not isinstance(model.get(name), str)]
        rows = manifest["metrics"]
        wrong += [] if all(isinstance(row, dict) and {"asked", "better"} <= row.keys() for row in rows) else ["metrics"]
    if wrong:
        raise BadFile(f"{path} is not the manifest of a run: {', '.join(wrong)} is missing or not what it should be.")


@dataclass(frozen=True)
class Run:
    """A run in its folder, finished or not, with its tables as pandas frames. Reading changes nothing."""

    folder: Path
    manifest: Mapping[str, Any]
    stored: Sequence[StoredParts]  # parts and shards, by number

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Run:
        path = Path(folder)
        manifest = read_manifest(path)
        examination = examined(path, int(manifest["parts"]))
        if examination.damaged:
            raise BadFile(
                f"{examination.damaged[0].why}. Run 'wherefrom run' again with --out {path}: it"
                " sets damaged parts aside and computes them again."
            )
        return cls(path, manifest, examination.stored)

    @property
    def done(self) -> list[int]:
        """The numbers of the parts that are there."""
        return [number for entry in self.stored for number in entry.numbers]

    @property
    def finished(self) -> bool:
        return sum(len(entry.numbers) for entry in self.stored) == int(self.manifest["parts"])

    @property
    def name(self) -> str:
        """Its name in a report: that of its data set."""
        return str(self.manifest["data"])

    @property
    def plan(self) -> RunPlan:
        """What the run was asked for; a run that was stopped continues with `run(found.plan, found.folder)`."""
        return RunPlan.from_manifest(self.manifest)

    @cached_property
    def explanations(self) -> pandas.DataFrame:
        """One row an example, target and method."""
        return self.frame("explanations")

    @cached_property
    def scores(self) -> pandas.DataFrame:
        """One row an example, target, method and metric; `value` is NaN where the metric is not defined, and `why` says
        why.
        """
        return self.frame("scores")

    @cached_property
    def errors(self) -> pandas.DataFrame:
        """Examples that could not be explained, and why."""
        return self.frame("errors")

    @cached_property
    def costs(self) -> pandas.DataFrame:
        """One row a part: examples, asked, distinct, rows, seconds."""
        return _pandas().DataFrame([{"part": number} | costs for number, costs, _ in self._receipts()])

    @cached_property
    def alone(self) -> pandas.DataFrame:
        """One row a part and method: what the method costs for one of the part's examples when nothing is shared. Where
        it was not timed, what it costs in the nearest part where it was.
        """
        receipts = list(self._receipts())
        timed = [place for place, (_, _, alone) in enumerate(receipts) if alone]
        middles = [(before + after) / 2 for before, after in pairwise(timed)]
        rows = [
            {"part": number, "examples": costs["examples"]} | row
            for place, (number, costs, _) in enumerate(receipts if timed else ())
            for row in receipts[timed[bisect(middles, place)]][2]
        ]
        return _pandas().DataFrame(rows, columns=["part", "examples", "method", "seconds", "forwards", "backwards"])

    def _receipts(self) -> Iterator[tuple[int, dict[str, float], list[dict[str, Any]]]]:
        """Every part's number, what it cost, and what methods cost alone."""
        for entry in self.stored:
            body = read_receipt(self.folder, entry.first, entry.last)
            yield from zip(entry.numbers, costs_in(body), alone_in(body), strict=True)

    def words(
        self, method: str | None = None, *, least: int = 2, fold_case: bool = True, stop_words: Collection[str] = ()
    ) -> pandas.DataFrame:
        """For every class and method the words with their total and mean score, intervals, signs and examples.

        method: one method alone, as it was asked for. least: how many texts a word must occur in. fold_case: whether
            Film and film are one word. stop_words: words that are left out.
        """
        summaries = summarise_words(
            self.rows("explanations", method), least=least, fold_case=fold_case, stop_words=stop_words
        )
        return _pandas().DataFrame(summaries, columns=list(WordSummary._fields))

    def rows(
        self,
        table: str,
        method: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        examples: Collection[str] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The rows of a table as plain Python, part after part: None where there is nothing, and no more memory than a
        few rows take.

        method, examples: only the rows of this method and of these examples. columns: these alone; they must hold what
        rows are chosen by.
        """
        chosen: dict[str, list[str]] = {} if method is None else {"method": [method]}
        if examples is not None:
            chosen["example"] = list(examples)
        for entry in self.stored:
            with entry.storage(self.folder).open(entry.file(table)) as file:
                yield from rows_of(file, columns, chosen)

    def batches(self, table: str, columns: Sequence[str]) -> Iterator[Any]:
        """Some columns of a table as record batches of pyarrow, part after part. Columns that a run of an earlier
        version lacks are null.
        """
        for entry in self.stored:
            with entry.storage(self.folder).open(entry.file(table)) as file:
                yield from batches_of(file, table, columns)

    @staticmethod
    def explanation(row: Mapping[str, Any]) -> Explanation:
        """The explanation that a row of `rows("explanations")` was made of, as far as the table keeps it."""
        return explanation_of(row)

    def frame(self, table: str, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """A table as a pandas frame, or only some of its columns, which takes less memory where there are many rows."""
        _, parquet = arrow_and_parquet()
        _pandas()  # which Arrow would ask for only at the end
        nothing = schemas()[table].empty_table()
        parts = [nothing if columns is None else nothing.select(list(columns))]
        for entry in self.stored:
            with entry.storage(self.folder).open(entry.file(table)) as file:
                parts.append(parquet.read_table(file, columns=None if columns is None else list(columns)))
        return joined(parts).to_pandas()
