"""Which method for which task: ranks by hand, and the whole study on tiny models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from study_data import base, rows_of, write
from tiny_models import make_network, tokenizer

from wherefrom.catalogue import catalogue
from wherefrom.core.arrays import Numbers
from wherefrom_studies import methods
from wherefrom_studies.bench import StudyBase, StudyBench, StudyModel, StudySize
from wherefrom_studies.methods import (
    BY_CLASS,
    CHEAP,
    METHODS,
    METRICS,
    MethodsResult,
    choice_of,
    graded,
    judged,
    mean_ranks,
)
from wherefrom_studies.study import StudyRequest, run_study


class MadeUpRuns:
    """Runs whose values are given: the same for every metric, turned where lower is better."""

    def __init__(self, spread: float = 0.01, **values: float) -> None:
        self.spread, self.values = spread, values

    def table(self, metric: str, methods: Sequence[str], detail: str = "") -> Numbers:
        del detail
        sign = -1.0 if metric in ("sufficiency", "log_odds", "faithfulness_violation") else 1.0
        # Every second method is better on every second text, and worse on the others.
        noise = self.spread * np.outer([1, -1] * 6, [1 if METHODS.index(name) % 2 else -1 for name in methods])
        return sign * (np.array([[self.values.get(name, 0.0) for name in methods]]) + noise)


def result(runs: MadeUpRuns) -> MethodsResult:
    return MethodsResult(StudyModel("toy", "toy", {}, 1, 0.0), runs)  # type: ignore[arg-type]


def test_mean_ranks_by_hand() -> None:
    """By erasure the first method is the best of all; one at a time, all but the last two are alike."""
    worst = len(METHODS)
    row = np.zeros((len(METRICS), worst))
    for number, sign in enumerate((1.0, -1.0, 1.0, -1.0)):  # comprehensiveness, sufficiency, AOPC, log-odds
        row[number, 0] = sign
    row[4, -1], row[4, -2] = -1.0, np.nan  # rft
    found = mean_ranks(row.reshape(-1))
    shared = (1 + worst - 2) / 2  # of all but the last two, one at a time by rft
    equal = (1 + worst) / 2  # of all, by monotonicity and violation
    behind = (2 + worst) / 2  # of all but the first, by erasure
    assert found[0] == pytest.approx((1 + (shared + 2 * equal) / 3) / 2)
    assert found[1] == pytest.approx((behind + (shared + 2 * equal) / 3) / 2)
    assert found[-1] == pytest.approx((behind + (worst - 1 + 2 * equal) / 3) / 2)  # the last of all that have a value
    assert found[-2] == pytest.approx((behind + equal) / 2)


def test_no_method_is_ranked_by_the_metric_that_chose_its_scores() -> None:
    values = graded(MadeUpRuns())  # type: ignore[arg-type]
    left_out = np.isnan(values).all(0).reshape(len(METRICS), len(METHODS))
    assert [(METRICS[row], METHODS[column]) for row, column in np.argwhere(left_out)] == [("rft", "optimus")]
    assert np.isnan(values).sum() == len(values)


def test_every_method_is_measured_but_those_with_a_reason() -> None:
    assert set(catalogue("method")) - set(METHODS) == {"mask_lrp", "best"}
    assert {name for name in CHEAP if name not in BY_CLASS} == {
        "raw_attention", "attention_rollout", "norms", "globenc", "alti",
    }  # fmt: skip


def test_the_choice_is_a_cheap_method_and_names_those_that_are_alike() -> None:
    runs = MadeUpRuns(attn_lrp=1.0, gae=1.0, occlusion=2.0, attcat=0.5)
    choice = choice_of({("sst2", "a"): runs}, "one sentence")  # type: ignore[dict-item]
    assert choice is not None
    assert choice.method in ("attn_lrp", "gae")
    assert set(choice.alike) == {"attn_lrp", "gae"} - {choice.method}
    assert choice_of({("sst2", "a"): runs}, "pairs of texts") is None  # type: ignore[dict-item]
    found = {one.claim.name: one for one in judged({("sst2", "a"): result(runs)})}
    assert found["one sentence: attcat"].verdict == "confirmed"
    assert found["pairs of texts: attcat"].verdict == "open"
    turned = judged({("qqp", "a"): result(MadeUpRuns(attn_lrp=-1.0))})
    assert {one.claim.name: one.verdict for one in turned}["pairs of texts: random"] == "refuted"


def test_the_whole_study_on_tiny_models(tmp_path: Path) -> None:
    """An encoder that is trained, and a causal language model that comes as it is."""
    data = tmp_path / "data"
    write(data, "sst2_train", [{**row, "text": f"it is , {row['text']}"} for row in rows_of("train", 24)])
    write(data, "sst2_dev", rows_of("dev", 4))
    write(data, "imdb", rows_of("test", 4))
    write(data, "jw_imdb_train", [{"text": "but the film was dull", "label": 0}])
    base(tmp_path / "encoder")
    torch.manual_seed(0)
    make_network("gpt2", task="causal_lm").save_pretrained(tmp_path / "decoder")
    tokenizer().save_pretrained(tmp_path / "decoder")
    bases = [StudyBase.read(str(tmp_path / name)) for name in ("encoder", "decoder")]
    assert [one.causal for one in bases] == [False, True]
    bench = StudyBench(data, tmp_path / "out", StudySize(texts=3, tokens=40, quick=True, validation=2))
    page = run_study(methods.STUDY, bench, StudyRequest(bases, ["sst2", "next_word"]))
    by_title = {table.title: table for table in page.tables}
    assert by_title["Mean ranks by task"].columns == ["one sentence", "the next token"]
    ranks = [[cells[number].estimate for _, cells in by_title["Mean ranks by task"].rows] for number in range(2)]
    for task in ranks:  # every method has one
        assert all(one is not None and 1 <= one.value <= len(METHODS) for one in task)
    assert [name for name, _ in by_title["The choice"].rows] == ["one sentence", "the next token"]
    assert by_title["Cost"].rows[METHODS.index("occlusion")][1][0].measured.endswith(" + 0")
    assert by_title["kendall_confidence"].columns == ["sst2 encoder"]
    assert [name for name, _ in by_title["kendall_confidence"].rows] == [f"`{name}`" for name in BY_CLASS]
    assert "auprc" not in by_title  # nobody marked these texts
    assert "qqp: not measured." in page.missing
