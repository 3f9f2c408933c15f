"""The study: complete, resumable after being killed, and honest about what is missing."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import make_network, tokenizer
from typer.testing import CliRunner

from sparse_study.toys import write_dataset
from wherefrom.errors import BadFile, BadOption, UnknownName
from wherefrom.typing import OnProgress
from wherefrom_studies.bench import SIZES, StudyBench
from wherefrom_studies.commands import study as app
from wherefrom_studies.pages import as_plain, html_page, markdown_tables
from wherefrom_studies.progress import Watch, unwatched
from wherefrom_studies.sparse import paper
from wherefrom_studies.sparse.data import read_dataset
from wherefrom_studies.sparse.judging import judged, of_training, pooled
from wherefrom_studies.sparse.measuring import (
    ENCODERS,
    LAMBDAS,
    PROJECTIONS,
    SPREADS,
    TrainingRun,
    measured,
    plan,
    seeds_by_dataset,
    texts_within,
)
from wherefrom_studies.sparse.paper import CLAIMS
from wherefrom_studies.sparse.study import STUDY, described
from wherefrom_studies.sparse.tables import lambda_and_entropy, over_seeds, tables
from wherefrom_studies.study import page_of

CHILD = """
import os, signal, sys
from pathlib import Path
from contextlib import nullcontext
from wherefrom_studies.bench import SIZES, StudyBench
from wherefrom_studies.sparse.measuring import measured
import torch
torch.set_num_threads(int(sys.argv[4]))  # as many as the parent has: only then numbers are added up alike
left = int(sys.argv[3])
def report(done, total):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
bench = StudyBench(Path(sys.argv[1]), Path(sys.argv[2]), SIZES["quick"], watch=lambda _: nullcontext(report))
measured(bench, ["sst"], epochs=2, size=6)
"""


def measured_on(
    data: Path, out: Path, datasets: Sequence[str] = ("sst",), *, quick: bool = False, watch: Watch = unwatched,
    seeds: int = 1, epochs: int = 6, size: int = 128,
) -> dict[str, Any]:  # fmt: skip
    bench = StudyBench(data, out, SIZES["quick" if quick else "standard"], watch=watch)
    return measured(bench, datasets, seeds, epochs=epochs, size=size)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_dataset(folder)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Everything, small, with two seeds."""
    data = tmp_path_factory.mktemp("few")
    write_dataset(data, texts=10)
    return measured_on(data, tmp_path_factory.mktemp("whole"), seeds=2, epochs=1, size=6)


def numbers(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if "seconds" not in key} for row in results["runs"]]


def test_a_killed_study_goes_on_to_the_same_numbers(data: Path, tmp_path: Path) -> None:
    untouched = measured_on(data, tmp_path / "whole", quick=True, epochs=2, size=6)
    # Two batches an epoch, so five reports a training: killed in the second epoch of the third one, with two
    # classifiers done and one half-way.
    command = [sys.executable, "-c", CHILD, str(data), str(tmp_path / "killed"), "14", str(torch.get_num_threads())]
    assert subprocess.run(command, check=False, timeout=300).returncode == -signal.SIGKILL
    files = sorted(path.name for path in (tmp_path / "killed").rglob("*") if path.is_file())
    assert "checkpoint.pt" in files
    assert "results.json" not in files
    started: dict[str, tuple[int, int]] = {}

    def note(what: str) -> AbstractContextManager[OnProgress]:
        return nullcontext(lambda done, total: started.setdefault(what, (done, total)) and None)

    resumed = measured_on(data, tmp_path / "killed", quick=True, epochs=2, size=6, watch=note)
    assert numbers(resumed) == numbers(untouched)
    steps = "steps of training, at most 2 epochs"
    first, second = (f"sst bilstm {name} spread {SPREADS[0]:g}: {steps}" for name in PROJECTIONS)
    assert first not in started
    assert second not in started
    assert started[f"sst bilstm softmax spread {SPREADS[1]:g}: {steps}"] == (2, 4)  # the first epoch was kept
    started.clear()
    measured_on(data, tmp_path / "killed", quick=True, epochs=2, size=6, watch=note)
    assert started == {}


