from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wherefrom.core.explanation import Explanation, Unit
from wherefrom.errors import BadFile, WherefromError


def example(**changes: object) -> Explanation:
    fields: dict[str, object] = {
        "text": "Not bad. Fun!",
        "tokens": ("[CLS]", "not", "ba", "##d", ".", "fun", "!", "[SEP]"),
        "scores": (5.0, -1.0, 0.5, 0.25, 0.0, 2.0, -0.5, -9.0),
        "offsets": ((0, 0), (0, 3), (4, 6), (6, 7), (7, 8), (9, 12), (12, 13), (0, 0)),
        "segment": (-1, 0, 0, 0, 0, 0, 0, -1),
        "word_of": (-1, 0, 1, 1, 2, 3, 4, -1),
        "sentence_of": (-1, 0, 0, 0, 0, 1, 1, -1),
        "target": "POSITIVE",
        "prediction": "POSITIVE",
        "probability": 0.9,
        "method": "attcat",
        "layers": ((1.0,) * 8, (4.0, -2.0, -0.5, -0.75, -1.0, 1.0, -1.5, -10.0)),
        "params": {"hidden": "input"},
        "gap": 0.125,
    }
    return Explanation(**(fields | changes))  # type: ignore[arg-type]


def test_special_tokens_are_flagged_and_hidden_unless_asked_for() -> None:
    explanation = example()
    assert explanation.special == (True, *(False,) * 6, True)
    assert [unit.text for unit in explanation.units()] == ["Not", "ba", "d", ".", "Fun", "!"]  # as written
    assert len(explanation.units(special=True)) == 8


def test_words_and_sentences_are_sums() -> None:
    assert example().words() == [
        Unit("Not", -1.0, 0, 3, 0),
        Unit("bad", 0.75, 4, 7, 0),
        Unit(".", 0.0, 7, 8, 0),
        Unit("Fun", 2.0, 9, 12, 0),
        Unit("!", -0.5, 12, 13, 0),
    ]
    assert example().sentences() == [Unit("Not bad.", -0.25, 0, 8, 0), Unit("Fun!", 1.5, 9, 13, 0)]
    assert example().sentences("mean") == [Unit("Not bad.", -0.0625, 0, 8, 0), Unit("Fun!", 0.75, 9, 13, 0)]
    assert example().words("max")[1].score == 0.5


def test_layers_are_pooled_with_the_scores() -> None:
    layers = example().at("word").layers
    assert layers is not None
    assert layers[0] == (1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0)


def test_top_goes_by_size_and_keeps_the_order_of_ties() -> None:
    assert [unit.text for unit in example().top(3)] == ["Fun", "Not", "ba"]


def test_a_pooled_explanation_cannot_be_pooled_again() -> None:
    by_word = example().at("word")
    assert by_word.at("word") is by_word
    with pytest.raises(WherefromError, match="by word already"):
        by_word.sentences()


def test_difference_is_scaled_by_what_is_not_special() -> None:
    other = example(method="saliency", scores=(100.0, 4.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    difference = example().minus(other)
    assert difference.method == "attcat - saliency"
    assert difference.scores[1:4] == (-0.5 - 1.0, 0.25 - 0.5, 0.125)
    with pytest.raises(WherefromError, match="same text"):
        example().minus(example(text="Another"))


def test_json_gives_back_the_same(tmp_path: Path) -> None:
    explanation = example()
    assert Explanation.from_json(explanation.to_json()) == explanation
    explanation.save(tmp_path / "one.json")
    assert Explanation.load(tmp_path / "one.json") == explanation
    assert [path.name for path in tmp_path.iterdir()] == ["one.json"]
    assert json.loads(explanation.to_json())["special"] == list(explanation.special)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "cut short"),
        ('{"wherefrom": 2, "text": "a', "cut short"),
        ("[1, 2]", "not a saved explanation"),
        ('{"text": "a"}', "not a saved explanation: it has no field 'wherefrom'"),
        ('{"wherefrom": 2, "text": "a"}', "tokens is missing"),
        # format 1 called the components of a target its aims
        (
            json.dumps({**example().to_dict(), "wherefrom": 1, "aims": []}),
            "saved by another version .*format 1;.*format 2",
        ),
        (example(scores=(1.0,)).to_json(), "damaged"),
        (b"\xff\xfe", "is not UTF-8"),
    ],
)
def test_a_damaged_file_says_so(content: str | bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadFile, match=message) as caught:
        Explanation.load(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_a_missing_folder_say_so(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="There is no file"):
        Explanation.load(tmp_path / "none.json")
    with pytest.raises(BadFile, match="could not be written"):
        example().save(tmp_path / "no" / "such" / "folder.json")


def test_views(capsys: pytest.CaptureFixture[str]) -> None:
    example().show()
    assert "fun" in capsys.readouterr().out.lower()
    assert "<html" in example().to_html()
    assert "Not" in example()._repr_html_()


@pytest.mark.parametrize(
    "module",
    [
        "wherefrom",
        "wherefrom.cli.main",
        "wherefrom.core.explanation",
        "wherefrom.report.html",
        "wherefrom.report.terminal",
    ],
)
def test_no_torch_is_loaded(module: str) -> None:
    code = f"import {module}, sys; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
