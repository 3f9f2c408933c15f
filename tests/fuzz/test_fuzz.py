"""Anything at all as a text, a target, an option or a data file: each gives an answer or an error written for the user.

`make test` tries 200 inputs, `make fuzz` 2,000 (WHEREFROM_FUZZ).
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_models import make_model

from wherefrom.api import Model
from wherefrom.benchmark.datasets import DataSet
from wherefrom.benchmark.worker import LabelNames
from wherefrom.core.example import Example
from wherefrom.errors import TextWasCut, WherefromError
from wherefrom.model.tasks import TASKS as TASKS_BY_NAME

INPUTS = int(os.environ.get("WHEREFROM_FUZZ", "200"))


def inputs(share: float) -> settings:
    """So much of all inputs, the same ones every time."""
    return settings(
        max_examples=max(1, round(share * INPUTS)),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


TASKS = tuple(TASKS_BY_NAME)
METHODS = ("attcat", "random", "occlusion", "saliency", "raw_attention", "integrated_gradients")
# Words that the model knows among anything else; halves of characters, too.
texts = st.text(st.characters(), max_size=60) | st.lists(
    st.sampled_from(["a", "fine", "film", "[MASK]", "not", "bad", "\0", "\ud800", "?", "[SEP]"]), max_size=90
).map(" ".join)
labels = st.none() | st.integers(-3, 3) | st.sampled_from(["LABEL_0", "LABEL_1", "start", "end", "film", "", "nothing"])
targets = labels | st.tuples(labels, labels)
options = st.dictionaries(
    st.sampled_from(["steps", "fill", "seed", "heads", "nothing"]),
    st.sampled_from(["0", "-1", "3", "1e308", "nan", "mask", "", "mean"]),
    max_size=2,
)


@cache
def model(task: str) -> Model:
    return Model(make_model("gpt2" if task == "causal_lm" else "bert", task=task))


@inputs(0.35)
@given(
    task=st.sampled_from(TASKS),
    text=texts,
    pair=st.none() | texts,
    method=st.sampled_from(METHODS),
    target=targets,
    level=st.sampled_from(["token", "word", "sentence", "letter"]),
    chosen=options,
)
def test_explain(
    task: str, text: str, pair: str | None, method: str, target: Any, level: Any, chosen: dict[str, str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWasCut)
        with suppress(WherefromError):
            both = text if pair is None else (text, pair)
            found: Any = model(task).explain(both, method, target, level, **chosen)
            assert len(found.scores) == len(found.tokens)


@inputs(0.1)
@given(
    text=texts,
    rationale=st.lists(st.tuples(st.integers(-2, 70), st.integers(-2, 70)), max_size=3),
    metrics=st.sampled_from(["aopc", "auprc", "entropy", "iou_f1", "nothing", "aopc:fill=none", ""]),
)
def test_compare(text: str, rationale: list[tuple[int, int]], metrics: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWasCut)
        with suppress(WherefromError):
            found = model("classification").compare(text, "attcat,random", metrics, rationale=rationale)
            assert found.names == ("attcat", "random")


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(
    ["text", "pair", "label", "rationale", "pair_rationale", "answer", "id", "question", "context"]
)
spans = st.lists(st.lists(st.integers(-1, 9), min_size=2, max_size=2), max_size=2)
answers = st.fixed_dictionaries(
    {"text": st.lists(st.just("fine") | plain), "answer_start": st.lists(st.integers(-1, 9))}
)
rows = st.dictionaries(fields, plain | st.just("A fine film.") | spans | answers, max_size=5)


def read(name: str, content: bytes, layout: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        known = LabelNames(["NEGATIVE", "POSITIVE"])

        def look(example: Example) -> None:
            known.of(example)

        with suppress(WherefromError):
            DataSet(f"{layout}:{path}").checked(look)


@inputs(0.25)
@given(content=st.lists(rows, min_size=1, max_size=3))
def test_json_lines(content: list[dict[str, Any]]) -> None:
    read("x.jsonl", "\n".join(json.dumps({"text": "A fine film."} | row) for row in content).encode(), "jsonl")


@inputs(0.2)
@given(
    head=st.lists(fields, min_size=1, max_size=4),
    cells=st.lists(
        st.sampled_from(["1", "-1", "1.0", "nan", "1e999", "[[0, 1]]", '"', "a fine film", "\t", "[", "\0"])
    ),
    layout=st.sampled_from(["csv", "tsv"]),
    tail=st.binary(max_size=20),
)
def test_tables(head: list[str], cells: list[str], layout: str, tail: bytes) -> None:
    between = "," if layout == "csv" else "\t"
    read("x.txt", f"{between.join(head)}\n{between.join(cells)}\n".encode() + tail, layout)


@inputs(0.1)
@given(content=st.binary(max_size=200) | plain.map(lambda data: json.dumps({"data": data}).encode()))
def test_squad_and_other_files(content: bytes) -> None:
    for layout in ("squad", "jsonl", "hatexplain", "conllu", "esnli"):
        read("x.json", content, layout)


@pytest.mark.parametrize("source", ["x" * 5000, "csv:" + "x" * 5000, "\0", "a@b@c", "hf:", ""])
def test_sources(source: str) -> None:
    with pytest.raises(WherefromError):
        DataSet(source).checked()
