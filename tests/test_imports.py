"""Imports point one way. The order is DESIGN's; what stands further down may import what stands above, never the other way."""

from __future__ import annotations

import ast
from pathlib import Path

import whence

ORDER = [
    ["errors", "progress"],
    ["core.units", "core.example", "core.encoding", "core.target", "core.explanation", "core.flow", "core.comparison", "core.graded"],
    ["registry"],
    ["model"],
    ["core.asking", "core.case", "core.grading", "core"],
    ["methods", "metrics", "heads", "optimus"],
    ["explaining"],
    ["comparing"],
    ["api"],
    ["doctor", "benchmark", "studies", "sparse"],
    ["report", "explorer", "cli"],
]
# A person asks to see something.
VIEWS = {
    ("core.explanation", "report.terminal"),
    ("core.explanation", "report.html"),
    ("core.flow", "report.flow"),
    ("core.comparison", "report.comparison"),
    ("core.comparison", "report.comparison_terminal"),
}
# What the screen side may see. A study's or a benchmark's page lays out the tables that were made.
PLAIN = {
    "errors",
    "core.units",
    "core.explanation",
    "core.flow",
    "core.comparison",
    "report",
    "studies.sparse_tables",
    "studies.sparse_paper",
    "benchmark.summary",
    "benchmark.table",
}


def rank(module: str) -> int:
    for number, layer in enumerate(ORDER):
        if any(module == name or module.startswith((name + ".", name + "_")) for name in layer):
            return number
    raise AssertionError(f"{module} has no place in the order of layers")


def imports() -> list[tuple[str, str]]:
    root = Path(whence.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        if module in ("__init__", "__main__"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("whence."):
                found.append((module.removesuffix(".__init__"), node.module.removeprefix("whence.")))
    return found


def test_imports_point_one_way() -> None:
    upward = [(here, there) for here, there in imports() if rank(there) > rank(here) and (here, there) not in VIEWS]
    assert upward == []


def test_the_screen_side_sees_plain_data_only() -> None:
    seen = [(here, there) for here, there in imports() if here.startswith("report") and not any(there.startswith(name) for name in PLAIN)]
    assert seen == []


def test_no_branch_on_a_model_type_outside_of_the_table() -> None:
    root = Path(whence.__file__).parent
    branching = [
        path.name
        for path in root.rglob("*.py")
        if path.name != "families.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare) and "model_type" in ast.unparse(node)
    ]
    assert branching == []
