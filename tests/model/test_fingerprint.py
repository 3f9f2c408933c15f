"""The fingerprint changes with everything that decides an answer, and with nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import make_model, make_network, tokenizer

import wherefrom
from wherefrom.model.fingerprint import fingerprint, known_fingerprint
from wherefrom.model.loading import load_model, quiet


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with quiet():
        make_network("bert", labels=2).save_pretrained(tmp_path)
        tokenizer().save_pretrained(tmp_path)
    return tmp_path


def edit(path: Path, change: Callable[[Any], None]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def setting(name: str, value: object) -> Callable[[Path], None]:
    return lambda folder: edit(folder / "config.json", lambda data: data.update({name: value}))


def vocabulary(folder: Path) -> None:
    def swap(data: Any) -> None:
        words = data["model"]["vocab"]
        words["good"], words["bad"] = words["bad"], words["good"]

    edit(folder / "tokenizer.json", swap)


@pytest.mark.parametrize(
    "change",
    [
        setting("hidden_act", "relu"),
        setting("layer_norm_eps", 1e-5),
        setting("id2label", {"0": "NO", "1": "YES"}),
        vocabulary,
        lambda folder: edit(folder / "tokenizer_config.json", lambda data: data.update(model_max_length=17)),
        lambda folder: edit(folder / "tokenizer_config.json", lambda data: data.update(mask_token="[UNK]")),
    ],
    ids=["activation", "epsilon", "labels", "vocabulary", "limit", "special token"],
)
def test_what_decides_an_answer_is_in_it(folder: Path, change: Callable[[Path], None]) -> None:
    before = fingerprint(load_model(str(folder)))
    change(folder)
    assert fingerprint(load_model(str(folder))) != before


def test_every_single_weight_is_in_it() -> None:
    model = make_model("bert")
    seen = {fingerprint(model)}
    for name, weight in model.network.module.named_parameters():
        place = weight.numel() // 3  # no place that a sample of evenly spaced ones would take
        with torch.no_grad():
            weight.view(-1)[place] += 0.5
        seen.add(fingerprint(model))
        assert known_fingerprint(model) in seen, name
    assert len(seen) == 1 + len(list(model.network.module.named_parameters()))


def test_precision_and_task_are_in_it() -> None:
    found = [make_model("bert"), make_model("bert", dtype=torch.float64), make_model("bert", dtype=torch.bfloat16)]
    assert len({fingerprint(one) for one in found}) == 3


def test_using_a_model_does_not_change_it(folder: Path) -> None:
    model = wherefrom.load(str(folder))
    before = fingerprint(model.text_model)
    with pytest.warns(wherefrom.errors.TextWasCut):  # the tokenizer is called with a limit
        model.explain("a fine film " * 40, "attcat")
    assert fingerprint(model.text_model) == before
    assert fingerprint(load_model(str(folder))) == before
    assert known_fingerprint(model.text_model) == before
