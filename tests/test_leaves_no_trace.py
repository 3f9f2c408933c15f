"""Settings of the whole process are as they were before, whatever Wherefrom did in between."""

from __future__ import annotations

import csv
import gc
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import CONFIGS, make_network, tokenizer
from torch import nn
from transformers.utils import logging as transformers_logging

import wherefrom
from wherefrom.benchmark.datasets import DataSet
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run
from wherefrom.cli.main import main
from wherefrom.errors import WherefromError
from wherefrom.model.loading import quiet


def settings() -> dict[str, Any]:
    return {
        "showwarning": warnings.showwarning,
        "filters": list(warnings.filters),
        "csv": csv.field_size_limit(),
        "frozen objects": gc.get_freeze_count(),
        "collects garbage": gc.isenabled(),
        "threads": torch.get_num_threads(),
        "gradients": torch.is_grad_enabled(),
        "default type": torch.get_default_dtype(),
        "random numbers": torch.random.get_rng_state().tolist(),
        "verbosity": transformers_logging.get_verbosity(),
        "bars": transformers_logging.is_progress_bar_enabled(),
        "root logger": (logging.getLogger().level, len(logging.getLogger().handlers)),
    }


@pytest.fixture(autouse=True)
def unusual() -> Iterator[None]:
    """Settings that nobody would choose, so that setting a usual value is noticed as well."""
    limit, threads = csv.field_size_limit(77_777), torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    csv.field_size_limit(limit)
    torch.set_num_threads(threads)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Any:
    def call(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["wherefrom", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    return call


def test_commands(command: Any) -> None:
    before = settings()
    assert command("methods") == 0
    assert settings() == before
    assert command("explain", "a film", "--method", "no_such_method") == 2
    assert settings() == before


def test_a_run(tmp_path: Path) -> None:
    with quiet():
        make_network("bert", labels=2).save_pretrained(tmp_path / "model")
        tokenizer().save_pretrained(tmp_path / "model")
    data = tmp_path / "some.csv"
    data.write_text("text\n" + "a fine film\n" * 2 + "film " * 20_000 + "\n")  # one field above the limit
    before = settings()
    plan = RunPlan(str(data), model=str(tmp_path / "model"), methods="attcat", metrics="aopc", limit=2, workers=1)
    assert run(plan, tmp_path / "run").finished
    assert settings() == before


def test_reading_is_interrupted(tmp_path: Path) -> None:
    """Between two rows, in which others may read files of their own, and for good."""
    data = tmp_path / "some.csv"
    data.write_text("text\na fine film\n" + "x" * 100_000 + '\n"y\n')
    before = settings()
    rows = iter(DataSet(str(data)))
    assert next(rows).text == "a fine film"
    assert settings() == before
    assert len(next(rows).text) == 100_000
    with pytest.raises(WherefromError, match="line"):
        next(rows)
    assert settings() == before


def test_explaining_and_comparing() -> None:
    model = wherefrom.load((make_network("bert"), tokenizer()))
    before = settings()
    model.compare("a fine film", ["attcat", "lrp", "random", "lime:samples=20"], ["aopc"])
    model.explain("a fine film", "optimus")
    with pytest.raises(WherefromError):
        model.explain("a fine film", "alti", norm="l7")
    assert settings() == before


def module_tree(network: nn.Module) -> dict[str, Any]:
    """Every attribute of every module: tensors by identity and version, tables by what they contain."""

    def plain(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return id(value), value._version
        if isinstance(value, dict):
            return {name: plain(part) for name, part in value.items()}
        return value if isinstance(value, str | int | float | bool | None) else id(value)

    return {name: {key: plain(value) for key, value in vars(part).items()} for name, part in network.named_modules()}


ROPE = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 2, "long_factor": [3.0, 9.0]}
ROPE |= {"original_max_position_embeddings": 8}
SPARSE = {"attention_type": "block_sparse", "block_size": 4, "num_random_blocks": 1}
# Models that change themselves by the length of a text, and others.
NETWORKS: list[tuple[str, dict[str, Any]]] = [
    ("bert", {}),
    ("gpt2", {}),
    ("t5", {}),
    ("xlnet", {}),
    ("longformer", {}),
    ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}),
    ("phi3", {"rope_parameters": ROPE}),
    ("big_bird", SPARSE),
]


@pytest.mark.parametrize(("family", "settings"), NETWORKS, ids=[family for family, _ in NETWORKS])
def test_module_tree(family: str, settings: dict[str, Any]) -> None:
    _, pad, ends = CONFIGS[family]
    network = make_network(family, **settings)
    before, config = module_tree(network), network.config.to_dict()
    model = wherefrom.load((network, tokenizer(pad, ends)))
    assert module_tree(network) == before
    for text in ("a fine film", "a fine film " * 12):
        model.explain(text, "occlusion", check=False)
        model.explain(text, "input_x_gradient", check=False)
        for method in ("attcat", "lrp"):
            with suppress(WherefromError):  # not defined for all of these
                model.explain(text, method, check=False)
        with pytest.raises(WherefromError):
            model.explain(text, "occlusion", fill="no such fill")
        assert module_tree(network) == before
    assert network.config.to_dict() == config
