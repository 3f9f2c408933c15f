"""A run's folder: whatever happens to it, a part is there wholly or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow
import pyarrow.parquet as parquet
import pytest

from wherefrom.benchmark import Run, read_thermostat, write_thermostat
from wherefrom.benchmark.columns import rationale_of
from wherefrom.benchmark.parts import Part
from wherefrom.benchmark.receipts import read_receipt
from wherefrom.benchmark.store import FolderInUse, FolderTaken, new_manifest, open_store
from wherefrom.benchmark.summary import summarise
from wherefrom.benchmark.tables import schemas
from wherefrom.benchmark.worker import is_timed
from wherefrom.errors import BadFile, WherefromError
from wherefrom.explorer.runs import ShownRun

MODEL = {"name": "toy", "fingerprint": "0123", "labels": ["NO", "YES"]}


COSTS = {"examples": 2, "asked": 4}
ALONE = {"method": "attcat", "seconds": 0.25, "forwards": 1, "backwards": 1}


def manifest(parts: int = 3, **more: Any) -> dict[str, Any]:
    configuration = {"plan": {"methods": []}, "methods": ["attcat", "random"], "model": MODEL} | more
    facts = {"how": {}, "data": "few", "examples": parts, "model": MODEL, "metrics": []}
    return new_manifest(configuration, parts=parts, facts=facts)


def part(number: int) -> Part:
    explanation = {
        "example": f"e{number}",
        "target": "YES",
        "method": "attcat",
        "prediction": "YES",
        "probability": 0.75,
        "label": "NO",
        "text": "so so",
        "pair": None,
        "level": "token",
        "tokens": ["[CLS]", "so", "so"],
        "scores": [0.0, 1 / 3, -number],
        "offsets": [[0, 0], [0, 2], [3, 5]],
        "segment": [-1, 0, 0],
        "input_ids": [1, 7, 7],
        "signed": True,
        "params": '{"heads": "mean"}',
        "notes": "[]",
        "gap": None,
        "unassigned": None,
        "cut": 0,
        "seconds": 0.5,
        "forwards": 1,
        "backwards": 1,
    }
    score = {
        "example": f"e{number}",
        "target": "YES",
        "method": "attcat",
        "metric": "aopc",
        "value": number / 7,
        "why": "",
        "details": "{}",
    }
    undefined = score | {"metric": "auprc", "value": None, "why": "no rationale was given"}
    return Part(
        [explanation],
        [score, undefined],
        [{"example": "bad", "method": None, "where": "x, line 3", "error": "no"}],
        COSTS,
        [ALONE],
    )


def fill(folder: Path, numbers: list[int], parts: int = 3) -> None:
    with open_store(folder, manifest(parts)) as store:
        for number in numbers:
            store.write(number, part(number))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    fill(tmp_path / "run", [1, 0])
    run = Run.load(tmp_path / "run")
    assert not run.finished
    assert run.done == [0, 1]
    assert run.scores["value"].tolist()[::2] == [0.0, 1 / 7]
    assert run.scores["value"].isna().tolist() == [False, True, False, True]
    assert run.scores["why"].tolist()[1] == "no rationale was given"
    assert list(run.explanations.iloc[1]["scores"]) == [0.0, 1 / 3, -1.0]
    assert run.errors["error"].tolist() == ["no", "no"]
    assert run.costs.to_dict("list") == {"part": [0, 1], "examples": [2, 2], "asked": [4, 4]}
    assert run.alone.to_dict("records")[1] == {"part": 1, "examples": 2, **ALONE}
    fill(tmp_path / "run", [2])
    assert Run.load(tmp_path / "run").finished


def test_parts_without_times_have_those_of_the_nearest(tmp_path: Path) -> None:
    count = 12
    with open_store(tmp_path / "run", manifest(count)) as store:
        for number in range(count):
            alone = [ALONE | {"seconds": float(number)}] if is_timed(number) else []
            store.write(number, replace(part(number), alone=alone))
    found = Run.load(tmp_path / "run").alone
    assert found["part"].tolist() == list(range(count))
    assert found["seconds"].tolist() == [0, 1, 2, 3, 3, 6, 6, 6, 10, 10, 10, 10]
    assert found["examples"].tolist() == [2] * count


def test_a_run_without_times_has_none(tmp_path: Path) -> None:
    with open_store(tmp_path / "run", manifest(1)) as store:
        store.write(0, replace(part(0), alone=[]))
    assert Run.load(tmp_path / "run").alone.empty
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "run" / "scores"), Run.load(tmp_path / "run").scores)


def test_a_run_without_parts_has_its_columns(tmp_path: Path) -> None:
    fill(tmp_path / "run", [])
    run = Run.load(tmp_path / "run")
    assert list(run.scores.columns) == ["example", "target", "method", "metric", "value", "why", "details"]
    assert list(run.explanations.columns) == schemas()["explanations"].names


def test_a_run_of_an_earlier_version_still_opens_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    fill(folder, [0], parts=2)
    file = folder / "explanations" / "00000.parquet"
    older = parquet.read_table(file).drop_columns(["rationale", "pair_rationale"])
    parquet.write_table(older, file)
    sums = read_receipt(folder, 0)["sums"] | {"explanations": hashlib.sha256(file.read_bytes()).hexdigest()}
    damaged_receipt(folder, sums=sums)
    (row,) = Run.load(folder).rows("explanations")
    assert "rationale" not in row
    assert rationale_of(row) is None
    with open_store(folder, manifest(2)) as store:
        assert store.check() == ({0}, [])
        newer = part(1)
        newer.explanations[0] |= {"rationale": [[0, 2]], "pair_rationale": []}
        store.write(1, newer)
    run = Run.load(folder)
    assert [rationale_of(row) for row in run.rows("explanations")] == [None, (((0, 2),), ())]
    assert run.explanations["rationale"].isna().tolist() == [True, False]
    assert write_thermostat(run, tmp_path / "lines.jsonl") == 2
    parquet.write_table(older.drop_columns(["label"]), file)  # a column that every version has
    damaged_receipt(folder, sums=sums | {"explanations": hashlib.sha256(file.read_bytes()).hexdigest()})
    with pytest.raises(BadFile, match="has other columns"):
        Run.load(folder)


class Killed(BaseException):
    pass


def interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> bool:
    """Write a part, killed at the n-th step that touches the disk; False if there were not so many."""
    steps = iter(range(10_000))

    def step(function: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            if next(steps) == at:
                raise Killed
            return function(*arguments, **more)

        return call

    with monkeypatch.context() as patch, open_store(folder, manifest(1)) as store:
        patch.setattr(os, "fsync", step(os.fsync))
        patch.setattr(Path, "replace", step(Path.replace))
        patch.setattr(Path, "open", step(Path.open))
        try:
            store.write(0, part(0))
        except Killed:
            return True
    return False


def test_killed_at_every_step_of_writing_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = 0
    while interrupted(tmp_path / str(at), monkeypatch, at):
        folder = tmp_path / str(at)
        with open_store(folder, manifest(1)) as store:
            done, damaged = store.check()
            assert not damaged
            assert not list(folder.glob("*/.part-*"))
            if not done:
                store.write(0, part(0))
            else:
                assert at == 15  # only the last step of all comes after the receipt has its name
        assert list(Run.load(folder).rows("scores")) == part(0).scores
        at += 1
    assert at == 16  # four files: each opened, made to reach the disk, named, and the name made to reach it


@pytest.mark.parametrize("table", ["explanations", "scores", "errors", "receipts"])
@pytest.mark.parametrize("harm", ["cut short", "one bit", "empty"])
def test_damage_is_seen_set_aside_and_made_good(tmp_path: Path, table: str, harm: str) -> None:
    folder = tmp_path / "run"
    fill(folder, [0, 1, 2])
    whole = Run.load(folder).scores
    (file,) = (folder / table).glob("00001.*")
    content = bytearray(file.read_bytes())
    if harm == "one bit":
        content[len(content) // 2] ^= 1
    file.write_bytes(bytes({"cut short": content[:-5], "one bit": content, "empty": b""}[harm]))
    with pytest.raises(BadFile, match="Run 'wherefrom run' again"):
        Run.load(folder)
    with open_store(folder, manifest()) as store:
        done, damaged = store.check()
        assert done == {0, 2}
        assert [damage.number for damage in damaged] == [1]
        assert str(file) in damaged[0].why
        assert len(list((folder / "aside").iterdir())) == 4  # its three tables and its receipt
        store.write(1, part(1))
    pd.testing.assert_frame_equal(Run.load(folder).scores, whole)


def test_a_missing_file_is_damage(tmp_path: Path) -> None:
    fill(tmp_path / "run", [0])
    (tmp_path / "run" / "scores" / "00000.parquet").unlink()
    with open_store(tmp_path / "run", manifest()) as store:
        assert store.check()[0] == set()


def test_a_receipt_of_another_part_is_none(tmp_path: Path) -> None:
    fill(tmp_path / "run", [0, 1])
    receipts = tmp_path / "run" / "receipts"
    (receipts / "00002.json").write_bytes((receipts / "00001.json").read_bytes())
    with pytest.raises(BadFile, match=r"00002.json is damaged"):
        read_receipt(tmp_path / "run", 2)


def test_another_configuration_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "run", [0])
    other = manifest(methods=["attcat", "alti"], model=MODEL | {"fingerprint": "4567"})
    with (
        pytest.raises(
            FolderTaken,
            match=r"methods: attcat, random there, attcat, alti now; model.fingerprint: 0123 there, 4567 now",
        ),
        open_store(tmp_path / "run", other),
    ):
        pass
    with open_store(tmp_path / "run", manifest()) as store:
        assert store.check()[0] == {0}


def rewritten(folder: Path, **changes: Any) -> None:
    """The manifest with other values, and a checksum that is right for them: made by somebody, not damaged."""
    there = json.loads((folder / "manifest.json").read_text()) | changes
    facts = {name: value for name, value in there.items() if name not in ("wherefrom_run", "hash", "parts", "sum")}
    made = new_manifest(facts.pop("configuration"), parts=there["parts"], facts=facts)
    (folder / "manifest.json").write_text(json.dumps(made))


def test_what_makes_a_run_complete_is_under_the_checksum(tmp_path: Path) -> None:
    """A number of parts that was changed by hand must not make half a run a finished one."""
    folder = tmp_path / "run"
    with open_store(folder, manifest(6)) as store:
        for number in range(2):
            store.write(number, part(number))
    assert not Run.load(folder).finished
    path = folder / "manifest.json"
    whole = path.read_text()
    path.write_text(whole.replace('"parts": 6', '"parts": 2'))
    assert path.read_text() != whole
    with pytest.raises(BadFile, match="is damaged: its checksum does not match"):
        Run.load(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parts": "x"}, "parts is missing or not what it should be"),
        ({"parts": None}, "parts is missing"),
        ({"parts": True}, "parts is missing"),
        ({"parts": -1}, "parts is missing"),
        ({"metrics": 5}, "metrics is missing"),
        ({"metrics": ["aopc"]}, "metrics is missing"),
        ({"model": {}}, r"model.name, model.fingerprint is missing"),
        ({"configuration": {"plan": 1}}, r"configuration.plan is missing"),
    ],
)
def test_a_manifest_that_somebody_made(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with open_store(tmp_path / "run", manifest(1)) as store:
        store.write(0, part(0))
    rewritten(tmp_path / "run", **changes)
    with pytest.raises(BadFile, match=message):
        Run.load(tmp_path / "run")


def damaged_receipt(folder: Path, **changes: Any) -> None:
    body = read_receipt(folder, 0) | {"bytes": None} | changes  # receipts of earlier versions had no sizes
    body = {name: value for name, value in body.items() if value is not None}
    total = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    (folder / "receipts" / "00000.json").write_text(json.dumps({"body": body, "sum": total}))


def other_table(folder: Path, content: bytes) -> None:
    (folder / "scores" / "00000.parquet").write_bytes(content)
    sums = read_receipt(folder, 0)["sums"] | {"scores": hashlib.sha256(content).hexdigest()}
    damaged_receipt(folder, sums=sums)


def other_columns() -> bytes:
    content = io.BytesIO()
    parquet.write_table(pyarrow.table({"example": ["x"], "value": ["not a number"]}), content)
    return content.getvalue()


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: damaged_receipt(folder, sums=None), "00000.json is damaged"),
        (lambda folder: damaged_receipt(folder, sums={}), "does not hold what a receipt holds"),
        (lambda folder: damaged_receipt(folder, costs=[1]), "does not hold what a receipt holds"),
        (lambda folder: (folder / "receipts" / "00000.json").write_text("[" * 100_000), "00000.json is damaged"),
        (lambda folder: folder_instead(folder / "receipts" / "00000.json"), "00000.json cannot be read"),
        (lambda folder: folder_instead(folder / "scores" / "00000.parquet"), "00000.parquet is missing"),
        (lambda folder: other_table(folder, other_columns()), "has other columns than the scores of a run"),
        (lambda folder: other_table(folder, b"PAR1 it is not"), "is not Parquet"),
    ],
)
def test_parts_from_others(tmp_path: Path, spoil: Callable[[Path], Any], message: str) -> None:
    """With right checksums and a wrong content: one clear error, and the run goes on by making the part anew."""
    folder = tmp_path / "run"
    with open_store(folder, manifest(1)) as store:
        store.write(0, part(0))
    spoil(folder)
    with pytest.raises(BadFile, match=message):
        Run.load(folder)
    with open_store(folder, manifest(1)) as store:
        done, (damage,) = store.check()
        assert (done, damage.number) == (set(), 0)
        store.write(0, part(0))
    assert Run.load(folder).finished


def test_a_run_writes_into_its_own_folder_only(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    with open_store(folder, manifest(1)):
        pass
    elsewhere.mkdir()
    (folder / "scores").rmdir()
    (folder / "scores").symlink_to(elsewhere)
    with pytest.raises(BadFile, match="is a link to elsewhere"), open_store(folder, manifest(1)):
        pass
    assert not list(elsewhere.iterdir())


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with (
        pytest.raises(FolderTaken, match=r"is not a run, and not empty \(thesis.txt, ...\)"),
        open_store(tmp_path, manifest()),
    ):
        pass
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
    with pytest.raises(BadFile, match=r"is not the folder of a run: it has no manifest.json"):
        Run.load(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "not written by this version"),
        ('{"wherefrom_run": 3, "hash": "x", "configuration": {}}', "is damaged: the hash"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_a_manifest_that_is_none(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(BadFile, match=message):
        Run.load(tmp_path)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    program = (
        "import sys, json; from pathlib import Path; from wherefrom.benchmark.store import open_store\n"
        "with open_store(Path(sys.argv[1]), json.loads(sys.argv[2])): print('in', flush=True); sys.stdin.read()"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path / "run"), json.dumps(manifest())]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"in\n"
        with (
            pytest.raises(FolderInUse, match="Another process is running in"),
            open_store(tmp_path / "run", manifest()),
        ):
            pass
        first.kill()
    fill(tmp_path / "run", [0])  # the lock went with the process


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadFile, match="The run cannot be stored in"), open_store(tmp_path / "file" / "run", manifest()):
        pass


def test_no_room_on_the_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with open_store(tmp_path / "run", manifest()) as store:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(BadFile, match="No space left on device"):
            store.write(0, part(0))


def test_thermostat_lines_there_and_back(tmp_path: Path) -> None:
    fill(tmp_path / "run", [0, 1])
    run = Run.load(tmp_path / "run")
    assert write_thermostat(run, tmp_path / "lines.jsonl") == 2
    line = json.loads((tmp_path / "lines.jsonl").read_text().splitlines()[1])
    assert line["dataset"] == {"name": "few"}
    assert line["explainer"] == {"name": "attcat", "heads": "mean"}
    assert line["instance"]["attributions"] == [0.0, 1 / 3, -1.0]
    assert line["instance"]["input_ids"] == [1, 7, 7]
    assert line["instance"]["pair"] is None
    back = read_thermostat(tmp_path / "lines.jsonl")
    for column in back.columns:
        for one, other in zip(back[column], run.explanations[column], strict=True):
            if column == "offsets":
                assert [list(span) for span in one] == [list(span) for span in other]
            elif isinstance(one, list):
                assert one == list(other), column
            else:
                assert one == other or (pd.isna(one) and pd.isna(other)), column


def test_thermostat_s_own_lines(tmp_path: Path) -> None:
    line = {
        "dataset": {"name": "imdb", "split": "test"},
        "model": {"name": "some/albert"},
        "explainer": {"name": "LayerIntegratedGradients", "n_samples": 25},
        "instance": {
            "attributions": [0.5, -0.25],
            "idx": 0,
            "input_ids": [2, 45],
            "label": 1,
            "predictions": [-1.5, 2.5],
        },
    }
    path = tmp_path / "lines.jsonl"
    path.write_text(json.dumps(line) + "\n")
    (row,) = read_thermostat(path, tokens=lambda ids: [f"t{one}" for one in ids]).to_dict("records")
    assert (row["example"], row["method"], row["target"], row["label"]) == ("0", "LayerIntegratedGradients", "1", "1")
    assert (row["tokens"], row["scores"]) == (["t2", "t45"], [0.5, -0.25])
    line["instance"]["attributions"] = [1.0]  # type: ignore[index]
    path.write_text(json.dumps(line) + "\n")
    with pytest.raises(WherefromError, match=r"lines.jsonl, line 1: 1 attributions for 2 tokens"):
        read_thermostat(path)
    path.write_text('{"instance": {}}\n')
    with pytest.raises(WherefromError, match=r"lines.jsonl, line 1: a line has an explainer"):
        read_thermostat(path)


def test_tables_that_do_not_fit_the_manifest(tmp_path: Path) -> None:
    """They have right checksums, and a method that the manifest does not know."""
    fill(tmp_path, [0, 1, 2])
    with pytest.raises(BadFile, match=r"do not fit its manifest \(KeyError: 'attcat'\)"):
        summarise(Run.load(tmp_path))
    with pytest.raises(BadFile, match="do not fit its manifest"):
        ShownRun.read(tmp_path)
