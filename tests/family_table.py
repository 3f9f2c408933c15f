"""What works on every family, as docs/families.md says it: a small random model of each is tried with every method.

`make families` writes the page (`python tests/family_table.py`); tests/methods/test_families.py compares it, family by
family, with what is found.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from tiny_models import CHEAP, CONFIGS, make_model, task_of
from tolerances import TOLERANCE, precision_of

from wherefrom.api import Model
from wherefrom.case.case import Case, make_cases
from wherefrom.errors import NotSeen
from wherefrom.methods.input_x_gradient import ONLY_ROUNDING_NOTE
from wherefrom.model.text_model import TextModel
from wherefrom.registry import all_methods

PAGE = Path(__file__).parents[1] / "docs" / "families.md"
TEXT = "the film was not bad, but dull!"
METHODS = [row.name for row in all_methods()]
NOT_YET = "There is no relevance rule"  # how the error begins that another row of a table would put right
BEGIN, END = "<!-- families: written by `make families` -->", "<!-- end of families -->"


@dataclass(frozen=True)
class FamilyRow:
    """A line of the table: how well blocks are rebuilt, and why a method does not work. None: it does."""

    rebuilt: str
    reasons: dict[str, str | None]


@cache
def family_model(family: str) -> TextModel:
    """A small model in double precision whose norms and biases differ, so that two that are swapped show."""
    model = make_model(family, dtype=torch.float64)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.network.module.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def family_case(family: str) -> Case:
    model = family_model(family)
    (cases,) = make_cases(model, [model.encode(TEXT)], [None], reads=["gradients"])
    return cases[0]


def row_of(family: str) -> FamilyRow:
    """Try everything; raises where a method gives rounding, or ends in an error that does not say why."""
    model = family_model(family)
    rounding = TOLERANCE[precision_of(model)]
    return FamilyRow(_rebuilt(family), {method: _reason(model, method, rounding) for method in METHODS})


def _rebuilt(family: str) -> str:
    """A bound on the error and not the error, whose last bits another processor finds otherwise."""
    case = family_case(family)
    try:
        error = max(case.rebuild_error(), case.parts_error())
    except NotSeen:
        return "-"
    bound = TOLERANCE[precision_of(case.model)]
    assert error < bound, f"{family} is not rebuilt from its parts: {error}"
    return f"< {bound:.0e}"


def _reason(model: TextModel, method: str, rounding: float) -> str | None:
    try:
        found = Model(model).explain(TEXT, method, **CHEAP.get(method, {}))
    except NotSeen as problem:
        return str(problem)
    if ONLY_ROUNDING_NOTE in found.notes:
        return ONLY_ROUNDING_NOTE
    # A sum that is negative becomes zero in these, so that all scores may be zero towards one class, but not to all.
    others = range(len(model.labels)) if method in ("cam", "gradcam") and model.task.name == "classification" else ()
    sizes = (max(map(abs, one.scores)) for one in (found, *(Model(model).explain(TEXT, method, i) for i in others)))
    assert any(size > rounding for size in sizes), f"{method} gives nothing but rounding"
    return None


def cell(reason: str | None, notes: list[str]) -> str:
    """What stands in the table; the reason goes to the notes below it, once."""
    if reason is None:
        return "works"
    if reason not in notes:
        notes.append(reason)
    return f"{'not yet' if reason.startswith(NOT_YET) else 'not defined'} ({notes.index(reason) + 1})"


def written(rows: dict[str, FamilyRow]) -> str:
    """The table and its notes."""
    notes: list[str] = []
    lines = [
        "| family | task | rebuilt | " + " | ".join(f"`{method}`" for method in METHODS) + " |",
        "|---|---|---|" + "---|" * len(METHODS),
    ]
    for family, row in sorted(rows.items()):
        cells = " | ".join(cell(row.reasons[method], notes) for method in METHODS)
        lines.append(f"| `{family}` | {task_of(family)} | {row.rebuilt} | {cells} |")
    return "\n".join([*lines, "", *(f"{number}. {note}" for number, note in enumerate(notes, 1))])


def read_page() -> dict[str, FamilyRow]:
    """The rows that the page has, with the notes in place of their numbers."""
    table = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    notes = dict(line.split(". ", 1) for line in table.splitlines() if line[:1].isdigit())
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    methods = [name.strip("`") for name in lines[0][3:]]
    found = {}
    for name, _, rebuilt, *cells in lines[1:]:
        reasons = [None if one == "works" else notes[one.partition("(")[2].strip(")")] for one in cells]
        found[name.strip("`")] = FamilyRow(rebuilt, dict(zip(methods, reasons, strict=True)))
    return found


def write_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    rows = {}
    for family in CONFIGS:
        print(family, file=sys.stderr, flush=True)
        rows[family] = row_of(family)
    PAGE.write_text(f"{before}{BEGIN}\n\n{written(rows)}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    write_page()
