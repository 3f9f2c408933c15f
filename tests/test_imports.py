"""Imports point one way: layers are packages, and a package may import those above it in the list, never those
below.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import wherefrom

ORDER = [
    "errors",
    "orphans",
    "progress",
    "catalogue",
    "samples",
    "core",
    "files",
    "typing",
    "registry",
    "model",
    "networks",
    "case",
    "grading",
    "metrics",
    "heads",
    "optimus",
    "selection",
    "methods",
    "sources",
    "api",
    "doctor",
    "testing",
    "benchmark",
    "statistics",
    "audit",
    "report",
    "explorer",
    "cli",
]
# A result shows itself when a person asks for it: the only imports that point down, all of them inside functions.
VIEWS = {
    ("core.explanation", "report.notebook"),
    ("core.flow", "report.notebook"),
    ("core.comparison", "report.notebook"),
    ("core.flip", "report.notebook"),
    ("core.explanation", "report.terminal"),
    ("core.explanation", "report.html"),
    ("core.explanation", "report.bars"),
    ("core.explanation", "report.paper"),
    ("core.comparison", "report.paper"),
    ("core.flip", "report.flip"),
    ("core.interactions", "report.interactions"),
    ("core.interactions", "report.notebook"),
    ("core.flow", "report.flow"),
    ("core.generation", "report.generation"),
    ("core.source_grades", "report.source_grades"),
    ("core.sources", "report.sources"),
    ("core.flow", "report.flow_terminal"),
    ("core.comparison", "report.comparison"),
    ("core.comparison", "report.comparison_terminal"),
    ("core.audit", "report.audit"),
    ("core.audit", "report.audit_card"),
    ("core.audit", "report.audit_terminal"),
    ("api", "audit.build"),  # a verb of a model that needs a run: what a model can do is asked of the model
    ("api", "audit.plan"),
}
# What the screen side may see: plain data.
PLAIN = (
    "errors",
    "catalogue",
    "core",
    "report",
    "benchmark.summary",
    "benchmark.words",
    "benchmark.statistics",
    "benchmark.recommendation",
)


def package(module: str) -> str:
    return module.partition(".")[0]


def modules() -> dict[str, Path]:
    root = Path(wherefrom.__file__).parent
    names = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(root.rglob("*.py"))
    }
    return {name: path for name, path in names.items() if name not in ("__init__", "__main__")}


def imported(source: str, known: set[str]) -> set[str]:
    """The modules of ours that a source text imports, however it is written: `import a.b`, `from a.b import c`, `from a
    import b`.
    """
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {
                alias.name.removeprefix("wherefrom.") for alias in node.names if alias.name.startswith("wherefrom.")
            }
        if (
            isinstance(node, ast.ImportFrom)
            and node.level == 0
            and (node.module or "").partition(".")[0] == "wherefrom"
        ):
            home = (node.module or "").removeprefix("wherefrom").removeprefix(".")
            inner = {f"{home}.{alias.name}".removeprefix(".") for alias in node.names}
            found |= {name if name in known else home for name in inner} - {""}
    return found


def imports() -> list[tuple[str, str]]:
    known = modules()
    return [
        (here, there)
        for here, path in known.items()
        for there in sorted(imported(path.read_text(encoding="utf-8"), set(known)))
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import wherefrom.case.passes", {"case.passes"}),
        ("from wherefrom.case import passes, other", {"case.passes", "case"}),
        ("from wherefrom.case.passes import Passes", {"case.passes"}),
        ("from wherefrom import registry, __version__", {"registry"}),
        ("def f():\n    from wherefrom import api", {"api"}),
        ("import torch", set()),
    ],
)
def test_every_way_to_import_is_seen(source: str, expected: set[str]) -> None:
    assert imported(source, {"case", "case.passes", "registry", "api"}) == expected


def test_no_relative_imports() -> None:
    """Which the tests above would not see."""
    for name, path in modules().items():
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        assert not any(isinstance(node, ast.ImportFrom) and node.level for node in nodes), name


def test_every_package_has_a_place() -> None:
    assert {package(name) for name in modules()} <= set(ORDER)


def test_imports_point_one_way() -> None:
    rank = {name: number for number, name in enumerate(ORDER)}
    down = [
        (here, there)
        for here, there in imports()
        if rank[package(there)] > rank[package(here)] and (here, there) not in VIEWS
    ]
    assert down == []


def test_the_screen_side_sees_plain_data_only() -> None:
    seen = [
        (here, there)
        for here, there in imports()
        if package(here) == "report" and not any(f"{there}.".startswith(f"{name}.") for name in PLAIN)
    ]
    assert seen == []


def test_no_branch_on_a_model_type_outside_of_the_table() -> None:
    branching = [
        name
        for name, path in modules().items()
        if name != "model.families"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare) and "model_type" in ast.unparse(node)
    ]
    assert branching == []
