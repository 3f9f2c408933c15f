"""A journal of measurements: a line of JSON for each, written as soon as it is made."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from wherefrom.errors import BadFile

Record = dict[str, Any]


def read_records(journal: Path) -> list[Record]:
    """The records of a journal. A last line without its end was cut off by a crash, and is removed."""
    if not journal.exists():
        return []
    content = journal.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        os.truncate(journal, len(whole))
    try:
        return [json.loads(line) for line in whole.splitlines()]
    except ValueError as error:
        raise BadFile(f"{journal} is damaged: {error}. Remove the damaged line, and it is measured again.") from error


def append_record(journal: Path, record: Record) -> None:
    with journal.open("ab") as lines:
        lines.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        lines.flush()
        os.fsync(lines.fileno())
