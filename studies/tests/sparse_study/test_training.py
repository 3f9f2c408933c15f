"""Training: by its seed, by its dev score, and the same whether it was interrupted or not."""

from __future__ import annotations

import math
import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
import torch

from sparse_study.toys import ENCODERS, write_dataset
from wherefrom.errors import BadFile
from wherefrom.typing import OnProgress
from wherefrom_studies import training
from wherefrom_studies.sparse.adversary import divergence, measure_adversary, train_adversary
from wherefrom_studies.sparse.data import StudyDataset, read_dataset
from wherefrom_studies.sparse.models import Alignment, Architecture, EncoderKind, build
from wherefrom_studies.sparse.training import Recipe, accuracy, optimiser, train
from wherefrom_studies.training import Epoch, stalled

RECIPE = Recipe(0.03, epochs=8, patience=8, batch=8)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> StudyDataset:
    folder = tmp_path_factory.mktemp("data")
    write_dataset(folder)
    return read_dataset(folder, "sst")


def weights(model: torch.nn.Module) -> list[float]:
    return [value.double().sum().item() for value in model.state_dict().values()]


def without_seconds(history: list[Epoch]) -> list[tuple[float, ...]]:
    return [(epoch.loss, epoch.dev_score, epoch.dev_loss) for epoch in history]


@pytest.mark.parametrize(("encoder", "alignment"), ENCODERS)
def test_learns_what_is_there_and_repeats_by_its_seed(
    dataset: StudyDataset, tmp_path: Path, encoder: EncoderKind, alignment: Alignment
) -> None:
    shape = Architecture(encoder, "sparsemax", alignment, size=8)
    model, history = train(dataset, shape, RECIPE, tmp_path / "one")
    assert accuracy(model, dataset.test) == 1.0  # one word in every text tells its label
    torch.rand(3)  # what others draw does not matter
    again, repeated = train(dataset, shape, RECIPE, tmp_path / "two")
    assert weights(model) == weights(again)
    assert without_seconds(history) == without_seconds(repeated)
    other, _ = train(dataset, shape, Recipe(0.03, epochs=1, seed=1), tmp_path / "three")
    assert weights(model) != weights(other)


class Killed(Exception):
    pass


@pytest.mark.parametrize("often", ["by epoch", "by step"])
def test_resumes_where_it_stopped(
    dataset: StudyDataset, tmp_path: Path, often: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = Architecture("transformer", "softmax", "dot", size=8)
    whole, history = train(dataset, shape, RECIPE, tmp_path / "whole")
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 1e9 if often == "by epoch" else -1.0)
    reported: list[int] = []

    def third_epoch_breaks(done: int, total: int) -> None:
        assert total == 8 * 5  # epochs, batches
        reported.append(done)
        if len(reported) == 14:  # after the third step of the third epoch; the first report is before any step
            raise Killed

    def watch(_: str) -> AbstractContextManager[OnProgress]:
        return nullcontext(third_epoch_breaks)

    with pytest.raises(Killed):
        train(dataset, shape, RECIPE, tmp_path / "parts", watch=watch)
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["checkpoint.pt"]
    resumed, found = train(dataset, shape, RECIPE, tmp_path / "parts", watch=watch)
    assert reported[14] == {"by epoch": 10, "by step": 12}[often]  # from there on
    assert weights(resumed) == weights(whole)
    assert without_seconds(found) == without_seconds(history)
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["model.safetensors"]
    count = len(reported)
    train(dataset, shape, RECIPE, tmp_path / "parts", watch=watch)
    assert len(reported) == count  # a finished training is only read


@pytest.mark.parametrize("name", ["model.safetensors", "checkpoint.pt"])
def test_a_damaged_file_is_named(dataset: StudyDataset, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"not tensors")
    with pytest.raises(BadFile, match=rf"{re.escape(name)} is not (.|\n)* Delete it"):
        train(dataset, Architecture("bilstm", size=8), RECIPE, tmp_path)


def test_the_best_epoch_by_dev_is_kept(dataset: StudyDataset, tmp_path: Path) -> None:
    model, history = train(dataset, Architecture("bilstm", size=8), RECIPE, tmp_path)
    assert accuracy(model, dataset.dev) == max(epoch.dev_score for epoch in history)


def test_stops_when_dev_no_longer_improves() -> None:
    def past(*scores: float) -> list[Epoch]:
        return [Epoch(0.0, score, 0.0, 0.0) for score in scores]

    assert not stalled([], 2)
    assert not stalled(past(0.5, 0.4, 0.3, 0.2), None)
    assert not stalled(past(0.5, 0.6, 0.6), 2)
    assert stalled(past(0.5, 0.6, 0.6, 0.5), 2)
    assert not stalled(past(0.5, 0.6, 0.5, 0.7), 2)


def test_attention_has_no_weight_decay() -> None:
    model = build(Architecture("bilstm", size=8), 20, seed=0)
    others, own = optimiser(model, 0.1, 1e-5).param_groups
    assert own["weight_decay"] == 0
    assert others["weight_decay"] == 1e-5
    assert others["amsgrad"]
    assert {id(parameter) for parameter in own["params"]} == {id(parameter) for parameter in model.pooling.parameters()}


def test_divergence_by_hand() -> None:
    a, b = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    assert divergence(a, b).item() == pytest.approx(math.log(2))
    assert divergence(a, a).item() == 0
    half = torch.tensor([0.5, 0.5])
    assert divergence(a, half).item() == pytest.approx(
        0.5 * math.log(4 / 3) + 0.5 * (0.5 * math.log(2 / 3) + 0.5 * math.log(2))
    )
    leaf = torch.tensor([1.0, 0.0], requires_grad=True)
    assert bool(torch.autograd.grad(divergence(leaf, b), leaf)[0].isfinite().all())


@pytest.mark.parametrize("projection", ["softmax", "sparsemax"])
def test_adversaries(dataset: StudyDataset, tmp_path: Path, projection: str) -> None:
    base, _ = train(dataset, Architecture("bilstm", projection, size=8), RECIPE, tmp_path / "base")
    before = weights(base)
    frozen, _ = train_adversary(dataset, base, RECIPE, tmp_path / "frozen", mode="frozen")
    unfrozen, _ = train_adversary(dataset, base, RECIPE, tmp_path / "unfrozen", mode="unfrozen")
    assert weights(base) == before
    for part in ("embedding", "encoder", "decoder"):
        assert weights(getattr(frozen, part)) == weights(getattr(base, part))
        assert weights(getattr(unfrozen, part)) != weights(getattr(base, part))
    assert weights(frozen.pooling) != weights(base.pooling)
    itself = measure_adversary(base, base, dataset.test)
    assert itself["divergence"] == itself["distance"] == 0
    for model in (frozen, unfrozen):
        found = measure_adversary(model, base, dataset.test)
        assert 0 < found["divergence"] <= math.log(2) + 1e-6
        assert found["base_accuracy"] == 1.0
    again, _ = train_adversary(dataset, base, RECIPE, tmp_path / "frozen", mode="frozen")
    assert weights(again) == weights(frozen)
