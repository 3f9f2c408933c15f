"""The pages in docs/appendix/studies have the verdicts that the means of their tables give."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[1] / "review_claims.py"))


@pytest.mark.parametrize("name", list(SCRIPT["PAGES"]))
def test_verdicts_are_those_of_the_tables(name: str) -> None:
    page = json.loads((SCRIPT["DOCS"] / f"{name}.json").read_text(encoding="utf-8"))
    written = {claim["name"]: (claim["verdict"], claim["corrected"]) for claim in page["claims"]}
    assert written == {judged.claim.name: (judged.verdict, judged.corrected) for judged in SCRIPT["review"](name)}
