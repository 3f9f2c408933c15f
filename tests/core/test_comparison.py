"""A comparison that is saved comes back as it was, without a model and without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_models import tiny

from wherefrom.api import Model
from wherefrom.core.comparison import Comparison
from wherefrom.errors import BadFile

METHODS, METRICS = ["attcat", "saliency", "random"], ["aopc", "entropy", "auprc", "kendall_confidence"]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return Model(tiny("bert")).compare("a very good film", METHODS, METRICS, rationale=[(7, 11)])


def test_there_and_back(comparison: Comparison, tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    comparison.save(path)
    again = Comparison.load(path)
    assert again.to_json() == comparison.to_json()
    assert again.names == comparison.names == tuple(METHODS)
    assert again.ranks() == comparison.ranks()
    assert again.best("aopc") == comparison.best("aopc")
    assert again.grade("attcat", "auprc").value == comparison.grade("attcat", "auprc").value
    assert again.to_html() == comparison.to_html()


def test_without_torch(comparison: Comparison, tmp_path: Path) -> None:
    comparison.save(tmp_path / "kept.json")
    program = (
        "import sys; from wherefrom.core.comparison import Comparison;"
        "found = Comparison.load(sys.argv[1]); print(found.names); assert 'torch' not in sys.modules"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "kept.json")], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.strip() == str(tuple(METHODS))


def test_damaged_files_are_refused(comparison: Comparison, tmp_path: Path) -> None:
    whole = comparison.to_dict()
    damaged = {
        "cut short": json.dumps(whole)[:200],
        "another file": json.dumps({"wherefrom": 1}),
        "a list": "[]",
        "no grades": json.dumps({name: value for name, value in whole.items() if name != "grades"}),
        "too few grades": json.dumps(whole | {"grades": whole["grades"][:1]}),
        "strange grades": json.dumps(whole | {"grades": [[{"value": 1.0}]] * len(METHODS)}),
        "strange explanations": json.dumps(whole | {"explanations": [1, 2, 3]}),
    }
    for name, content in damaged.items():
        path = tmp_path / name
        path.write_text(content)
        with pytest.raises(BadFile, match=name):
            Comparison.load(path)
    with pytest.raises(BadFile, match="There is no file"):
        Comparison.load(tmp_path / "missing")