def test_everything_is_measured(whole: dict[str, Any]) -> None:
    assert len(whole["runs"]) == 2 * 2 * (2 + 2 + len(LAMBDAS) - 1)
    titles = [table.title for table in tables(whole)]
    assert [title.split(":")[0] for title in titles if title.startswith("Table")] == [
        "Table 3",
        "Table 1",
        "Table 6",
        "Table 2",
        "Table 5",
    ]
    for row in whole["runs"]:
        if row["adversary"]:
            assert 0 <= row["divergence"] <= math.log(2) + 1e-6
        else:
            assert len(row["tau"]["g(x)"]) == whole["datasets"]["sst"]["test"]
            assert all(0 <= h <= 1.00001 for values in row["entropy"].values() for h in values)
    json.dumps(whole, allow_nan=False)


def test_tables_and_page_show_measured_numbers_beside_the_papers(whole: dict[str, Any], tmp_path: Path) -> None:
    text = markdown_tables(tables(whole))
    row = next(
        row
        for row in whole["runs"]
        if row["encoder"] == "bilstm" and row["projection"] == "softmax" and not row["adversary"]
    )
    both = [
        one["accuracy"]
        for one in whole["runs"]
        if one["encoder"] == "bilstm" and one["projection"] == "softmax" and not one["adversary"]
    ]
    assert row["accuracy"] in both
    assert f"| SST · BiLSTM softmax | {over_seeds(both)} (0.82) |" in text
    assert "(0.25 ± 0.28)" in text
    page = html_page(page_of(STUDY, described(whole), tmp_path), tmp_path)
    for words in (
        "Fig. 1",
        "Fig. 2",
        "Fig. 3",
        "Fig. 4",
        "paper 0.25 ± 0.28",
        "95% interval",
        *(title for title, _ in paper.CONTRADICTIONS),
    ):
        assert words in page
    assert page.count('<img src="data:image/png;base64,') == 4
    assert "http://" not in page
    assert "quick study" not in page
    assert html_page(page_of(STUDY, described(whole), tmp_path), tmp_path) == page  # nothing random in it


def test_intervals_by_hand() -> None:
    mean = over_seeds([0.7, 0.8, 0.9])
    assert mean.value == pytest.approx(0.8)
    assert mean.interval == pytest.approx(4.302653 * 0.1 / math.sqrt(3), rel=1e-6)
    assert over_seeds([0.7]).interval is None
    assert str(over_seeds([0.7], [0.25])) == "0.70 ± 0.25"


def test_lambda_and_entropy_by_hand() -> None:
    rows = [
        {"projection": projection, "entropy": {"g(x)": values}}
        for projection, values in (
            ("sparsegen:-1", [0.9, 0.1]),
            ("sparsemax", [0.6, 0.2]),
            ("sparsegen:0.5", [0.5, 0.15]),
        )
    ]
    across, within_texts = lambda_and_entropy(rows)
    assert across == pytest.approx(-1)  # the means are 0.5, 0.4, 0.325
    assert within_texts == pytest.approx((-1 + 1 / 3) / 2)


def test_the_spread_is_chosen_by_dev_accuracy_for_every_projection_alike(whole: dict[str, Any]) -> None:
    for encoder in ENCODERS:
        tried = [one for one in whole["spreads"] if one["encoder"] == encoder]
        assert [one["spread"] for one in tried] == list(SPREADS)
        (chosen,) = (one for one in tried if one["chosen"])
        assert sum(chosen["dev"]) == pytest.approx(max(sum(one["dev"]) for one in tried), abs=1e-4)
        used = {row["spread"] for row in whole["runs"] if row["encoder"] == encoder}
        assert used == {chosen["spread"]}
        trained = {
            row["projection"]: row["dev"]
            for row in whole["runs"]
            if row["encoder"] == encoder and row["seed"] == 0 and not row["adversary"]
        }
        assert chosen["dev"] == pytest.approx([trained[name] for name in PROJECTIONS], abs=1e-4)


def test_the_frozen_transformer_s_adversary_learns_ten_times_as_fast() -> None:
    spreads = {("sst", encoder): 0.1 for encoder in ENCODERS}
    faster = {
        (run.architecture.encoder, run.adversary): run.faster
        for run in plan({"sst": 1}, spreads, quick=False)
        if run.adversary
    }
    assert faster.pop(("transformer", "frozen")) == 10
    assert set(faster.values()) == {1}


