"""How files are read and written everywhere: JSON, JSON lines, and files that are whole or not there at all."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from wherefrom.errors import BadFile

FilePath = str | os.PathLike[str]
UNFINISHED = ".part-"  # the names of files that are being written start with this


def exists(path: FilePath) -> bool:
    """Whether there is such a file or folder; False as well for what cannot be a path, such as one that is too long."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def named(path: FilePath) -> str:
    """A path as errors name it: of one that is too long for any file system, the beginning."""
    text = str(path)
    return text if len(text) <= 500 else f"{text[:60]}... ({len(text):,} characters)"


@contextmanager
def reading(path: FilePath) -> Iterator[None]:
    """Turn the errors of opening and decoding a file into one that names the file and says what is wrong with it."""
    try:
        yield
    except FileNotFoundError as error:
        raise BadFile(f"There is no file {named(error.filename or path)}.") from error
    except UnicodeDecodeError as error:
        raise BadFile(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}.") from error
    except OSError as error:
        raise BadFile(f"{named(path)} cannot be read: {error.strerror or error}.") from error
    except UnicodeEncodeError as error:
        raise BadFile(f"{str(path)!a} is no path: it has half of a character in it (a lone surrogate).") from error
    except ValueError as error:
        if "null" not in str(error):
            raise
        raise BadFile(f"{str(path)!a} is no path: it has a null byte in it.") from error


def read_json(path: FilePath) -> Any:
    """The content of a JSON file."""
    with reading(path):
        try:
            return json.loads(Path(path).read_text(encoding="utf-8-sig"))
        except json.JSONDecodeError as error:
            raise BadFile(
                f"{path}, line {error.lineno}: this is not JSON, or it was cut short: {error.msg}."
            ) from error
        except RecursionError as error:
            raise BadFile(f"{path}: this JSON is nested too deeply to be read.") from error


def json_text(data: Any, *, indent: int | None = None) -> str:
    """Data as JSON in readable characters. Halves of characters (lone surrogates, as of a path that is not UTF-8),
    which no file can hold, are written as escapes and are read back as they were.
    """
    written = json.dumps(data, ensure_ascii=False, indent=indent)
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", written)


def read_json_lines(path: FilePath) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a file with one JSON object a line, with the place it was read from; blank lines are skipped."""
    with reading(path), Path(path).open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                row = json.loads(line)
            except ValueError as error:
                raise BadFile(f"{where}: this is not JSON: {error}.") from error
            except RecursionError as error:
                raise BadFile(f"{where}: this JSON is nested too deeply to be read.") from error
            if not isinstance(row, dict):
                raise BadFile(
                    f"{where}: a line must hold an object with fields, such as"
                    f' {{"text": ..., "label": ...}}, not {line[:40]!r}.'
                )
            yield where, row


@contextmanager
def replacing(path: FilePath, *, durable: bool = False) -> Iterator[Path]:
    """A temporary path in the same folder. What is written there takes the place of `path` when the block ends; if the
    block fails, it is removed and `path` stays as it was.

    durable: also make the content and the new name reach the disk, so that they survive a power failure.
    """
    goal = Path(path)
    unfinished = goal.with_name(f"{UNFINISHED}{uuid4().hex[:12]}")
    try:
        yield unfinished
        if durable:
            _flush_to_disk(unfinished)
        unfinished.replace(goal)
        if durable:
            _flush_to_disk(goal.parent)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def write_atomically(path: FilePath, content: str | bytes, what: str, *, durable: bool = False) -> None:
    """Write a file wholly or not at all: whenever the process is killed, `path` holds the old content or the new.

    what: what is written, for the message when that fails, such as "explanation".
    """
    try:
        with replacing(path, durable=durable) as unfinished:
            unfinished.write_bytes(content.encode() if isinstance(content, str) else content)
    except UnicodeEncodeError as error:
        raise BadFile(
            f"The {what} could not be written to {str(path)!a}: there is half of a character (a lone surrogate)."
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte in it
        raise BadFile(
            f"The {what} could not be written to {named(path)}: {getattr(error, 'strerror', 0) or error}."
        ) from error


def _flush_to_disk(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
