"""The folder of a run: its manifest, and its results in parts, each of which is stored wholly or not at all.

    manifest.json            the plan, what was found about its data and model, versions, and a hash of these
    explanations/00012.parquet, scores/00012.parquet, errors/00012.parquet
    receipts/00012.json      written last: the checksums of the part's files, and what the part cost
    aside/                   damaged files, kept so that their damage can be examined

A part is done when its receipt is there and every file is as the receipt says. So a run may be killed at any moment.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wherefrom.benchmark.columns import EXPLANATION_COLUMNS
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.words import WordSummary, summarise_words
from wherefrom.core.files import UNFINISHED, exists, json_text, named, reading, write_atomically
from wherefrom.errors import BadFile, MissingExtra

if TYPE_CHECKING:
    import pandas
    import pyarrow

FORMAT = 3
TABLES = ("explanations", "scores", "errors")
MANIFEST = "manifest.json"
OPTIONAL = {column.name for column in EXPLANATION_COLUMNS if column.optional}


class FolderTaken(BadFile):
    """The folder belongs to a run by another plan, or holds other files."""


class FolderInUse(BadFile):
    """Another process is running in the folder."""


@dataclass(frozen=True)
class Part:
    """The results of some examples: rows of each table, and what they cost."""

    explanations: list[dict[str, Any]] = field(default_factory=list)
    scores: list[dict[str, Any]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    costs: Mapping[str, float] = field(default_factory=dict)  # examples, asked, distinct, rows, seconds
    alone: list[dict[str, Any]] = field(
        default_factory=list
    )  # what each method costs for one of the examples when nothing is shared with other methods
    passes: float = 0.0  # forward passes of one row, for methods and metrics: for an estimate, and not kept


class Damage(NamedTuple):
    """A part that cannot be trusted."""

    number: int
    why: str


def schemas() -> dict[str, pyarrow.Schema]:
    """The columns of every table; docs/running-a-benchmark.md says what they mean."""
    arrow, _ = _arrow()
    text, real = arrow.string(), arrow.float64()
    types = {
        "text": text,
        "json": text,
        "real": real,
        "int": arrow.int32(),
        "long": arrow.int64(),
        "bool": arrow.bool_(),
        "texts": arrow.list_(text),
        "reals": arrow.list_(real),
        "ints": arrow.list_(arrow.int32()),
        "spans": arrow.list_(arrow.list_(arrow.int32(), 2)),
    }
    return {
        "explanations": arrow.schema({column.name: types[column.type] for column in EXPLANATION_COLUMNS}),
        "scores": arrow.schema(
            {
                "example": text,
                "target": text,
                "method": text,
                "metric": text,
                "value": real,
                "why": text,
                "details": text,
            }
        ),
        "errors": arrow.schema({"example": text, "method": text, "where": text, "error": text}),
    }


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ModuleNotFoundError as error:
        raise MissingExtra("Storing a run", "bench") from error
    return pyarrow, parquet


def _pandas() -> Any:
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise MissingExtra("Reading a run", "bench") from error
    return pandas


class Store:
    """A run's folder, open for writing. Only one process at a time has it (see `open_store`)."""

    def __init__(self, folder: Path, manifest: Mapping[str, Any]) -> None:
        self.folder, self.manifest = folder, manifest

    @property
    def parts(self) -> int:
        return int(self.manifest["parts"])

    def check(self) -> tuple[set[int], list[Damage]]:
        """Which parts are done, and which are damaged. Damaged files are set aside, remains of what was interrupted are
        removed.
        """
        for leftover in (*self.folder.glob(f"{UNFINISHED}*"), *self.folder.glob(f"*/{UNFINISHED}*")):
            leftover.unlink()
        done, damaged = examined(self.folder, self.parts)
        for damage in damaged:
            self._set_aside(damage.number)
        return done, damaged

    def write(self, number: int, part: Part) -> None:
        """Write the files first and the receipt last: a part without its receipt does not count."""
        arrow, parquet = _arrow()
        sums = {}
        for table, schema in schemas().items():
            content = io.BytesIO()
            parquet.write_table(
                arrow.Table.from_pylist(getattr(part, table), schema=schema), content, compression="zstd"
            )
            sums[table] = hashlib.sha256(content.getvalue()).hexdigest()
            write_atomically(
                _file(self.folder, table, number), content.getvalue(), f"part {number} of the run", durable=True
            )
        body = {"part": number, "sums": sums, "costs": dict(part.costs), "alone": part.alone}
        receipt = json.dumps({"body": body, "sum": _sum(body)})
        write_atomically(_receipt(self.folder, number), receipt, f"receipt of part {number}", durable=True)

    def _set_aside(self, number: int) -> None:
        away = self.folder / "aside"
        away.mkdir(exist_ok=True)
        stamp = time.time_ns()
        # The receipt last: if this is interrupted, the part is found damaged again, and the rest of it is kept as well.
        for name, file in [(table, _file(self.folder, table, number)) for table in TABLES] + [
            ("receipt", _receipt(self.folder, number))
        ]:
            if file.exists() or file.is_symlink():
                file.replace(away / f"{name}-{file.name}-{stamp}")


