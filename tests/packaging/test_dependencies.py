"""What the package imports is what its metadata declares; what an extra brings is imported only when it is used."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import wherefrom

ROOT = Path(__file__).parents[2]
SOURCE = Path(wherefrom.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DISTRIBUTION = {
    "huggingface_hub": "huggingface-hub",
    "sklearn": "scikit-learn",
}  # where the name that is imported is not the one that is installed
# Parts of a page whose entry has asked for matplotlib already (report.benchmark.check_extra), a picture that calls
# `new_figure` first, which asks for it, and parts of the server, which starts with explorer.serve.check_extra.
BEHIND_A_CHECK = {
    "wherefrom.report.figure": {"matplotlib"},
    "wherefrom.report.head_map": {"matplotlib"},
    "wherefrom.explorer.app": {"fastapi", "starlette"},
    "wherefrom.explorer.routes": {"fastapi"},
    "wherefrom.explorer.questions": {"pydantic"},
    "wherefrom.explorer.serve": {"uvicorn"},
}


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~; ]", one)[0].lower() for one in requirements}


DECLARED = names(PROJECT["dependencies"])
EXTRAS = {
    extra: names(requirements)
    for extra, requirements in PROJECT["optional-dependencies"].items()
    if extra not in ("all", "dev", "docs")  # made of the others, or for those who work on the project
}


class Imports(ast.NodeVisitor):
    """Third-party modules that a source text imports: (name, where). Where is "top" if the import runs with the
    module, "lazy" if it is inside a function, "guarded" if it is also in a `try` that turns its absence into
    MissingExtra.
    """

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []
        self.where = ["top"]

    def inside(self, where: str, nodes: list[ast.stmt]) -> None:
        self.where.append(where)
        for node in nodes:
            self.visit(node)
        self.where.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.inside("lazy", node.body)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":  # for mypy only
            self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        says_so = any(
            isinstance(statement, ast.Raise) and "MissingExtra" in ast.unparse(statement)
            for handler in node.handlers
            for statement in handler.body
        )
        self.inside("guarded" if says_so and self.where[-1] != "top" else self.where[-1], node.body)
        for part in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(part)

    def add(self, module: str) -> None:
        top = module.partition(".")[0]
        if top != "wherefrom" and top not in sys.stdlib_module_names:
            self.found.append((top, self.where[-1]))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.add(node.module or "")

    def visit_Call(self, node: ast.Call) -> None:
        if ast.unparse(node.func) == "import_module" and isinstance(node.args[0], ast.Constant):
            self.add(str(node.args[0].value))
        self.generic_visit(node)


def imports_of(source: str) -> list[tuple[str, str]]:
    visitor = Imports()
    visitor.visit(ast.parse(source))
    return visitor.found


def imports() -> Iterator[tuple[str, str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        for name, where in imports_of(path.read_text(encoding="utf-8")):
            yield module, DISTRIBUTION.get(name, name), where


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import os, numpy.linalg", [("numpy", "top")]),
        ("from scipy import stats", [("scipy", "top")]),
        ("from wherefrom import api", []),
        ("if TYPE_CHECKING:\n    import pandas", []),
        ("def f():\n    import pandas", [("pandas", "lazy")]),
        ("def f():\n    spacy = import_module('spacy')", [("spacy", "lazy")]),
        ("try:\n    import ray\nexcept ImportError:\n    raise MissingExtra('a', 'ray')", [("ray", "top")]),
        ("def f():\n    try:\n        import ray\n    except ImportError:\n        pass", [("ray", "lazy")]),
        (
            "def f():\n    try:\n        import ray\n    except ImportError:\n        raise MissingExtra('a', 'b')",
            [("ray", "guarded")],
        ),
    ],
)
def test_every_way_to_import_is_seen(source: str, expected: list[tuple[str, str]]) -> None:
    assert imports_of(source) == expected


def test_every_import_is_declared() -> None:
    known = DECLARED.union(*EXTRAS.values())
    assert {(module, name) for module, name, _ in imports() if name not in known} == set()


def test_every_declared_dependency_is_imported() -> None:
    assert DECLARED - {name for _, name, _ in imports()} == set()


def test_what_an_extra_brings_is_imported_when_it_is_used_and_its_absence_said() -> None:
    unguarded = {
        (module, name)
        for module, name, where in imports()
        if name not in DECLARED and where != "guarded" and name not in BEHIND_A_CHECK.get(module, set())
    }
    assert unguarded == set()


def extras_named(source: str) -> Iterator[tuple[str, set[str]]]:
    """Of every `try` whose handler raises MissingExtra("...", "bench"): the extra, and what is imported there."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Try):
            continue
        for call in (call for handler in node.handlers for call in ast.walk(handler) if isinstance(call, ast.Call)):
            if ast.unparse(call.func) == "MissingExtra":
                visitor = Imports()
                for statement in node.body:
                    visitor.visit(statement)
                yield ast.literal_eval(call.args[1]), {DISTRIBUTION.get(name, name) for name, _ in visitor.found}


def test_the_extra_that_is_named_brings_what_is_missing() -> None:
    wrong = [
        (path.name, extra, imported)
        for path in sorted(SOURCE.rglob("*.py"))
        for extra, imported in extras_named(path.read_text(encoding="utf-8"))
        if not imported or not imported <= EXTRAS[extra] | DECLARED
    ]
    assert wrong == []


def test_what_stands_beside_an_extra_is_read() -> None:
    source = "def f():\n    try:\n        import ray, sklearn\n    except Any:\n        raise MissingExtra('a', 'ray')"
    assert list(extras_named(source)) == [("ray", {"ray", "scikit-learn"})]


def test_the_extra_all_is_all_of_them() -> None:
    (one,) = PROJECT["optional-dependencies"]["all"]
    listed = re.fullmatch(r"wherefrom\[([\w,]+)\]", one)
    assert listed is not None
    assert set(listed[1].split(",")) == set(EXTRAS)


def test_every_direct_dependency_is_pinned_for_the_tests() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    asked = DECLARED.union(*map(names, PROJECT["optional-dependencies"].values())) - {"wherefrom"}
    assert asked - pinned == set()


def test_the_version_stands_in_one_place() -> None:
    assert "version" in PROJECT["dynamic"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version:", citation, re.MULTILINE) is None
