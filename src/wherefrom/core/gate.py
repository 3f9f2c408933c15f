"""A gate: rules that the numbers of an audit must meet, read from a TOML file such as

accuracy = ">= 0.88"
supported = ">= 0.8"
shortcuts = "== 0"
"""

from __future__ import annotations

import math
import operator
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wherefrom.core.files import FilePath, reading
from wherefrom.errors import BadFile, BadOption, UnknownName

if TYPE_CHECKING:
    from wherefrom.core.audit import Audit

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_RULE = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*(\S+)\s*")


@dataclass(frozen=True)
class GateRule:
    """One comparison, as in accuracy >= 0.88."""

    name: str
    comparison: str
    limit: float

    def __str__(self) -> str:
        return f"{self.name} {self.comparison} {self.limit:g}"

    def failure(self, audit: Audit) -> str | None:
        """Why an audit does not meet this rule; None where it does. Raises where it has no such number."""
        numbers = audit.numbers
        if self.name not in numbers:
            raise UnknownName.among("number of this audit", self.name, numbers)
        value = numbers[self.name]
        if value is None:
            return f"{self}: these data give no such number (too few texts, or no labels)"
        if COMPARISONS[self.comparison](value, self.limit):
            return None
        return f"{self}: it is {value:.4g}"


def read_rules(path: FilePath) -> list[GateRule]:
    """The rules of a file. Raises `BadOption` on a file that cannot be read, and on anything that is no rule."""
    try:
        with reading(path):
            text = Path(path).read_text(encoding="utf-8")
    except BadFile as error:
        raise BadOption(str(error)) from error
    try:
        entries = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadOption(f'{path} is not TOML: {error}. A rule is written as in: accuracy = ">= 0.88"') from error
    return rules_of(entries, str(path))


def rules_of(entries: Mapping[str, object], place: str) -> list[GateRule]:
    """Rules from a mapping of names to comparisons. place: where they are from, for errors."""
    rules = [_rule(place, name, value) for name, value in entries.items()]
    if not rules:
        raise BadOption(f'{place} has no rules. A rule is written as in: accuracy = ">= 0.88"')
    return rules


def _rule(path: str, name: str, value: object) -> GateRule:
    match = _RULE.fullmatch(value) if isinstance(value, str) else None
    try:
        limit = float(match[2]) if match else math.nan
    except ValueError:
        limit = math.nan
    if match is None or not math.isfinite(limit):
        raise BadOption(f'{path}: the rule for {name} cannot be read: {value!r}. Write it as in: {name} = ">= 0.88"')
    return GateRule(name, match[1], limit)


def failures(rules: Sequence[GateRule], audit: Audit) -> list[str]:
    """Why the audit does not meet its rules; empty where it meets all."""
    return [why for rule in rules if (why := rule.failure(audit)) is not None]