def made_up(sign: float) -> dict[str, Any]:
    """Two seeds of one data set for which the paper's text is right (1) or wrong (-1) in everything."""
    runs: list[dict[str, Any]] = []
    for seed in (0, 1):
        for encoder in ENCODERS:
            for place, projection in enumerate(("softmax", "sparsegen:-1", "sparsemax", "sparsegen:0.5")):
                inputs = 0.5 - sign * 0.1 * place
                runs.append(
                    {
                        "dataset": "sst", "encoder": encoder, "projection": projection, "seed": seed, "adversary": None,
                        "tau": {
                            "g(x)": [inputs, inputs], "g(I)": [inputs + sign * 0.2] * 2,
                            "D(x)": [inputs, None], "D(I)": [inputs + sign * 0.2, None],
                        },
                        "entropy": {"g(x)": [0.5 + sign * 0.1 * place], "g_h(x)": [0.5 + sign * 0.3]},
                    }
                )  # fmt: skip
            for mode, lost in (("frozen", sign * 0.1), ("unfrozen", 0.01 if sign > 0 else 0.2)):
                runs.append(
                    {
                        "dataset": "sst", "encoder": encoder, "projection": "softmax", "seed": seed, "adversary": mode,
                        "base_accuracy": 0.8, "accuracy": 0.8 - lost,
                    }
                )  # fmt: skip
    return {"datasets": {"sst": {}}, "runs": runs}


def test_every_claim_can_be_confirmed_and_refuted() -> None:
    right = {one.claim.name: one.verdict for one in judged(made_up(1.0))}
    assert right == dict.fromkeys(CLAIMS, "confirmed")
    wrong = {one.claim.name: one.verdict for one in judged(made_up(-1.0))}
    assert wrong == dict.fromkeys(CLAIMS, "refuted")


def test_intervals_over_seeds_by_hand() -> None:
    """Two cells of two seeds, each .1 from its mean: the pooled variance is (4 * .01) / 2, that of the mean of four
    numbers a quarter of it, and Student's factor of two degrees is 4.303.
    """
    found = pooled([[0.1, 0.3], [0.5, 0.7]])
    assert found is not None
    assert found.value == pytest.approx(0.4)
    assert found.high == pytest.approx(0.4 + 4.302653 * math.sqrt(0.02 / 4), rel=1e-6)
    least = pooled([[0.1, 0.3], [0.5, 0.7]], least=True)
    assert least is not None
    assert least.value == pytest.approx(0.2)
    assert least.low == pytest.approx(0.2 - 4.302653 * math.sqrt(0.02 / 2), rel=1e-6)
    alone = pooled([[0.4], [0.6]])
    assert alone is not None
    assert (alone.value, alone.low) == (0.5, None)  # nothing is concluded from one seed
    assert pooled([[], [math.nan]]) is None


def test_the_page_has_claims_and_spreads(whole: dict[str, Any], tmp_path: Path) -> None:
    page = page_of(STUDY, described(whole), tmp_path)
    assert page.facts[0].endswith("to measure on; 2 seeds.")
    assert page.tables[0].title == "The spread of the initial word vectors"
    assert len(page.claims) == len(CLAIMS)
    assert all(one.estimate is not None for one in page.claims)
    kept = json.loads(json.dumps(as_plain(page)["trainings"], allow_nan=False))
    assert len(kept) == len(whole["runs"])


def test_what_is_kept_of_a_training_by_hand() -> None:
    row = made_up(1.0)["runs"][0]
    assert of_training(row) == {
        "dataset": "sst", "encoder": "bilstm", "projection": "softmax", "seed": 0, "adversary": None,
        "tau": {"g(x)": 0.5, "g(I)": 0.7, "D(x)": 0.5, "D(I)": 0.7}, "entropy": {"g(x)": 0.5, "g_h(x)": 0.8},
    }  # fmt: skip


