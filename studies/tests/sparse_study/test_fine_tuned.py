"""Sparse projections trained into a model: that they are in every step, by hand, and the whole study on a tiny base."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from study_data import assert_alike, base, rows_of, sentences, write
from tiny_models import make_model
from torch import Tensor, nn
from torch.nn import functional

from wherefrom.case.case import make_cases
from wherefrom.cli import main as cli
from wherefrom.errors import BadOption, UnknownName
from wherefrom.model.network import inputs_of
from wherefrom.model.recording import AttentionRecorder
from wherefrom_studies import fine_tuning, scoring, training
from wherefrom_studies.bench import StudyBase, StudyBench, StudySize
from wherefrom_studies.fine_tuning import FineTuning, fine_tune
from wherefrom_studies.pages import as_plain
from wherefrom_studies.scoring import measure, right_by_row
from wherefrom_studies.sparse import fine_tuned
from wherefrom_studies.sparse.fine_tuned import attention_shape, mean_over_seeds, over_texts_and_seeds, paired
from wherefrom_studies.sparse.projected_attention import ProjectedAttention, attention_by
from wherefrom_studies.sparse.projections import Projection
from wherefrom_studies.study import StudyRequest, run_study

LABELS = ("normal", "hateful")
ROWS = [{"id": str(n), "text": text, "label": LABELS[label]} for n, (text, label) in enumerate(sentences(16))]
RECIPE = FineTuning(epochs=2, rate=2e-3, batch=8, longest=32)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base(tmp_path_factory.mktemp("base"), dropout=0.1)


class Attends(nn.Module):
    """Attention whose output is its weights: values are the unit vectors."""

    def forward(self, query: Tensor, key: Tensor, dropout: float) -> Tensor:
        value = torch.eye(key.shape[-2]).expand(*key.shape[:-2], -1, -1)
        return functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout, scale=1.0)


def test_dropout_while_training_by_hand() -> None:
    """Sparsemax of (1, 0.5, -1) is (.75, .25, 0); dropout of one half leaves each weight out or doubles it."""
    query, key = torch.tensor([[[[1.0]]]]), torch.tensor([[[[1.0], [0.5], [-1.0]]]])
    module = Attends()
    with ProjectedAttention([module], Projection.parse("sparsemax")):
        assert module(query, key, 0.0).flatten().tolist() == pytest.approx([0.75, 0.25, 0.0])
        torch.manual_seed(0)
        found = {tuple(module(query, key, 0.5).flatten().tolist()) for _ in range(50)}
    assert found == {(a, b, 0.0) for a in (0.0, 1.5) for b in (0.0, 0.5)}


@pytest.mark.parametrize("projection", ["entmax:1.5", "sparsemax"])
def test_in_training_weights_are_exactly_zero_and_gradients_flow(projection: str) -> None:
    model = make_model("bert", labels=2)
    network = model.network.module
    attention = [block.attention for block in model.network.anatomy.blocks]
    torch.manual_seed(0)
    for block in attention:  # scores far enough apart for a zero
        for name, weight in block.named_parameters():
            if "query.weight" in name:
                nn.init.normal_(weight, std=2.0)
    network.train()
    batch = inputs_of(model.network, [model.encode(text) for text in ("a good film, not dull", "the plot was bad")])
    try:
        with attention_by(network, projection), AttentionRecorder(attention).open() as recorder:
            logits = network(**batch).logits
            functional.cross_entropy(logits, torch.tensor([0, 1])).backward()
    finally:
        network.eval()
    padding = batch["attention_mask"] == 0
    assert bool(padding.any())
    for record in recorder.records:
        torch.testing.assert_close(record.probs.sum(-1), torch.ones_like(record.probs.sum(-1)))
        assert float(record.probs.detach().movedim(-1, 1)[padding].abs().max()) == 0.0  # nobody looks at padding
        seen = record.probs.detach()[(~padding)[:, None, None].expand_as(record.probs)]
        assert 0.05 < float((seen == 0).double().mean()) < 0.99
    for block in attention:
        for name, weight in block.named_parameters():
            if "weight" in name and any(part in name for part in ("query", "key", "value")):
                assert weight.grad is not None
                assert float(weight.grad.abs().max()) > 0
                assert bool(weight.grad.isfinite().all())


def test_every_step_of_a_training_is_projected(start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    project = Projection.__call__

    def note(self: Projection, scores: Tensor, **more: Any) -> Tensor:
        calls.append(str(self))
        return project(self, scores, **more)

    monkeypatch.setattr(Projection, "__call__", note)
    found = fine_tune(start, ROWS, "one_label", LABELS, 0, tmp_path, recipe=RECIPE, attention="sparsemax")
    assert calls == ["sparsemax"] * (2 * 2 * 2)  # layers, epochs, batches
    usual = fine_tune(start, ROWS, "one_label", LABELS, 0, tmp_path, recipe=RECIPE)
    same = fine_tune(start, ROWS, "one_label", LABELS, 0, tmp_path, recipe=RECIPE, attention="softmax")
    assert len(calls) == 8
    assert same == usual != found
    weights, others = (load_file(one.folder / "model.safetensors") for one in (found, usual))
    assert any(not torch.allclose(weights[name], others[name], atol=1e-4) for name in weights)
    with pytest.raises(UnknownName, match="projection"):
        fine_tune(start, ROWS, "one_label", LABELS, 0, tmp_path, attention="sparsmax")


def test_accuracy_is_measured_with_the_projection(start: Path, tmp_path: Path) -> None:
    """The logits of the measured model are those of a plain forward pass with its attention projected."""
    found = fine_tune(start, ROWS, "one_label", LABELS, 0, tmp_path, recipe=RECIPE, attention="entmax:1.5")
    logits, _ = scoring._answered(found.folder, ROWS, "one_label", LABELS, 512, "entmax:1.5")
    network, tokenizer, _ = scoring._to_be_asked(found.folder, "one_label", 512)
    with torch.no_grad(), attention_by(network, "entmax:1.5"):
        expected = torch.cat([network(**tokenizer(row["text"], return_tensors="pt")).logits for row in ROWS])
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-4)
    right = right_by_row(found.folder, ROWS, "one_label", LABELS, attention="entmax:1.5")
    assert right == [LABELS[int(row.argmax())] == one["label"] for row, one in zip(expected, ROWS, strict=True)]
    scores = measure(found.folder, ROWS, "one_label", LABELS, attention="entmax:1.5")
    assert scores["accuracy"] == pytest.approx(sum(right) / len(right))
    with pytest.raises(BadOption, match="of labels"):
        right_by_row(found.folder, ROWS, "two_words", ())


def test_a_stopped_training_ends_as_one_that_was_not(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments: dict[str, Any] = {"recipe": RECIPE, "attention": "sparsemax"}
    whole = fine_tune(start, ROWS, "one_label", LABELS, 0, tmp_path / "whole", **arguments)
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", -1.0)

    def stop(done: int, _: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fine_tune(start, ROWS, "one_label", LABELS, 0, tmp_path / "cut", on_progress=stop, **arguments)
    monkeypatch.undo()
    cut = fine_tune(start, ROWS, "one_label", LABELS, 0, tmp_path / "cut", **arguments)
    left, right = (load_file(one.folder / "model.safetensors") for one in (whole, cut))
    for name in left:
        torch.testing.assert_close(left[name], right[name], atol=1e-6, rtol=1e-5)


def test_the_shape_of_attention_by_hand() -> None:
    model = make_model("bert", labels=2)
    for block in model.network.anatomy.blocks:
        for name, weight in block.attention.named_parameters():
            if "query" in name or "key" in name:
                nn.init.zeros_(weight)
    (cases,) = make_cases(model, [model.encode("a good film")], [None])
    found = attention_shape(cases[0])  # all scores are zero, so attention is uniform over five tokens
    assert found == {
        "entropy": pytest.approx(1.0),
        "zeros": 0.0,
        "last entropy": pytest.approx(1.0),
        "last zeros": 0.0,
        "last special": pytest.approx(2 / 5),
    }


def test_pairs_of_texts_and_seeds() -> None:
    one = [{"a": 3.0, "b": 1.0}, {"a": 5.0}]
    other = [{"a": 1.0, "b": 1.5}, {"a": 1.0, "b": 9.0}]
    np.testing.assert_allclose(paired(one, other), [[2.0, -0.5], [4.0, np.nan]])
    assert mean_over_seeds(one) == [4.0, 1.0]


def test_an_interval_over_texts_and_seeds_by_hand() -> None:
    """All texts alike: the interval is Student's over the seeds. All seeds alike: it is the bootstrap's over texts."""
    texts = over_texts_and_seeds({"a": np.array([[1.0] * 50, [2.0] * 50, [3.0] * 50])})
    assert texts is not None
    half = 4.302652729911275 * 1 / math.sqrt(3)  # two degrees of freedom, deviation 1
    assert (texts.value, texts.low, texts.high) == pytest.approx((2.0, 2.0 - half, 2.0 + half))
    seeds = over_texts_and_seeds({"a": np.array([[0.0, 1.0] * 50] * 3)})
    assert seeds is not None
    assert seeds.low is not None
    assert 0.39 < seeds.low < 0.42  # 0.5 - 1.96 * 0.05
    both = over_texts_and_seeds({"a": np.array([[0.0, 1.0] * 50]) + np.array([[0.0], [1.0], [2.0]])})
    assert both is not None
    assert both.low is not None
    assert both.value - both.low == pytest.approx(math.hypot(half, seeds.value - seeds.low), rel=1e-6)
    alone = over_texts_and_seeds({"a": np.array([[1.0, 2.0]])})  # one seed
    assert alone is not None
    assert (alone.value, alone.low) == (1.5, None)
    assert over_texts_and_seeds({"a": np.full((2, 3), np.nan)}) is None


def test_the_whole_study_on_a_tiny_base(start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marked = {"rationale": [[12, 15]]}
    rows = [*rows_of("train", 12, rationale=[]), *rows_of("val", 2, **marked), *rows_of("test", 8, **marked)]
    write(tmp_path / "data", "hatexplain", rows)
    bench = StudyBench(tmp_path / "data", tmp_path / "out", StudySize(texts=3, tokens=40, quick=True, validation=2))
    page = run_study(fine_tuned.STUDY, bench, StudyRequest([StudyBase.read(str(start))], ["hatexplain"], 2))
    shown = {table.title: table for table in page.tables}
    models = dict(shown["The models"].rows)
    zeros = [models[f"hatexplain {start.name}, {one}"][3].estimate for one in fine_tuned.PROJECTIONS]
    softmax, entmax, sparsemax = (one.value for one in zeros if one is not None)
    assert softmax == 0.0 < sparsemax
    assert entmax <= sparsemax
    changes = dict(shown["Differences to softmax"].rows)
    for number, projection in enumerate(fine_tuned.SPARSE):  # what is computed is the difference of what is shown
        found = changes["auprc of `raw_attention`"][2 * number].estimate
        cells = dict(shown["auprc"].rows)["`raw_attention`"]
        own, usual = (cells[fine_tuned.PROJECTIONS.index(one)].estimate for one in (projection, "softmax"))
        assert found is not None
        assert own is not None
        assert usual is not None
        assert found.value == pytest.approx(own.value - usual.value)
    assert len(page.claims) == 16
    assert all(one.estimate is not None for one in page.claims)
    assert "movies: not measured." in page.missing
    monkeypatch.setattr(fine_tuning, "_train", lambda *_: pytest.fail("trained again"))
    again = run_study(fine_tuned.STUDY, bench, StudyRequest([StudyBase.read(str(start))], ["hatexplain"], 2))
    before, after = as_plain(page), as_plain(again)
    assert_alike(after | {"made": {}}, before | {"made": {}})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--model", "embedded"], "trains models of its own"),
        (["--datasets", "sst"], "data set of this study"),
        (["--seeds", "0"], "--seeds must be at least 1"),
    ],
)
def test_what_does_not_fit_together_is_said(
    more: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["wherefrom", "study", "sparse", "--out", str(tmp_path), "--fine-tuned", "M3", *more]
    monkeypatch.setattr(sys, "argv", asked)
    with pytest.raises(SystemExit):
        cli.main()
    assert said in " ".join(capsys.readouterr().err.split())
