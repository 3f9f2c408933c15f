"""One name, one thing: no class and no type has the name of another one elsewhere in the package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import wherefrom

ROOT = Path(wherefrom.__file__).parent


def names_in(source: str) -> list[str]:
    """The classes, type aliases and type variables at the top of a module. Constants are written in capitals and are
    always read with their module in mind, so that two FORMATs do not confuse anybody.
    """
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            found.append(node.name)
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        found += [
            one.id for one in targets if isinstance(one, ast.Name) and not one.id.isupper() and one.id[0].isupper()
        ]
    return found


def test_what_counts_as_a_name() -> None:
    source = "class Aa: ...\nBb = dict[str, int]\nCc: TypeAlias = int\nLIMIT = 3\n_d = 4\nif True:\n    Ff = 1\n"
    assert names_in(source) == ["Aa", "Bb", "Cc"]


def test_one_name_one_thing() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for name in names_in(path.read_text(encoding="utf-8")):
            homes[name].append(module)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}
