"""Runs over data sets: the numbers of single comparisons, whatever happens on the way."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from tiny_models import make_model, make_network, tokenizer
from tolerances import TOLERANCE, assert_close
from torch import Tensor

import wherefrom
from benchmark.films import TEXTS
from benchmark.tables import same_tables
from wherefrom.benchmark import Run
from wherefrom.benchmark.cluster import RayWorker, on_ray
from wherefrom.benchmark.columns import rationale_of
from wherefrom.benchmark.datasets import DataSet
from wherefrom.benchmark.estimate import CostEstimate
from wherefrom.benchmark.parts import Part
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.receipts import Damage
from wherefrom.benchmark.run import PARTS_PER_WINDOW, OnDamage, chunks
from wherefrom.benchmark.run import run as run_plan
from wherefrom.benchmark.statistics import winners
from wherefrom.benchmark.store import FolderInUse, FolderTaken, open_store, read_manifest
from wherefrom.benchmark.worker import Worker
from wherefrom.case.case import Case
from wherefrom.case.passes import Passes
from wherefrom.core.example import Example
from wherefrom.errors import WherefromError
from wherefrom.progress import OnProgress
from wherefrom.registry import _known, method

METHODS = ("attcat", "random", "occlusion")
METRICS = ("aopc", "log_odds", "auprc")


def run(
    data: str,
    out: Path,
    *,
    resume: bool = True,
    on_progress: OnProgress | None = None,
    on_damage: OnDamage | None = None,
    **given: Any,
) -> Run:
    """A run by a plan with these settings."""
    return run_plan(RunPlan(data, **given), out, resume=resume, on_progress=on_progress, on_damage=on_damage)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, model_folder: Path, texts: Path) -> Run:
    return run(str(texts), tmp_path_factory.mktemp("runs") / "whole", **settings(model_folder))


def settings(model_folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "model": str(model_folder),
        "methods": METHODS,
        "metrics": METRICS,
        "examples_per_part": 3,
        "workers": 1,
    } | more


def test_the_numbers_are_those_of_single_comparisons(undisturbed: Run, model_folder: Path) -> None:
    model = wherefrom.load(str(model_folder))
    assert undisturbed.finished
    assert len(undisturbed.scores) == len(TEXTS) * len(METHODS) * len(METRICS)
    assert not undisturbed.scores.duplicated(["example", "method", "metric"]).any()
    found = undisturbed.scores.set_index(["example", "method", "metric"])["value"]
    rows = undisturbed.explanations.set_index(["example", "method"])
    for number, text in enumerate(TEXTS):
        single = model.compare(text, list(METHODS), list(METRICS), rationale=[(0, 3)])
        for name, explanation, grades in zip(single.names, single.explanations, single.grades, strict=True):
            kept = rows.loc[(f"f{number}", name)]
            assert_close(kept["scores"], explanation.scores, tolerance=TOLERANCE[torch.float32], what=name)
            assert (kept["target"], tuple(kept["tokens"])) == (explanation.target, explanation.tokens)
            assert kept["label"] == ("NEGATIVE", "POSITIVE")[number % 2]
            assert ([list(span) for span in kept["rationale"]], list(kept["pair_rationale"])) == ([[0, 3]], [])
            assert kept["input_ids"].tolist() == list(model.text_model.encode(text).input_ids)
            for grade in grades:
                if grade.metric != "auprc":
                    assert found[f"f{number}", name, grade.metric] == pytest.approx(
                        grade.value, abs=TOLERANCE[torch.float32]
                    )
    assert undisturbed.costs["asked"].sum() > undisturbed.costs["rows"].sum() > 0
    assert set(undisturbed.alone["method"]) == set(METHODS)


def test_every_example_is_in_one_part_with_others_of_its_length(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    lengths = [(7 * number) % 50 + 1 for number in range(3 * PARTS_PER_WINDOW + 7)]
    path.write_text("".join(json.dumps({"text": "x" * length}) + "\n" for length in lengths))
    found = list(chunks(DataSet(str(path)), 2))
    assert [number for number, _ in found] == list(range(-(-len(lengths) // 2)))
    assert sorted(int(example.id) for _, chunk in found for example in chunk) == list(range(1, len(lengths) + 1))
    first = [len(example.text) for _, chunk in found[:PARTS_PER_WINDOW] for example in chunk]
    assert first == sorted(lengths[: 2 * PARTS_PER_WINDOW])


def test_a_run_goes_on_where_it_was(undisturbed: Run, tmp_path: Path, model_folder: Path, texts: Path) -> None:
    class Enough(Exception):
        pass

    def stop(done: int, everything: int) -> None:
        assert everything == len(TEXTS)
        if done == 6:
            raise Enough

    with pytest.raises(Enough):
        run(str(texts), tmp_path / "run", **settings(model_folder), on_progress=stop)
    assert Run.load(tmp_path / "run").done == [0, 1]
    seen: list[int] = []
    again = run(str(texts), tmp_path / "run", **settings(model_folder), on_progress=lambda done, _: seen.append(done))
    assert seen == [6, 9, 10]
    same_tables(again, undisturbed)
    with pytest.raises(FolderTaken, match=r"There is a run in .* already. Continue it with --resume"):
        run(str(texts), tmp_path / "run", **settings(model_folder), resume=False)


def test_how_far_a_run_is_moves_within_parts(tmp_path: Path, model_folder: Path, texts: Path) -> None:
    """All ten examples are one part, which is worked on at once: the count moves before it is done."""
    plan, seen = RunPlan(str(texts), **settings(model_folder, examples_per_part=10)), list[tuple[int, int]]()
    run_plan(plan, tmp_path / "run", on_work=lambda *moved: seen.append(moved))
    done = [one for one, _ in seen]
    assert {everything for _, everything in seen} == {len(TEXTS)}
    assert (done[0], done[-1]) == (0, len(TEXTS))
    assert done == sorted(done)
    assert set(done) - {0, len(TEXTS)}


@pytest.mark.slow
def test_how_far_several_workers_are(tmp_path: Path, model_folder: Path, texts: Path) -> None:
    """How often they are looked at depends on how fast they are; what is finished is told always."""
    plan, seen = RunPlan(str(texts), **settings(model_folder, workers=2)), list[int]()
    run_plan(plan, tmp_path / "run", on_work=lambda done, _: seen.append(done))
    assert (seen[0], seen[-1]) == (0, len(TEXTS))
    assert all(0 <= one <= len(TEXTS) for one in seen)


def test_what_a_run_will_cost_is_said_before_it_and_after_its_first_part(
    tmp_path: Path, model_folder: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, rows, told = wherefrom.load(str(model_folder)), list[int](), list[CostEstimate]()
    monkeypatch.setattr(Worker, "_costs_alone", lambda *_: [])  # which is not counted

    def count(_: object, __: object, kwargs: dict[str, Any]) -> None:
        rows.append(len(kwargs["attention_mask"]))

    def note(estimate: CostEstimate) -> None:
        told.append(estimate)
        counts.append(sum(rows))
        rows.clear()

    counts: list[int] = []
    handle = model.text_model.network.module.register_forward_pre_hook(count, with_kwargs=True)
    plan = RunPlan(str(texts), **settings(model_folder, model=model, examples_per_part=2))
    run_plan(plan, tmp_path / "run", on_estimate=note)
    handle.remove()
    before, after = told
    assert (before.examples, before.methods, before.metrics, before.seconds) == (10, len(METHODS), len(METRICS), None)
    assert before.passes == 10 * counts[0]  # those of one example, exactly
    lengths = sorted(map(len, TEXTS))  # the first part has the two shortest texts, so that the others cost more
    assert after.passes == pytest.approx(8 / 2 * counts[1] * (sum(lengths) / 10) / (sum(lengths[:2]) / 2))
    assert after.examples == 8
    assert after.seconds is not None
    told.clear()
    run_plan(RunPlan(str(texts), **settings(model_folder, examples_per_part=10)), tmp_path / "one", on_estimate=note)
    assert not told  # one part: there is nothing to say before it is over


SMALL: dict[str, Any] = {"methods": ("attcat", "random"), "metrics": ("aopc", "log_odds"), "examples_per_part": 1}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> tuple[Path, Run]:
    """A data set of many small parts, and its undisturbed run."""
    folder = tmp_path_factory.mktemp("many")
    rows = [{"id": str(number), "text": TEXTS[number % len(TEXTS)]} for number in range(60)]
    (folder / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "many.jsonl", run(str(folder / "many.jsonl"), folder / "whole", **settings(model_folder, **SMALL))


@pytest.mark.slow
def test_killed_at_twenty_random_moments(tmp_path: Path, model_folder: Path, many: tuple[Path, Run]) -> None:
    data, whole = many
    given = settings(model_folder, **SMALL) | {"data": str(data), "out": str(tmp_path / "killed")}
    program = [sys.executable, str(Path(__file__).with_name("killing.py")), json.dumps(given)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["kills"] == 20
    assert 0 < said["parts_before_the_end"] < len(whole.done)
    same_tables(Run.load(tmp_path / "killed"), whole)


def children(of: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(entry.read_text().rpartition(")")[2].split()[1]) == of:
                found.append(int(entry.parent.name))
        except (OSError, IndexError):
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.slow
def test_the_command_with_two_processes_is_killed_and_goes_on(
    tmp_path: Path, model_folder: Path, many: tuple[Path, Run]
) -> None:
    data, whole = many
    command = [
        sys.executable,
        "-m",
        "wherefrom",
        "run",
        str(data),
        "--out",
        str(tmp_path / "run"),
        "--model",
        str(model_folder),
    ]
    command += ["--methods", "attcat,random", "--metrics", "aopc,log_odds", "--part", "1", "--workers", "2"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as first:
        while not list((tmp_path / "run").glob("receipts/0*.json")):
            assert first.poll() is None, first.stderr and first.stderr.read()
            time.sleep(0.01)
        first.send_signal(signal.SIGSTOP)  # so that it does not come to its end meanwhile
        with pytest.raises(FolderInUse), open_store(tmp_path / "run", read_manifest(tmp_path / "run")):
            pass
        workers = children(first.pid)
        assert len(workers) >= 2
        first.kill()
    for _ in range(1000):  # nobody is left behind
        if not any(
            Path(f"/proc/{worker}").exists() and "Z" not in Path(f"/proc/{worker}/stat").read_text()
            for worker in workers
        ):
            break
        time.sleep(0.01)
    else:
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        pytest.fail("worker processes outlived their parent")
    same_tables(run(str(data), tmp_path / "run", **settings(model_folder, **SMALL)), whole)


@pytest.mark.filterwarnings("ignore")  # Ray's own
@pytest.mark.slow
def test_ray_gives_the_same_tables(
    undisturbed: Run, tmp_path: Path, model_folder: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    # By default Ray lets all else go first, and its workers would hardly ever run on a busy machine.
    monkeypatch.setenv("RAY_worker_niceness", "0")
    monkeypatch.setenv("RAY_worker_register_timeout_seconds", "600")
    found = run(str(texts), tmp_path / "ray", **settings(model_folder, engine="ray", workers=2))
    same_tables(found, undisturbed)
    assert list(on_ray(None, [], 2)) == []  # type: ignore[arg-type]  # nothing to do, nothing started for it


def test_an_error_on_ray_comes_back_as_one_line(tmp_path: Path, model_folder: Path) -> None:
    worker = RayWorker(RunPlan("", str(model_folder), ["random"], ["entropy"], strict=True))
    assert worker.start() is None
    good, bad = Example("1", "a fine film"), Example("2", "\u0007", where="x, line 2")
    first, second = worker.compute((0, [good])), worker.compute((1, [bad]))
    assert isinstance(first, Part)
    assert [row["example"] for row in first.scores] == ["1"]
    assert isinstance(second, WherefromError)
    assert str(second).startswith("x, line 2: The tokenizer finds nothing")
    nowhere = RayWorker(RunPlan("", str(tmp_path / "nowhere"), ["random"], ["entropy"])).start()
    assert isinstance(nowhere, WherefromError)
    assert "cannot start" in str(nowhere)


def test_a_part_lets_its_passes_go(model_folder: Path) -> None:
    worker = Worker(RunPlan("", str(model_folder), ["attcat", "transatt"], ["aopc"]))
    gc.collect()
    gc.disable()  # so that it is not by chance
    before = {id(one) for one in gc.get_objects() if type(one) is Passes}  # what other tests keep
    try:
        worker([Example(str(number), text) for number, text in enumerate(TEXTS)])
        left = [one for one in gc.get_objects() if type(one) is Passes and id(one) not in before]
    finally:
        gc.enable()
    assert left == []


def test_damage_is_made_good(undisturbed: Run, tmp_path: Path, model_folder: Path, texts: Path) -> None:
    folder = tmp_path / "run"
    run(str(texts), folder, **settings(model_folder))
    (folder / "scores" / "00000-00003.parquet").write_bytes(b"PAR1")
    seen: list[Damage] = []
    same_tables(run(str(texts), folder, **settings(model_folder), on_damage=seen.append), undisturbed)
    assert [(damage.number, damage.parts) for damage in seen] == [(0, 4)]
    assert len(list((folder / "aside").iterdir())) == 4  # three tables and a receipt


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"methods": "attcat"}, "methods: attcat, random, occlusion there, attcat now"),
        ({"level": "word"}, "level: token there, word now"),
        ({"limit": 3}, "limit: None there, 3 now"),
        ({"examples_per_part": 4}, "examples_per_part: 3 there, 4 now"),
    ],
)
def test_another_configuration_is_refused(
    undisturbed: Run, model_folder: Path, texts: Path, other: dict[str, Any], message: str
) -> None:
    with pytest.raises(FolderTaken, match=message):
        run(str(texts), undisturbed.folder, **settings(model_folder, **other))


def test_another_model_or_other_data_are_refused(
    undisturbed: Run, tmp_path: Path, model_folder: Path, texts: Path
) -> None:
    other = wherefrom.load(
        (make_network("bert", labels=2, seed=1, id2label={0: "NEGATIVE", 1: "POSITIVE"}), tokenizer())
    )
    with pytest.raises(FolderTaken, match=r"model.fingerprint: "):
        run(str(texts), undisturbed.folder, **settings(model_folder, model=other))
    changed = tmp_path / "films.jsonl"
    changed.write_text(texts.read_text().replace("not bad", "not good"))
    with pytest.raises(FolderTaken, match=r"digest: "):
        run(str(changed), undisturbed.folder, **settings(model_folder))


def test_a_bad_example_is_noted_and_does_not_end_the_run(tmp_path: Path, model_folder: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text('{"text": "a fine film"}\n{"text": "\\u0007"}\n{"text": "not bad"}\n')
    chosen = settings(model_folder, metrics="aopc")
    found = run(str(path), tmp_path / "run", **chosen)
    assert found.finished
    (error,) = found.rows("errors")
    assert (error["example"], error["where"]) == ("2", f"{path}, line 2")
    assert "finds nothing to read" in error["error"]
    assert set(found.scores["example"]) == {"1", "3"}
    with pytest.raises(WherefromError, match=r"some.jsonl, line 2: The tokenizer finds nothing"):
        run(str(path), tmp_path / "strict", **chosen, strict=True)
    assert run(str(path), tmp_path / "strict", **chosen).finished  # strict is no part of the configuration


@pytest.fixture
def fragile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_known, "method", dict(_known["method"]))

    @method(family="floor", signed=True, per_class=False, reads="nothing", paper="none")
    def fragile(case: Case) -> Tensor:
        if "dull" in case.encoding.text:
            raise RuntimeError("out of luck")
        if "great" in case.encoding.text:
            raise WherefromError("not this one")
        return torch.arange(len(case.encoding), dtype=torch.float32)


@pytest.mark.usefixtures("fragile")
def test_an_error_inside_a_batch_is_traced_to_its_example(
    undisturbed: Run, tmp_path: Path, model_folder: Path, texts: Path
) -> None:
    found = run(str(texts), tmp_path / "run", **settings(model_folder, methods=["attcat", "fragile"]))
    errors = {(row["example"], row["method"]): row["error"] for row in found.rows("errors")}
    dull = {f"f{number}" for number, text in enumerate(TEXTS) if "dull" in text}
    great = {f"f{number}" for number, text in enumerate(TEXTS) if "great" in text and "dull" not in text}
    assert errors == {(name, "fragile"): "RuntimeError: out of luck" for name in dull} | {
        (name, "fragile"): "not this one" for name in great
    }
    ours = found.scores[found.scores["method"] == "attcat"].set_index(["example", "metric"])["value"]
    known = undisturbed.scores[undisturbed.scores["method"] == "attcat"].set_index(["example", "metric"])["value"]
    assert set(ours.index.get_level_values(0)) == {f"f{number}" for number in range(len(TEXTS))}
    for key, value in ours.items():
        assert value == pytest.approx(known[key], abs=TOLERANCE[torch.float32])
    with pytest.raises(WherefromError, match=r"films.jsonl, line \d+: "):
        run(str(texts), tmp_path / "strict", **settings(model_folder, methods=["fragile"], strict=True))


def test_labels_the_model_does_not_know(tmp_path: Path, model_folder: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text('{"text": "a fine film", "label": "POSITIVE"}\n{"text": "not bad", "label": "meh"}\n')
    chosen = settings(model_folder, methods="random", metrics="entropy")
    with pytest.raises(
        WherefromError, match=r"line 2: the model has no label 'meh', only NEGATIVE, POSITIVE. .* --labels meh=NEGATIVE"
    ):
        run(str(path), tmp_path / "run", **chosen)
    assert not (tmp_path / "run").exists()
    meant = run(str(path), tmp_path / "run", **chosen, labels={"meh": "NEGATIVE"})
    assert meant.explanations["label"].tolist() == ["NEGATIVE", "POSITIVE"]  # the shorter text comes first
    aside = run(str(path), tmp_path / "aside", **chosen, labels="none")
    assert aside.explanations["label"].isna().all()
    with pytest.raises(WherefromError, match="label explains the data set's labels, but these are ignored"):
        run(str(path), tmp_path / "x", **chosen, labels="none", target="label")


@pytest.mark.parametrize(
    ("name", "label", "message"),
    [
        (
            "x.jsonl",
            "-1",
            r"x.jsonl, line 2: the label is -1, but classes are numbered from 0. If it stands for no label",
        ),
        ("x.jsonl", "2", r"x.jsonl, line 2: the model has no label '2'"),
        ("x.jsonl", "0.5", r"x.jsonl, line 2: the model has no label '0.5'"),
        ("x.jsonl", "[-1]", r"x.jsonl, line 2: the model has no label '-1'"),
        ("x.csv", "-1", r"x.csv, line 3: the label is -1, but"),
        ("x.csv", "-1.0", r"x.csv, line 3: the label is -1, but"),
        ("x.csv", "--1", r"x.csv, line 3: the model has no label '--1'"),
        ("x.csv", "nan", r"x.csv, line 3: the model has no label 'nan'"),
    ],
)
def test_numbers_that_are_no_class_are_refused(
    tmp_path: Path, model_folder: Path, name: str, label: str, message: str
) -> None:
    path = tmp_path / name
    lines = [f'{{"text": "a film", "label": {one}}}\n' for one in (1, label)]
    path.write_text(f"text,label\na film,1.0\nnot bad,{label}\n" if name.endswith("csv") else "".join(lines))
    with pytest.raises(WherefromError, match=message):
        run(str(path), tmp_path / "run", **settings(model_folder))
    assert not (tmp_path / "run").exists()


def test_what_a_number_means_can_be_said(tmp_path: Path, model_folder: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("text,label\na film,1.0\nnot bad,-1\n")
    chosen = settings(model_folder, methods=["random"], metrics=["entropy"])
    found = run(str(path), tmp_path / "named", **chosen, labels={"-1": "NEGATIVE"})
    assert sorted(found.explanations["label"]) == ["NEGATIVE", "POSITIVE"]
    ignored = run(str(path), tmp_path / "ignored", **chosen, labels="none")
    assert ignored.explanations["label"].isna().all()


def test_data_that_do_not_fit_the_model_are_refused_before_anything_is_computed(
    tmp_path: Path, model_folder: Path, texts: Path
) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "is it good ?", "context": "the film is good"}\n')
    for data in (str(questions), "sample:questions"):
        with pytest.raises(
            WherefromError, match=r"line 1: this is a question about a context, but .* is made for class"
        ):
            run(data, tmp_path / "run", **settings(model_folder))
    answers = wherefrom.api.Model(make_model("bert", task="question_answering"))
    with pytest.raises(
        WherefromError, match=r"films.jsonl, line 1: there is no second text, but .* looks for an answer"
    ):
        run(str(texts), tmp_path / "run", **settings(model_folder, model=answers))
    assert not (tmp_path / "run").exists()


def test_the_label_can_be_explained_instead_of_the_prediction(tmp_path: Path, model_folder: Path, texts: Path) -> None:
    chosen = settings(model_folder, methods="attcat", metrics="entropy")
    found = run(str(texts), tmp_path / "label", **chosen, target="label")
    assert (found.explanations["target"] == found.explanations["label"]).all()
    assert set(found.explanations["target"]) == {"NEGATIVE", "POSITIVE"}
    fixed = run(str(texts), tmp_path / "fixed", **chosen, target="positive")
    assert set(fixed.explanations["target"]) == {"POSITIVE"}
    with pytest.raises(WherefromError, match="Did you mean 'POSITIVE'"):
        run(str(texts), tmp_path / "x", **chosen, target="positif")
    bare = tmp_path / "bare.jsonl"
    bare.write_text('{"text": "a fine film"}\n')
    with pytest.raises(WherefromError, match=r"bare.jsonl, line 1: there is no label to explain"):
        run(str(bare), tmp_path / "x", **chosen, target="label")


def test_rationales_of_the_label_that_is_explained(tmp_path: Path, model_folder: Path) -> None:
    path = tmp_path / "many.jsonl"
    row = {
        "text": "a fine film",
        "label": ["NEGATIVE", "POSITIVE"],
        "rationale": {"POSITIVE": [[2, 6]], "NEGATIVE": [[7, 11]]},
    }
    path.write_text(json.dumps(row) + "\n")
    chosen = settings(model_folder, methods="attcat", metrics="auprc")
    both = run(str(path), tmp_path / "run", **chosen, target="label")
    kept = {row["target"]: rationale_of(row) for row in both.rows("explanations")}
    assert kept == {"POSITIVE": (((2, 6),), ()), "NEGATIVE": (((7, 11),), ())}
    found = both.scores.set_index("target")["value"]
    model = wherefrom.load(str(model_folder))
    for label, span in (("POSITIVE", (2, 6)), ("NEGATIVE", (7, 11))):
        known = model.compare("a fine film", ["attcat"], ["auprc"], label, rationale=[span]).grades[0][0].value
        assert found[label] == pytest.approx(known)
    predicted = run(str(path), tmp_path / "predicted", **chosen)
    (only,) = predicted.rows("scores")
    assert only["value"] == pytest.approx(found[only["target"]])


def test_questions_with_answers(tmp_path: Path) -> None:
    path = tmp_path / "squad.jsonl"
    path.write_text('{"text_a": "is it good ?", "text_b": "the film was not bad", "answer": "not bad"}\n')
    inner = make_model("bert", task="question_answering")
    found = run(
        str(path),
        tmp_path / "run",
        model=wherefrom.Model(inner),
        methods=["random"],
        metrics=["precision_at_k:k=2", "aopc"],
    )
    known = wherefrom.Model(inner).compare(
        ("is it good ?", "the film was not bad"), ["random"], ["precision_at_k:k=2", "aopc"], answer="not bad"
    )
    assert found.scores["value"].tolist() == pytest.approx([grade.value for grade in known.grades[0]])


def test_what_won_is_counted(tmp_path: Path, model_folder: Path, texts: Path) -> None:
    found = run(
        str(texts),
        tmp_path / "run",
        **settings(model_folder, methods=["optimus", "random"], metrics="entropy", limit=3),
    )
    counted = winners(found.batches("explanations", ["method", "params"]))
    assert list(counted) == ["optimus"]
    assert counted["optimus"].total() == 3


def test_words_have_no_token_ids(tmp_path: Path, model_folder: Path, texts: Path) -> None:
    found = run(str(texts), tmp_path / "run", **settings(model_folder, level="word", metrics="aopc", limit=2))
    assert set(found.explanations["level"]) == {"word"}
    assert found.explanations["input_ids"].isna().all()


def test_a_model_that_is_handed_over(undisturbed: Run, tmp_path: Path, model_folder: Path, texts: Path) -> None:
    model = wherefrom.load(str(model_folder))
    before = torch.get_num_threads(), gc.get_freeze_count()
    found = run(str(texts), tmp_path / "run", **settings(model_folder, model=model, workers=None))
    pd.testing.assert_frame_equal(found.scores, undisturbed.scores, check_exact=True)
    assert (torch.get_num_threads(), gc.get_freeze_count()) == before
    with pytest.raises(WherefromError, match="Several workers load the model themselves"):
        run(str(texts), tmp_path / "two", **settings(model_folder, model=model, workers=2))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"engine": "spark"}, "No engine is called 'spark'"),
        ({"workers": 0}, "at least 1 worker"),
        ({"level": "letter"}, "No level is called 'letter'"),
        ({"examples_per_part": 0}, "at least 1 example"),
        ({"address": "auto"}, "say --engine ray"),
        ({"methods": "attkat"}, "Did you mean 'attcat'"),
        ({"metrics": "aopk"}, "Did you mean 'aopc'"),
    ],
)
def test_what_cannot_be_asked_for(
    tmp_path: Path, model_folder: Path, texts: Path, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(WherefromError, match=message):
        run(str(texts), tmp_path / "run", **settings(model_folder, **wrong))
    assert not (tmp_path / "run").exists()
