"""Anything at all as a text, a target, an option, a rationale, a file or a command line: each gives an answer or an
error written for the user, never a traceback.

`make test` tries 200 inputs, `make fuzz` 4,000 (WHEREFROM_FUZZ).
"""

from __future__ import annotations

import atexit
import copy
import io
import json
import os
import shutil
import sys
import tempfile
import warnings
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_models import make_model, make_network, tokenizer

from wherefrom.api import Model
from wherefrom.benchmark.datasets import DataSet
from wherefrom.benchmark.worker import LabelNames
from wherefrom.cli.main import main
from wherefrom.core.example import Example
from wherefrom.core.explanation import Explanation
from wherefrom.errors import TextWasCut, WherefromError
from wherefrom.model.loading import quiet
from wherefrom.model.reading import TokenizerReading
from wherefrom.registry import all_tasks

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


TASKS = (*all_tasks(), "pair")  # a classifier that always gets two texts
METHODS = (
    *("attcat", "random", "occlusion", "saliency", "raw_attention", "integrated_gradients"),
    *("lime", "kernel_shap", "optimus", "mask_lrp", "alti", "lrp"),
)


def mostly(usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Nine of ten are usual, so that what several arguments do together is tried, too."""
    return st.integers(0, 9).flatmap(lambda number: usual if number else odd)


# Words that the model knows among anything else; halves of characters, too.
texts = st.text(st.characters(), max_size=60) | st.lists(
    st.sampled_from(["a", "fine", "film", "[MASK]", "not", "bad", "\0", "\ud800", "?", "[SEP]"]), max_size=90
).map(" ".join)
labels = st.none() | st.integers(-3, 3) | st.sampled_from(["LABEL_0", "LABEL_1", "start", "end", "film", "", "nothing"])
# Of any type at all, for places that want a name, a number or a list.
junk = st.sampled_from(
    [None, True, -1, 0, 10**30, 0.5, float("nan"), "", "\ud800", b"x", (), (0,), (None, None), (0, 1, 2)]
) | (st.sampled_from([[], [5], ["attcat"], {}, {"a": 1}, object, "x" * 5000, "\0"]))
# Numbers and names as numpy and torch have them.
arrays = [np.int64(1), np.int32(-1), np.float32(1), np.bool_(True), np.str_("film"), np.array(0), np.array([0, 1])]
tensors = [torch.tensor(1), torch.tensor(1.0), torch.tensor(True), torch.tensor([0])]
digits = ["9" * 5000, f"#{'9' * 5000}", "a#" + "9" * 5000, "#1", "#0: a", "fine: nothing", "a fine film"]
typed = st.sampled_from([*arrays, *tensors, *digits, True, 1.0, 1j])
single = mostly(labels, junk) | typed
targets = mostly(single, st.tuples(single, single) | st.lists(single, max_size=3))
options = st.dictionaries(
    st.sampled_from(["steps", "fill", "seed", "heads", "width", "ridge", "samples", "combination", "nothing"]),
    st.sampled_from(["0", "-1", "3", "1e308", "nan", "mask", "", "mean", "\ud800"]) | junk,
    max_size=2,
)
options = mostly(st.just({}), options)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@cache
def model(task: str) -> Model:
    family = {"causal_lm": "gpt2", "seq2seq": "t5"}.get(task, "bert")
    return Model(make_model(family, task="classification" if task == "pair" else task))


@inputs(0.2)
@given(
    task=st.sampled_from(TASKS),
    text=texts,
    pair=st.none() | texts,
    method=mostly(st.sampled_from(METHODS), junk),
    target=targets,
    level=mostly(st.sampled_from(["token", "word", "sentence"]), st.just("letter") | junk),
    chosen=options,
)
def test_explain(
    task: str, text: str, pair: str | None, method: Any, target: Any, level: Any, chosen: dict[str, Any]
) -> None:
    pair = "a fine film" if task == "pair" and pair is None else pair
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWasCut)
        with suppress(WherefromError):
            both = text if pair is None else (text, pair)
            found: Any = model(task).explain(both, method, target, level, **chosen)
            for one in found if isinstance(found, list) else [found]:
                assert len(one.scores) == len(one.tokens)


ROLES = st.sampled_from(["user", "assistant", "system", "tool", "", "\ud800"])
said = (
    texts | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": texts}) | texts | junk, max_size=3) | junk
)
message = st.fixed_dictionaries({"role": ROLES | junk, "content": said}) | st.dictionaries(
    st.sampled_from(["role", "content", "tool_calls", "name"]), ROLES | said, max_size=3
)
TEMPLATES = (
    "{% for m in messages %}<{{ m.role }}> {{ m.content }} {% endfor %}<assistant>",
    "{% for m in messages %}{% for p in m.content %}{{ p.text }} {% endfor %}{% endfor %}",
    "{% for m in messages %}{{ m['role'] + m['content'] | trim }}{{ m.tool_calls | tojson }}{% endfor %}",
    "{% if messages | length > 1 %}{{ raise_exception('too\n many') }}{% endif %}{{ messages[0].content | tojson }}",
)


@cache
def chat_model(task: str, template: str) -> Model:
    text_model, reader = model(task).text_model, copy.deepcopy(model(task).text_model.reading.tokenizer)
    reader.chat_template = template
    return Model(replace(text_model, reading=TokenizerReading(reader, text_model.reading.limit)))


@inputs(0.15)
@given(
    task=st.sampled_from(["causal_lm", "seq2seq", "masked_lm"]),
    template=st.sampled_from(TEMPLATES),
    prompt=mostly(texts | st.lists(message, min_size=1, max_size=3), message | st.lists(texts, max_size=2) | junk),
    tokens=mostly(st.just(2), st.sampled_from([None, True, 0, -1, 1.5, "3", np.int64(2)])),
    continuation=mostly(st.none() | texts, junk),
    other=mostly(st.none() | texts, junk),
)
def test_generate(task: str, template: str, prompt: Any, tokens: Any, continuation: Any, other: Any) -> None:
    asked = chat_model(task, template)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWasCut)
        with suppress(WherefromError):
            found = asked.generate_and_explain(
                prompt, tokens=tokens, continuation=continuation, rather_than=other if tokens == 2 else None
            )
            assert len(found.scores) == len(found.generated)


@inputs(0.1)
@given(
    task=st.sampled_from(TASKS),
    text=texts | st.sampled_from(["\x00\x01", "\u200b", "\ufeff"]),
    pair=st.none() | texts | st.sampled_from(["\x00", "\u200d\n\x02", "a\nb"]),
    to=targets,
    fill=mostly(st.sampled_from(["delete", "mask"]), junk),
    units=mostly(st.none() | st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), max_size=3), junk),
)
def test_predicted_flip_and_entities(task: str, text: str, pair: str | None, to: Any, fill: Any, units: Any) -> None:
    both = text if pair is None else (text, pair)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWasCut)
        for verb, asked in (
            ("predicted", {}),
            ("flip", {"to": to, "fill": fill, "units": units}),
            ("explain_entities", {}),
        ):
            with suppress(WherefromError):
                getattr(model(task), verb)(both, **asked)


@inputs(0.05)
@given(
    task=st.sampled_from(["classification", "causal_lm", "masked_lm"]),
    text=mostly(st.lists(mostly(texts | st.tuples(texts, texts), junk), max_size=3), junk),
    target=targets,
    long=mostly(st.sampled_from(["cut", "windows"]), junk),
)
def test_lists_of_texts(task: str, text: Any, target: Any, long: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWasCut)
        with suppress(WherefromError):
            found: Any = model(task).explain(text, "saliency", target, long=long)
            assert not isinstance(text, list) or len(found) == len(text)


@inputs(0.1)
@given(
    task=st.sampled_from(["classification", "pair", "question_answering"]),
    text=texts,
    rationale=st.lists(st.tuples(st.integers(-2, 70), st.integers(-2, 70)), max_size=3) | junk,
    answer=mostly(st.none() | texts, junk),
    metrics=mostly(st.sampled_from(["aopc", "auprc", "entropy", "iou_f1"]), st.sampled_from(["nothing", ""]) | junk),
    methods=mostly(st.just("attcat,random"), junk.filter(lambda one: one is not None)),
)
def test_compare(task: str, text: str, rationale: Any, answer: Any, metrics: Any, methods: Any) -> None:
    both = text if task == "classification" else (text, "a fine film")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWasCut)
        with suppress(WherefromError):
            found = model(task).compare(both, methods, metrics, rationale=rationale, answer=answer)
            assert len(found.grades) == len(found.explanations)


@cache
def sound(task: str) -> dict[str, Any]:
    """An explanation as plain data."""
    pairs = ("pair", "question_answering", "multiple_choice", "similarity")
    both = ("a fine film", "not bad\nvery good") if task in pairs else "a fine [MASK]"
    explained: Any = model(task).explain(both, "saliency")
    return cast("dict[str, Any]", explained.to_dict())


@inputs(0.1)
@given(task=st.sampled_from(TASKS), data=st.data())
def test_explanations_by_hand(task: str, data: st.DataObject) -> None:
    """Crafted fields: read and graded, or refused."""
    one, two = (data.draw(st.sampled_from(sorted(sound(task)))) for _ in range(2))
    crafted = sound(task) | {one: data.draw(plain), two: data.draw(junk | plain)}
    with suppress(WherefromError):
        explanation = Explanation.from_dict(crafted)
        explanation.to_html()
        model(task).evaluate(explanation, "aopc,entropy")


@pytest.mark.parametrize("given", [None, 5, "x", [None], [], {}])
def test_evaluate_wants_explanations(given: Any) -> None:
    with pytest.raises(WherefromError):
        model("classification").evaluate(given)


def test_texts_that_were_not_decoded_are_refused_everywhere() -> None:
    for verb in ("explain", "compare", "flow", "predicted"):
        for text in ("a \ud800 film", ("a film", "\udcff")):
            with pytest.raises(WherefromError, match="half of a character"):
                getattr(model("classification"), verb)(text)


@cache
def folder() -> Path:
    """A folder to run commands in: a model, and files good and bad."""
    path = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    with quiet():
        make_network("bert", labels=2, id2label={0: "NEGATIVE", 1: "POSITIVE"}).save_pretrained(path / "model")
        tokenizer().save_pretrained(path / "model")
    (path / "texts.jsonl").write_text('{"text": "a fine film"}\n{"text": "not bad", "label": 1}\n')
    (path / "deep.jsonl").write_text('{"text": ' + "[" * 100_000)
    (path / "deep.json").write_text('{"data": ' + "[" * 100_000)
    (path / "start.json").write_text(
        '{"data": [{"paragraphs": [{"context": "a fine film", "qas": [{"id": "1", "question": "what?",'
        ' "answers": [{"text": "fine", "answer_start": "2"}]}]}]}]}'
    )
    (path / "bytes.jsonl").write_bytes(b'{"text": "\xff\xfe"}')
    (path / "directory.jsonl").mkdir()
    return path


# Arguments as Python has them where the bytes were no UTF-8: with lone surrogates.
words = st.sampled_from(
    ["a fine film", "texts.jsonl", "-1", "nan", "", "x" * 5000, os.fsdecode(b"a\xff film"), "-", "--"]
)
files = st.sampled_from(
    ["texts.jsonl", "deep.jsonl", "squad:deep.json", "squad:start.json", "bytes.jsonl", "directory.jsonl", "model"]
)
flags = {
    "explain": (
        "--pair",
        "--method",
        "--target",
        "--versus",
        "--level",
        "-o",
        "--html",
        "--theme",
        "--minus",
        "--device",
    ),
    "compare": ("--methods", "--metrics", "--rationale", "--answer", "--level", "--target", "--html", "--against"),
    "flow": ("--method", "--pair", "-o", "--html", "--plot", "--save", "--device"),
    "flip": ("--to", "--method", "--fill", "--level", "-o"),
    "heads": ("--data", "--out", "--limit", "--positional", "--syntactic", "--parser"),
    "optimus": ("--data", "--out", "--limit", "--raw", "--metric", "--level"),
    "run": ("--limit", "--seed", "--columns", "--labels", "--target", "--level", "--part", "--workers", "--engine"),
    "report": ("--html", "--csv", "--latex", "--thermostat", "--power", "--seed"),
}


CHEAP = {"compare": ["--methods", "random", "--metrics", "entropy", "--no-check"], "heads": ["--no-syntax"]}


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    command = draw(st.sampled_from(sorted(flags)))
    line = [command]
    if command in ("heads", "optimus"):
        line += ["--data", draw(files | words), "--model", "model"]
    elif command == "run":
        line += [
            draw(files | words),
            "--out",
            draw(st.sampled_from(["out", "texts.jsonl", "x" * 5000])),
            "--model",
            "model",
        ]
        line += ["--methods", "random", "--metrics", "entropy", "--workers", "1"]
    elif command == "report":
        line += [draw(files | words)]
    else:
        line += [draw(words), "--model", draw(st.sampled_from(["model", "model", "model", "texts.jsonl", "\udcff"]))]
    line += CHEAP.get(command, [])
    for flag in draw(st.lists(st.sampled_from(flags[command]), max_size=2)):
        line += [flag, draw(words)]
    return line


def run_command(line: list[str]) -> tuple[int, str]:
    """The command as the console script runs it, within this process: its exit code and what it wrote."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=how) for how in ("strict", "backslashreplace")]
    before, here, usual = (sys.stdin, sys.stdout, sys.stderr), Path.cwd(), sys.argv
    try:
        os.chdir(folder())
        sys.argv = ["wherefrom", *line]
        sys.stdin = io.TextIOWrapper(io.BytesIO(b"a fine film"), encoding="utf-8")
        sys.stdout, sys.stderr = streams
        try:
            main()
            code = 0
        except SystemExit as stopped:
            code = stopped.code if isinstance(stopped.code, int) else 1
    finally:
        (sys.stdin, sys.stdout, sys.stderr), sys.argv = before, usual
        os.chdir(here)
        shutil.rmtree(folder() / "out", ignore_errors=True)
    for stream in streams:
        stream.flush()
    return code, "".join(stream.buffer.getvalue().decode() for stream in streams)


@inputs(0.05)
@given(line=command_lines())
def test_command_lines(line: list[str]) -> None:
    code, said = run_command(line)
    assert code in (0, 1, 2)
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        (["report", "x", "--seed", "-1"], 2, "--seed"),
        (["report", "x" * 5000], 1, "not the folder of a run"),
        (["run", "deep.jsonl", "--out", "out", "--model", "model"], 1, "nested too deeply"),
        (["run", "squad:deep.json", "--out", "out", "--model", "model"], 1, "nested too deeply"),
        (["run", "squad:start.json", "--out", "out", "--model", "model"], 1, "answer"),
        (["run", "directory.jsonl", "--out", "out", "--model", "model"], 1, "directory"),
        (["explain", os.fsdecode(b"a \xff film"), "--model", "model"], 2, "half of a character"),
        (["explain", "a film", "--model", "model", "--html", "x" * 5000], 1, "too long"),
        (["explain", "a film", "--model", "model", "--method", "lime", "-o", "width=1e308"], 2, "lime takes a width"),
    ],
)
def test_what_the_user_did_wrong_is_one_line(line: list[str], code: int, message: str) -> None:
    found, said = run_command(line)
    assert (found, message in said, "Traceback" in said) == (code, True, False), said[-500:]


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


@inputs(0.1)
@given(content=st.lists(rows, min_size=1, max_size=3))
def test_json_lines(content: list[dict[str, Any]]) -> None:
    read("x.jsonl", "\n".join(json.dumps({"text": "A fine film."} | row) for row in content).encode(), "jsonl")


@inputs(0.05)
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


@inputs(0.05)
@given(content=st.binary(max_size=200) | plain.map(lambda data: json.dumps({"data": data}).encode()))
def test_squad_and_other_files(content: bytes) -> None:
    for layout in ("squad", "jsonl", "hatexplain", "conllu", "esnli"):
        read("x.json", content, layout)


@pytest.mark.parametrize("source", ["x" * 5000, "csv:" + "x" * 5000, "\0", "a@b@c", "hf:", ""])
def test_sources(source: str) -> None:
    with pytest.raises(WherefromError):
        DataSet(source).checked()
