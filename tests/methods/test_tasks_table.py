"""docs/tasks.md says which method works for which task: what it says is what is found."""

from __future__ import annotations

import pytest
from task_table import ASKED, METHODS, NOT_DEFINED, NOT_YET, WORKS, cell, column, read_page

from wherefrom.registry import all_tasks


@pytest.mark.parametrize("task", ASKED)
def test_what_the_page_says_is_what_is_found(task: str) -> None:
    """`make tasks` writes it anew."""
    assert read_page()[task] == column(task)


def test_every_task_and_method_is_there() -> None:
    assert set(all_tasks()) <= set(ASKED)
    page = read_page()
    assert list(page) == list(ASKED)
    for found in page.values():
        assert list(found) == METHODS
        assert all(told == WORKS or told.startswith((f"{NOT_DEFINED}: ", f"{NOT_YET}: ")) for told in found.values())


def test_cells_by_hand() -> None:
    assert cell("similarity", "saliency") == WORKS
    assert cell("similarity", "alti").startswith("not yet: for similarity: this method looks at the layers of one pass")
    assert cell("a function", "attcat").startswith("not defined: the method looks inside the model")