def test_a_run_is_named_after_all_that_decides_it() -> None:
    spreads = {(name, encoder): 0.1 for name in ("sst", "imdb") for encoder in ENCODERS}
    runs = plan({"sst": 2, "imdb": 2}, spreads, quick=False)
    folders = {run.folder(Path("runs"), "data") for run in runs}
    assert len(folders) == len(runs)
    first = runs[0]
    assert first.folder(Path("runs"), "data") != first.folder(Path("runs"), "other data")
    longer = plan({"sst": 1}, spreads, quick=True, epochs=9)[0]
    assert first.folder(Path("runs"), "data") != longer.folder(Path("runs"), "data")
    quick = plan({"sst": 1}, spreads, quick=True)[0]
    assert isinstance(quick, TrainingRun)
    assert first.folder(Path("runs"), "data") == quick.folder(
        Path("runs"), "data"
    )  # a larger study takes over a smaller one


def test_a_data_set_may_have_a_number_of_seeds_of_its_own() -> None:
    spreads = {(name, encoder): 0.1 for name in ("sst", "imdb") for encoder in ENCODERS}
    seeds = seeds_by_dataset(["sst", "imdb:1"], 3)
    assert seeds == {"sst": 3, "imdb": 1}
    runs = plan(seeds, spreads, quick=True)
    assert {(run.dataset, run.recipe.seed) for run in runs} == {("sst", 0), ("sst", 1), ("sst", 2), ("imdb", 0)}
    for wrong, why in (("imdb:", "a number"), ("imdb:two", "a number"), ("imdb:0", "at least one seed")):
        with pytest.raises(BadOption, match=why):
            seeds_by_dataset([wrong], 3)


def test_texts_within_a_budget(data: Path) -> None:
    test = read_dataset(data, "sst").test
    assert len(texts_within(test, 10**9)) == len(test)
    some = texts_within(test, 500)
    assert 0 < len(some) < len(test)
    assert sum(len(text) ** 2 for text in some) <= 500
    assert texts_within(test, 0) == []


def test_mistakes(data: Path, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"lacks jw_imdb_train\.jsonl, jw_imdb_dev\.jsonl, jw_imdb_test\.jsonl"):
        measured_on(data, tmp_path, ["sst", "imdb"])
    with pytest.raises(UnknownName, match="Did you mean 'sst'"):
        measured_on(data, tmp_path, ["ssst"])
    with pytest.raises(BadOption, match="at least one seed"):
        measured_on(data, tmp_path, seeds=0)
    assert list(tmp_path.iterdir()) == []  # said before anything was done
    (tmp_path / "file").write_text("")
    with pytest.raises(BadFile, match="could not be made"):
        measured_on(data, tmp_path / "file" / "out", quick=True)


def test_the_command(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    write_dataset(data, texts=8)
    result = CliRunner().invoke(
        app, ["sparse", "--data-dir", str(data), "--out", str(out), "--datasets", "SST", "--quick"]
    )
    assert result.exit_code == 0, result.output
    assert str(out / "sparse.html") in result.stdout.replace("\n", "")
    assert "This is the quick study" in (out / "sparse.html").read_text(encoding="utf-8")
    assert "Table 3" in (out / "sparse.md").read_text(encoding="utf-8")

    make_network("bert", labels=2).save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    texts = tmp_path / "sst2_dev.jsonl"
    texts.write_text(
        '{"text": "a good film", "label": 1}\n{"text": "the plot was bad, very bad", "label": 0}\n', encoding="utf-8"
    )
    arguments = ["sparse", "--data-dir", str(tmp_path), "--out", str(out), "-m", str(tmp_path / "model")]
    assert CliRunner().invoke(app, [*arguments, "--device", "cpu"]).exit_code == 0
    page = (out / "sparse-at-inference.html").read_text(encoding="utf-8")
    assert "attention projected at inference" in page
    found = json.loads((out / "at-inference.json").read_text(encoding="utf-8"))
    by_name = {one["projection"]: one for one in found["projections"]}
    assert by_name["softmax"]["same"] == 1
    assert by_name["softmax"]["measures"]["zeros"] == [0, 0]
    assert all(value > 0 for value in by_name["sparsegen:0.9"]["measures"]["zeros"])
    failed = CliRunner().invoke(app, [*arguments, "--limit", "0"])
    assert isinstance(failed.exception, BadOption)
