"""A small random model in a folder, and a few texts that it can read."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_models import make_network, tokenizer

from benchmark.films import TEXTS
from wherefrom.model.loading import quiet


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Processes that are started within can be interrupted: a shell that starts the tests in its background has them
    ignore SIGINT, and what they start would inherit that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    with quiet():
        make_network("bert", labels=2, id2label={0: "NEGATIVE", 1: "POSITIVE"}).save_pretrained(path)
        tokenizer().save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "films.jsonl"
    rows = [
        {"id": f"f{number}", "text": text, "label": number % 2, "rationale": [[0, 3]]}
        for number, text in enumerate(TEXTS)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
