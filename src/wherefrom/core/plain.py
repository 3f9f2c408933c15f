"""Plain data from a file, made into a dataclass: every field is of the type that the class declares, or it is an error.

A file may come from anybody. Its content is checked once, when it is read, and can be relied on afterwards.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from wherefrom.errors import BadFile

Made = TypeVar("Made")
NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def from_plain(kind: type[Made], data: object, what: str, *, finite: bool = True) -> Made:
    """An instance of a dataclass from what `dataclasses.asdict` gave and JSON kept of it. Fields it does not know are
    left out; those with a default may be missing.

    what: what it is called in errors, such as "explanation".
    finite: whether NaN and infinity are errors.
    """
    try:
        made: Made = _Reader(finite).instance(kind, data, "")
    except _Unfit as unfit:
        raise BadFile(f"This {what} is damaged: {unfit}.") from unfit
    return made


class _Unfit(Exception):
    """A value is not what its place in the class says."""


@dataclass(frozen=True)
class _Reader:
    """Reads values by the types that classes declare; `where` is the way to a value from the outermost one."""

    finite: bool

    def instance(self, kind: Any, data: object, where: str) -> Any:
        if not isinstance(data, Mapping):
            raise _Unfit(f"{where or 'it'} is {_shown(data)}, not an object with fields")
        hints, values = _hints(kind), dict[str, Any]()
        for field in fields(kind):
            place = f"{where}.{field.name}" if where else field.name
            if field.name in data:
                values[field.name] = self.value(hints[field.name], data[field.name], place)
            elif field.default is MISSING and field.default_factory is MISSING:
                raise _Unfit(f"{place} is missing")
        return kind(**values)

    def value(self, hint: Any, value: object, where: str) -> Any:
        origin, inner = get_origin(hint), get_args(hint)
        if hint is Any:
            return value
        if origin in (Union, types.UnionType):
            return self._one_of(inner, value, where)
        if origin is Literal:
            if not isinstance(value, (str, int)) or isinstance(value, bool) or value not in inner:
                raise _Unfit(f"{where} is {_shown(value)}, not one of {', '.join(map(str, inner))}")
            return value
        if origin is tuple:
            return self._tuple(inner, value, where)
        if origin is not None and issubclass(origin, Mapping):
            if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
                raise _Unfit(f"{where} is {_shown(value)}, not an object with fields")
            return {key: self.value(inner[1], item, f"{where}[{_shown(key)}]") for key, item in value.items()}
        return self.instance(hint, value, where) if is_dataclass(hint) else self._single(hint, value, where)

    def _one_of(self, choices: tuple[Any, ...], value: object, where: str) -> Any:
        if value is None and types.NoneType in choices:
            return None
        *others, last = [choice for choice in choices if choice is not types.NoneType]
        for choice in others:
            with suppress(_Unfit):
                return self.value(choice, value, where)
        return self.value(last, value, where)

    def _tuple(self, inner: tuple[Any, ...], value: object, where: str) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise _Unfit(f"{where} is {_shown(value)}, not a list")
        hints = [inner[0]] * len(value) if len(inner) == 2 and inner[1] is Ellipsis else inner
        if len(value) != len(hints):
            raise _Unfit(f"{where} has {len(value)} entries, not {len(hints)}")
        pairs = enumerate(zip(hints, value, strict=True))
        return tuple(self.value(hint, item, f"{where}[{place}]") for place, (hint, item) in pairs)

    def _single(self, hint: Any, value: object, where: str) -> Any:
        kinds = (int, float) if hint is float else hint
        if not isinstance(value, kinds) or (hint is not bool and isinstance(value, bool)):
            raise _Unfit(f"{where} is {_shown(value)}, not {NAMES[hint]}")
        if hint is not float:
            return value
        try:
            number = float(value)
        except OverflowError:
            raise _Unfit(f"{where} is a number too large to compute with") from None
        if self.finite and not math.isfinite(number):
            raise _Unfit(f"{where} is {number}, not a finite number")
        return number


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) >= 10**20:
        return "a very large number"
    text = ascii(value) if isinstance(value, (str, int, float, type(None))) else f"a {type(value).__name__}"
    return text if len(text) <= 40 else f"{text[:39]}..."
