"""Lists of names: read from what a user gives, and written in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wherefrom.errors import BadOption


def read_names(value: object, what: str) -> list[str]:
    """Names in a list, or in one string between commas. what: of what they are names, for the error."""
    entries = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    names = [name.strip() for name in entries if isinstance(name, str)]
    if len(names) < len(entries):
        raise BadOption(f"{what} are given by their names, in a list or between commas, not as {value!r}.")
    return [name for name in names if name]


def join_names(names: Sequence[str], last: str = "and") -> str:
    """Names in a sentence: "alti, globenc and norms". last: the word before the last name."""
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
