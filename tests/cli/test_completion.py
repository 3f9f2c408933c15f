"""What a shell is offered, as bash asks for it, without torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wherefrom.cli.completion import complete_metrics


def offered(*words: str) -> list[str]:
    """What bash would offer for the last of the words. torch may not be imported meanwhile."""
    code = "import sys; sys.modules['torch'] = None; from wherefrom.cli.main import main; main()"
    asked = {"_WHEREFROM_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    program = f"import sys; sys.argv = ['wherefrom']; {code}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("wherefrom", "explain", "--method", "kern"), ["kernel_shap"]),
        (("wherefrom", "explain", "--level", "s"), ["sentence"]),
        (("wherefrom", "explain", "--target", "P"), ["POSITIVE"]),
    ],
)
def test_the_shell_is_offered_names(words: tuple[str, ...], expected: list[str]) -> None:
    assert offered(*words) == expected


def test_labels_of_a_folder_and_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"id2label": {"0": "ham", "1": "spam"}}))
    assert offered("wherefrom", "explain", "--model", str(tmp_path), "--target", "s") == ["spam"]
    assert offered("wherefrom", "explain", "--model", str(tmp_path / "none"), "--target", "s") == []


def test_several_names_are_completed_behind_the_comma() -> None:
    assert complete_metrics("aopc,suff") == ["aopc,sufficiency"]
    assert complete_metrics("def") == ["default"]
    assert "aopc,default" not in complete_metrics("aopc,")
