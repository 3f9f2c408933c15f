"""Fine-tuning: what it learns, that it is cached, and that a training that was killed ends as one that was not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from study_data import base, sentences

import wherefrom
from wherefrom.errors import BadFile, BadOption, UnknownName, WrongModel
from wherefrom_studies import fine_tuning, scoring
from wherefrom_studies.fine_tuning import FineTuning, TrainedModel, fine_tune
from wherefrom_studies.scoring import measure
from wherefrom_studies.task_networks import TrainingTask
from wherefrom_studies.training import CHECKPOINT

LABELS = ("negative", "positive")
RECIPE = FineTuning(epochs=6, rate=2e-3, batch=8, longest=32)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base(tmp_path_factory.mktemp("base"))


def one_label(count: int = 24) -> list[dict[str, Any]]:
    return [{"text": text, "label": LABELS[label]} for text, label in sentences(count)]


CONTEXT = "the film was good and the plot was dull"
TASKS: dict[TrainingTask, tuple[list[dict[str, Any]], tuple[str, ...], str]] = {
    "one_label": (one_label(), LABELS, "accuracy"),
    "several_labels": (
        [
            {"text": text, "label": [name for name in ("film", "good") if name in text]}
            for text in ("a film", "a good film", "a plot", "a good plot", "the acting", "a good movie")
        ]
        * 4,
        ("film", "good"),
        "macro_f1",
    ),
    "answer": (
        [
            {"text": f"what was {word} ?", "pair": CONTEXT, "answer": [[start, start + 4]]}
            for word, start in (("good", 4), ("dull", 26))
        ]
        * 8,
        (),
        "exact_match",
    ),
    "two_words": (
        [{"text": f"the {one} [MASK] it", "label": right, "foil": wrong}
         for one, right, wrong in (("film", "is", "was"), ("plot", "was", "is"))] * 8,
        (),
        "accuracy",
    ),
}  # fmt: skip


@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_learned(task: TrainingTask, start: Path, tmp_path: Path) -> None:
    rows, labels, score = TASKS[task]
    recipe = FineTuning(epochs=25, rate=3e-3, batch=8, longest=32)
    found = fine_tune(start, rows, task, labels, 0, tmp_path, recipe=recipe, validation=rows)
    assert found.scores[score] == 1.0
    assert found.rows == len(rows)
    loaded = wherefrom.load(found.folder)  # what was made is a model that can be explained
    if labels:
        assert loaded.labels == list(labels)
        assert loaded.explain(rows[0]["text"], "random").prediction in labels


def test_pairs_are_read_as_pairs(start: Path, tmp_path: Path) -> None:
    """The class depends on both texts: neither of them alone tells it."""
    rows = [
        {"text": f"the {one}", "pair": f"a {other}", "label": LABELS[one == other]}
        for one in ("film", "plot")
        for other in ("film", "plot")
    ] * 4
    recipe = FineTuning(epochs=25, rate=3e-3, batch=8, longest=32)
    found = fine_tune(start, rows, "one_label", LABELS, 0, tmp_path, recipe=recipe, validation=rows)
    assert found.scores["accuracy"] == 1.0


def test_what_was_trained_is_not_trained_again(start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = one_label(8)
    quick = FineTuning(epochs=1, batch=4, longest=32)
    first = fine_tune(start, rows, "one_label", LABELS, 0, tmp_path, recipe=quick)
    monkeypatch.setattr(fine_tuning, "_train", lambda *_: pytest.fail("trained again"))
    assert fine_tune(start, rows, "one_label", LABELS, 0, tmp_path, recipe=quick) == first
    monkeypatch.undo()
    others = [
        fine_tune(start, rows, "one_label", LABELS, 1, tmp_path, recipe=quick),
        fine_tune(start, rows[:-1], "one_label", LABELS, 0, tmp_path, recipe=quick),
        fine_tune(start, rows, "one_label", LABELS, 0, tmp_path, recipe=FineTuning(epochs=1, batch=5, longest=32)),
    ]
    assert len({first.folder, *(one.folder for one in others)}) == 4


def same_weights(one: TrainedModel, other: TrainedModel) -> bool:
    left, right = (load_file(found.folder / "model.safetensors") for found in (one, other))
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_a_training_that_was_killed_ends_as_one_that_was_not(tmp_path: Path) -> None:
    """Killed with no chance to tidy up, once a checkpoint is there; with dropout, which has to be the same again."""
    rows, start = one_label(), base(tmp_path / "base", dropout=0.1)
    whole = fine_tune(start, rows, "one_label", LABELS, 0, tmp_path / "whole", recipe=RECIPE)
    program = (
        "import json, os, signal, sys, torch\n"
        "from wherefrom_studies import fine_tuning, training\n"
        "torch.set_num_threads(1)\n"
        "training.SECONDS_BETWEEN_CHECKPOINTS = 0.0\n"
        "start, out, rows = json.loads(sys.stdin.read())\n"
        "def stop(done, everything):\n"
        "    if done == 8:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "fine_tuning.fine_tune(start, rows, 'one_label', ('negative', 'positive'), 0, out,\n"
        "    recipe=fine_tuning.FineTuning(epochs=6, rate=2e-3, batch=8, longest=32), on_progress=stop)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps([str(start), str(tmp_path / "killed"), rows]), text=True,
        env=os.environ, check=False, capture_output=True,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (folder,) = (path for path in (tmp_path / "killed").iterdir() if path.is_dir())
    assert (folder / CHECKPOINT).is_file()
    steps: list[int] = []

    def note(done: int, _everything: int) -> None:
        steps.append(done)

    again = fine_tune(start, rows, "one_label", LABELS, 0, tmp_path / "killed", recipe=RECIPE, on_progress=note)
    assert steps[0] == 7  # the checkpoint of the eighth step was not written yet
    assert steps[-1] == 18
    assert same_weights(whole, again)
    assert not (folder / CHECKPOINT).exists()


def test_killed_between_the_model_and_its_record(start: Path, tmp_path: Path) -> None:
    rows, quick = one_label(8), FineTuning(epochs=1, batch=4, longest=32)
    found = fine_tune(start, rows, "one_label", LABELS, 0, tmp_path, recipe=quick)
    shutil.copytree(found.folder, tmp_path / "kept")
    (found.folder.parent / fine_tuning.RECORD).unlink()
    again = fine_tune(start, rows, "one_label", LABELS, 0, tmp_path, recipe=quick)
    assert same_weights(again, found._replace(folder=tmp_path / "kept"))


def test_mistakes(start: Path, tmp_path: Path) -> None:
    rows = one_label(4)
    with pytest.raises(UnknownName, match="one_label"):
        fine_tune(start, rows, "one_labels", LABELS, 0, tmp_path)  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="nothing to train on"):
        fine_tune(start, [], "one_label", LABELS, 0, tmp_path)
    with pytest.raises(BadOption, match="two labels"):
        fine_tune(start, rows, "one_label", (), 0, tmp_path)
    with pytest.raises(BadFile, match="Row 1 has the label 'negative'"):
        fine_tune(start, rows, "one_label", ("bad", "good"), 0, tmp_path)
    with pytest.raises(WrongModel, match=r"no config\.json"):
        fine_tune(tmp_path, rows, "one_label", LABELS, 0, tmp_path / "out")
    with pytest.raises(BadOption, match="at least one epoch"):
        FineTuning(epochs=0)


def test_macro_f1_by_hand() -> None:
    # one label right once of two predictions (F1 2/3), one never predicted (0), one that is nowhere (left out)
    predicted = torch.tensor([[1, 0, 0], [1, 0, 0]])
    gold = torch.tensor([[1, 0, 0], [0, 1, 0]])
    assert scoring._macro_f1(predicted, gold) == pytest.approx((2 / 3 + 0) / 2)


def test_answers_are_compared_as_squad_does() -> None:
    assert scoring._words("The Denver Broncos.") == scoring._words("denver broncos")
    assert scoring._overlap(["a", "b"], ["b", "c", "d"]) == pytest.approx(2 / 5)
    assert scoring._overlap([], []) == 1.0
    assert scoring._overlap([], ["a"]) == 0.0


def test_a_question_without_an_answer_points_at_the_first_token(start: Path, tmp_path: Path) -> None:
    rows = [{"text": "what was great ?", "pair": CONTEXT, "answer": []}] * 8
    recipe = FineTuning(epochs=20, rate=3e-3, batch=8, longest=32)
    found = fine_tune(start, rows, "answer", (), 0, tmp_path, recipe=recipe, validation=rows[:1])
    assert found.scores["exact_match"] == 1.0
    assert measure(found.folder, [{**rows[0], "answer": [[4, 8]]}], "answer", ())["exact_match"] == 0.0
