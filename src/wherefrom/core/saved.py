"""Results as JSON files: every class of results that can be saved is written and read here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Self

from wherefrom.core.files import FilePath, json_text, reading, write_atomically
from wherefrom.core.plain import from_plain
from wherefrom.errors import BadFile


@dataclass(frozen=True)
class Format:
    """How the files of a class are recognised."""

    name: str  # what errors call it
    field: str  # the field of the file that contains the version
    version: int = 1
    advice: str = ""  # how to make such a file; added to every error
    indent: int | None = None
    checksum: bool = False  # whether files have one: where a changed digit would give other scores without a word

    def check(self, data: object) -> None:
        """Raise `BadFile` unless data were saved in this format."""
        version = data.get(self.field) if isinstance(data, Mapping) else None
        if version is None:
            raise BadFile(f"This JSON is not a saved {self.name}: it has no field {self.field!r}.")
        if version != self.version or isinstance(version, bool):
            raise BadFile(
                f"This {self.name} was saved by another version of Wherefrom (format {version!r}; this version reads"
                f" format {self.version}). Compute and save it again."
            )


CHECKSUM = "checksum"


def checksum_of(data: Mapping[str, Any]) -> str:
    """Of everything in a file but the checksum itself, however it is laid out."""
    content = {name: value for name, value in data.items() if name != CHECKSUM}
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class Saved:
    """Saving and loading, for dataclasses of plain data."""

    FORMAT: ClassVar[Format]

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain Python, as `to_json` writes it."""
        return {self.FORMAT.field: self.FORMAT.version, **asdict(self)}  # type: ignore[call-overload]

    def to_json(self, *, indent: int | None = None) -> str:
        """Everything as JSON; `from_json` reads it back."""
        data = self.to_dict()
        if self.FORMAT.checksum:
            data[CHECKSUM] = checksum_of(json.loads(json_text(data)))
        return json_text(data, indent=indent)

    def save(self, path: FilePath) -> None:
        """Write JSON to a file: wholly, or not at all.

        Args:
            path: the file.

        Example:
            ```python
            e.save("explanation.json")
            again = wherefrom.Explanation.load("explanation.json")
            ```
        """
        write_atomically(path, self.to_json(indent=self.FORMAT.indent), self.FORMAT.name)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """What `to_dict` gave, read back; raises `BadFile` where something is missing or damaged."""
        cls.FORMAT.check(data)
        loaded = cls._from_plain(data)
        for problem in loaded._problems():
            raise BadFile(f"This {cls.FORMAT.name} is damaged: {problem}.")
        return loaded

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` gave, read back."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise BadFile(f"This is not JSON, or it was cut short: {error}.") from error
        except RecursionError as error:
            raise BadFile("This JSON is nested too deeply to be read.") from error
        loaded = cls.from_dict(data)
        if cls.FORMAT.checksum and data.get(CHECKSUM) != checksum_of(data):
            raise BadFile(f"This {cls.FORMAT.name} was changed after it was saved: its checksum is another.")
        return loaded

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """What was saved to a file; needs no model and no torch.

        Args:
            path: the file.

        Returns:
            The object as it was.
        """
        try:
            with reading(path):
                text = Path(path).read_text(encoding="utf-8-sig")
        except BadFile as error:
            raise BadFile(f"{error} {cls.FORMAT.advice}".rstrip()) from error
        try:
            return cls.from_json(text)
        except BadFile as error:
            raise BadFile(f"{path}: {error} {cls.FORMAT.advice}".rstrip()) from error

    @classmethod
    def _from_plain(cls, data: Mapping[str, Any]) -> Self:
        return from_plain(cls, data, cls.FORMAT.name)

    def _problems(self) -> Iterator[str]:
        """What does not fit together in data from a file."""
        return iter(())