@contextmanager
def open_store(folder: Path, manifest: Mapping[str, Any]) -> Iterator[Store]:
    """The folder of a new run, or of the same run as before. A second process and another configuration are refused."""
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
            for name in (*TABLES, "receipts", "aside"):
                if (folder / name).is_symlink():
                    raise BadFile(f"{folder / name} is a link to elsewhere; a run is kept in its own folder alone.")
            for name in (*TABLES, "receipts"):
                (folder / name).mkdir(exist_ok=True)
        yield Store(folder, manifest)
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
    whole = {"wherefrom_run": FORMAT, "hash": _sum(plain), "parts": parts, "configuration": plain, **facts}
    return whole | {"sum": _sum(json.loads(json.dumps(whole)))}


def read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not (exists(path) and path.is_file()):
        raise BadFile(
            f"{named(folder)} is not the folder of a run: it has no {MANIFEST}. Make one with 'wherefrom run'."
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadFile(f"{path} cannot be read: {error}.") from error
    if not isinstance(found, dict) or found.get("wherefrom_run") != FORMAT:
        raise BadFile(
            f"{path} was not written by this version of Wherefrom (its field 'wherefrom_run' is missing or another)."
        )
    if found.get("hash") != _sum(found.get("configuration")):
        raise BadFile(f"{path} is damaged: the hash is not that of the configuration.")
    # The hash says which run it is; the sum holds for the rest as well, such as how many parts make it complete.
    if found.get("sum") != _sum({name: value for name, value in found.items() if name != "sum"}):
        raise BadFile(f"{path} is damaged: its checksum does not match.")
    _check_fields(found, path)
    return found


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


def examined(folder: Path, parts: int) -> tuple[set[int], list[Damage]]:
    """Which parts are done, and which are damaged: the files of every part are compared with its receipt."""
    done, damaged = set[int](), list[Damage]()
    for number in range(parts):
        if not _receipt(folder, number).exists():
            continue
        try:
            receipt = read_receipt(folder, number)
            for table in TABLES:
                file = _file(folder, table, number)
                if not file.is_file():
                    raise BadFile(f"{file} is missing")
                with reading(file):
                    content = file.read_bytes()
                if hashlib.sha256(content).hexdigest() != receipt["sums"][table]:
                    raise BadFile(f"{file} was cut short or changed")
                _check_columns(content, table, file)
        except BadFile as error:
            damaged.append(Damage(number, str(error)))
        else:
            done.add(number)
    return done, damaged


def _check_columns(content: bytes, table: str, file: Path) -> None:
    """A file may be as its receipt says and still be no table of a run, where somebody else made both."""
    arrow, parquet = _arrow()
    try:
        columns = parquet.read_schema(io.BytesIO(content))
    except arrow.ArrowException as error:
        raise BadFile(f"{file} is not Parquet: {error}") from error
    wanted = schemas()[table]
    for name in OPTIONAL - set(columns.names):  # a run of an earlier version
        if name in wanted.names:
            wanted = wanted.remove(wanted.get_field_index(name))
    if not columns.equals(wanted):
        raise BadFile(f"{file} has other columns than the {table} of a run")


def read_receipt(folder: Path, number: int) -> dict[str, Any]:
    path = _receipt(folder, number)
    try:
        with reading(path):
            found = json.loads(path.read_bytes())
        body: dict[str, Any] = found["body"]
        if found["sum"] != _sum(body) or body["part"] != number:
            raise ValueError("its checksum does not match")
        if (
            {*TABLES} - body["sums"].keys()
            or not isinstance(body["costs"], dict)
            or not isinstance(body["alone"], list)
        ):
            raise ValueError("it does not hold what a receipt holds")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadFile(f"{path} is damaged: {error}") from error
    return body


def examples_kept(folder: Path) -> int:
    """How many examples the receipts in a folder speak of: quick, without looking at the tables."""
    found = 0
    for path in (folder / "receipts").glob("[0-9]*.json"):
        with suppress(BadFile, ValueError):
            found += int(read_receipt(folder, int(path.stem))["costs"].get("examples", 0))
    return found


def _sum(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _file(folder: Path, table: str, number: int) -> Path:
    return folder / table / f"{number:05d}.parquet"


def _receipt(folder: Path, number: int) -> Path:
    return folder / "receipts" / f"{number:05d}.json"


@dataclass(frozen=True)
class Run:
    """A run in its folder, finished or not, with its tables as pandas frames. Reading changes nothing."""

    folder: Path
    manifest: Mapping[str, Any]
    done: Sequence[int]  # parts

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Run:
        path = Path(folder)
        manifest = read_manifest(path)
        done, damaged = examined(path, int(manifest["parts"]))
        if damaged:
            raise BadFile(
                f"{damaged[0].why}. Run 'wherefrom run' again with --out {path}: it"
                " sets damaged parts aside and computes them again."
            )
        return cls(path, manifest, sorted(done))

    @property
    def finished(self) -> bool:
        return len(self.done) == int(self.manifest["parts"])

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
        return self._frame("explanations")

    @cached_property
    def scores(self) -> pandas.DataFrame:
        """One row an example, target, method and metric; `value` is NaN where the metric is not defined, and `why` says
        why.
        """
        return self._frame("scores")

    @cached_property
    def errors(self) -> pandas.DataFrame:
        """Examples that could not be explained, and why."""
        return self._frame("errors")

    @cached_property
    def costs(self) -> pandas.DataFrame:
        """One row a part: examples, asked, distinct, rows, seconds."""
        return _pandas().DataFrame([{"part": number} | body["costs"] for number, body in self._receipts.items()])

    @cached_property
    def alone(self) -> pandas.DataFrame:
        """One row a part and method: what the method costs for one of the part's examples when nothing is shared."""
        rows = [
            {"part": number, "examples": body["costs"]["examples"]} | row
            for number, body in self._receipts.items()
            for row in body["alone"]
        ]
        return _pandas().DataFrame(rows, columns=["part", "examples", "method", "seconds", "forwards", "backwards"])

    @cached_property
    def _receipts(self) -> dict[int, dict[str, Any]]:
        return {number: read_receipt(self.folder, number) for number in self.done}

    def words(
        self, method: str | None = None, *, least: int = 2, fold_case: bool = True, stop_words: Collection[str] = ()
    ) -> pandas.DataFrame:
        """For every class and method the words with their total and mean score, intervals, signs and examples.

        method: one method alone, as it was asked for. least: how many texts a word must occur in. fold_case: whether
            Film and film are one word. stop_words: words that are left out.
        """
        found = summarise_words(
            self.rows("explanations", method), least=least, fold_case=fold_case, stop_words=stop_words
        )
        return _pandas().DataFrame(found, columns=list(WordSummary._fields))

    def rows(self, table: str, method: str | None = None) -> Iterator[dict[str, Any]]:
        """The rows of a table as plain Python, or those of one method, part after part: None where there is nothing,
        and no more memory than a part takes.
        """
        _, parquet = _arrow()
        chosen = None if method is None else [("method", "==", method)]
        for number in self.done:
            yield from parquet.read_table(_file(self.folder, table, number), filters=chosen).to_pylist()

    def _frame(self, table: str) -> pandas.DataFrame:
        arrow, parquet = _arrow()
        _pandas()  # which Arrow would ask for only at the end
        parts = [parquet.read_table(_file(self.folder, table, number)) for number in self.done]
        return arrow.concat_tables([schemas()[table].empty_table(), *parts], promote_options="default").to_pandas()
