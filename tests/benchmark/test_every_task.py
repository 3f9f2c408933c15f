"""`wherefrom run` and `wherefrom report` from a file of JSON lines, with a model of every task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import make_model, make_network, tokenizer
from typer.testing import CliRunner

import wherefrom
from wherefrom.benchmark.store import Run
from wherefrom.cli.main import app

TEXT, PAIR = "the film was not bad", "a good plot"
Row = dict[str, Any]

# A family, how its model is made, the rows of a file, and more options of the command.
TASKS: dict[str, tuple[str, dict[str, Any], list[Row], list[str]]] = {
    "token_classification": ("bert", {"task": "token_classification"}, [{"text": TEXT}], ["--target", "all-predicted"]),
    "question_answering": ("bert", {"task": "question_answering"}, [{"question": PAIR, "context": TEXT}], []),
    "masked_lm": (
        "bert",
        {"task": "masked_lm"},
        [{"text": "the [MASK] was [MASK]", "explain": "film good"}, {"text": "a [MASK] plot", "explain": "dull"}],
        ["--target", "label"],
    ),
    "causal_lm": (
        "gpt2",
        {"task": "causal_lm"},
        [{"text": TEXT, "explain": "it is good", "foil": "it is bad"}, {"text": PAIR, "explain": "dull"}],
        ["--target", "label"],
    ),
    "seq2seq": (
        "t5",
        {"task": "seq2seq"},
        [{"text": TEXT, "summary": "it is good"}],
        ["--columns", "explain=summary", "--target", "label"],
    ),
    "multiple_choice": (
        "bert",
        {"task": "multiple_choice"},
        [{"text": TEXT, "choices": ["good", "bad"]}, {"text": PAIR, "choices": ["fine", "dull", "bad"]}],
        [],
    ),
    "reranker": ("bert", {"labels": 1}, [{"text": TEXT, "pair": PAIR, "label": 0.5}], []),
    "similarity": ("bert", {"task": "similarity"}, [{"sentence1": TEXT, "sentence2": PAIR}], []),
    "zero_shot": (
        "bert",
        {},
        [{"text": TEXT, "label": "good"}, {"text": PAIR, "label": "dull"}],
        ["--candidates", "good,dull", "--template", "it is {} .", "--target", "label"],
    ),
}


def folder_of(task: str, folder: Path) -> Path:
    """The files of a model for this task."""
    family, more, *_ = TASKS[task]
    if task == "zero_shot":
        network: Any = make_network(family, id2label={0: "contradiction", 1: "neutral", 2: "entailment"})
        words: Any = tokenizer()
    else:
        made = make_model(family, **more)
        network, words = made.network.module, made.reading.tokenizer
    network.save_pretrained(folder)
    words.save_pretrained(folder)
    if task == "similarity":
        modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
        listed = [
            {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{name}"}
            for place, (name, path) in enumerate(modules)
        ]
        (folder / "modules.json").write_text(json.dumps(listed), encoding="utf-8")
        (folder / "1_Pooling").mkdir()
        pooling = {"word_embedding_dimension": network.config.hidden_size, "pooling_mode_mean_tokens": True}
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")
    return folder


def invoked(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.mark.parametrize("task", TASKS)
def test_from_a_file_to_a_report(task: str, tmp_path: Path) -> None:
    model, rows, more = folder_of(task, tmp_path / "model"), TASKS[task][2], TASKS[task][3]
    data = tmp_path / "data.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    names = ["--methods", "occlusion,random", "--metrics", "comprehensiveness", "--workers", "1"]
    out = str(tmp_path / "run")
    told = invoked("run", str(data), "--out", out, "--model", str(model), *names, *more)
    assert "0 examples with errors" in told
    found = Run.load(out)
    rows_of = found.explanations.to_dict("records")
    assert {row["text"] for row in rows_of} == {row.get("text") or row.get("question") or TEXT for row in rows}
    assert found.scores["value"].notna().all()
    # What was kept is what Python says of the same text and target.
    chosen: dict[str, Any] = {"labels": ["good", "dull"], "template": "it is {} ."} if task == "zero_shot" else {}
    loaded = wherefrom.load(model, **chosen)
    for row in rows_of:
        if row["method"] == "occlusion":
            text: Any = row["text"] if not isinstance(row["pair"], str) else (row["text"], row["pair"])
            first, _, other = row["target"].partition(" rather than ")
            whole = {"itisgood": "it is good", "itisbad": "it is bad"}  # its tokens are written without blanks
            target: Any = whole.get(first, first) if not other else (whole[first], whole[other])
            again = loaded.explain(text, "occlusion", None if task == "question_answering" else target)
            assert again.target == row["target"]
            torch.testing.assert_close(
                torch.tensor(again.scores), torch.tensor(list(row["scores"])), rtol=1e-3, atol=1e-4, check_dtype=False
            )
    page = tmp_path / "report.html"
    # The heading is hyphenated in the terminal.
    assert "siveness" in invoked("report", out, "--html", str(page), "--words", "occlusion")
    assert page.stat().st_size > 10_000
    # The same command finds everything done.
    assert invoked("run", str(data), "--out", out, "--model", str(model), *names, *more) == told


def test_candidate_labels_on_the_command_line(tmp_path: Path) -> None:
    model = str(folder_of("zero_shot", tmp_path / "model"))
    expected = wherefrom.load(model, labels=["good", "bad"], template="it is {} .", multi_label=True)
    given = ["--model", model, "--candidates", "good, bad", "--template", "it is {} .", "--multi-label"]
    found = json.loads(invoked("explain", TEXT, "--json", "--no-check", "--method", "occlusion", *given))
    again = expected.explain(TEXT, "occlusion")
    assert (found["target"], found["probabilities"]) == (again.target, pytest.approx(again.probabilities))
    names = ["--methods", "occlusion", "--metrics", "comprehensiveness"]
    compared = json.loads(invoked("compare", TEXT, "--json", *names, *given))
    assert compared["explanations"][0]["scores"] == pytest.approx(again.scores, abs=1e-5)
    flipped = json.loads(invoked("flip", TEXT, "--json", *given))
    assert flipped["decision"] == expected.flip(TEXT).decision
    for words, told in (
        (["--template", "{}"], "give --candidates, too"),
        (["--candidates", " , "], "labels with commas between them"),
        (["--candidates", "good,good"], "named twice"),
    ):
        result = CliRunner().invoke(app, ["explain", TEXT, "--model", model, *words])
        assert told in str(result.exception), result.output
