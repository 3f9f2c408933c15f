"""Where the tables of a run are: the run's folder, another folder such as one on a shared disk, or an object store.

Files are written once, wholly, under names of their own, and never changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any, BinaryIO

from wherefrom.core.files import reading, write_atomically
from wherefrom.errors import BadFile, MissingExtra

LOCAL = ("file", "local")  # protocols of paths of this machine
STRETCH = 2**20  # bytes that are read at once


class Storage:
    """Files by their names below a root. A path is used as the run's folder is: what is written reaches the disk. Any
    other address, such as s3://bucket/run, is left to fsspec, with the credentials that the machine has.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = str(root)
        protocol, separator, path = self.root.partition("://")
        self._path = Path(root) if not separator else Path(path) if protocol in LOCAL else None
        self._system: Any = None
        self._below = ""
        if self._path is None:
            self._system, self._below = _opened(self.root)

    @property
    def remote(self) -> bool:
        """Whether it is neither a folder of this machine nor one of a shared disk."""
        return self._path is None

    def named(self, name: str) -> str:
        """A file as errors name it."""
        return str(self._path / name) if self._path is not None else f"{self.root.rstrip('/')}/{name}"

    def write(self, name: str, content: Any, what: str) -> None:
        """content: bytes, or what has their buffer."""
        if self._path is not None:
            goal = self._path / name
            if not goal.parent.is_dir():
                with _explained(f"{what} could not be written to {goal}"):
                    goal.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(goal, content, what, durable=True)
            return
        with _explained(f"{what} could not be written to {self.named(name)}"):
            self._system.makedirs(self._remote(name).rpartition("/")[0], exist_ok=True)
            self._system.pipe_file(self._remote(name), bytes(content))

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """A file, to read from."""
        if self._path is not None:
            with reading(self._path / name), (self._path / name).open("rb") as file:
                yield file
            return
        with _explained(f"{self.named(name)} cannot be read"), self._system.open(self._remote(name), "rb") as file:
            yield file

    def digest(self, name: str) -> str:
        """The SHA-256 of a file."""
        found = hashlib.sha256()
        with self.open(name) as file:
            while stretch := file.read(STRETCH):
                found.update(stretch)
        return found.hexdigest()

    def size(self, name: str) -> int | None:
        """In bytes; None where there is no such file."""
        if self._path is not None:
            path = self._path / name
            return path.stat().st_size if path.is_file() else None
        with _explained(f"{self.named(name)} cannot be looked at"):
            try:
                return int(self._system.size(self._remote(name)))
            except FileNotFoundError:
                return None

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with _explained(f"{self.named(name)} could not be removed"):
            if self._path is not None:
                (self._path / name).unlink(missing_ok=True)
            elif self._system.exists(self._remote(name)):
                self._system.rm_file(self._remote(name))

    def _remote(self, name: str) -> str:
        return f"{self._below.rstrip('/')}/{name}"


def address_of(root: str | PathLike[str]) -> str:
    """A storage as every process of a run can find it: a path from the top, or an address as it is."""
    given = fspath(root)
    return given if "://" in given else str(Path(given).absolute())


def _opened(root: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ModuleNotFoundError as error:
        raise MissingExtra("Storing a run elsewhere", "bench") from error
    try:
        system, below = url_to_fs(root)
    except (ImportError, ValueError) as error:  # a package that the protocol needs, or a protocol that nobody knows
        raise BadFile(f"{root} cannot be opened as a storage: {error}") from error
    return system, str(below)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Every object store has errors of its own; all become one that says what was tried."""
    try:
        yield
    except BadFile:
        raise
    except Exception as error:
        raise BadFile(f"{what}: {getattr(error, 'strerror', None) or error or type(error).__name__}.") from error
