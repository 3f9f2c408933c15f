"""Anything at all as a text, a target, an option, a rationale, a file or a command line: each gives an answer or an
error written for the user, never a traceback.

`make test` tries 200 inputs, `make fuzz` 4,000 (WHEREFROM_FUZZ).
"""

from __future__ import annotations

import atexit
import copy
import csv
import io
import json
import os
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
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
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run
from wherefrom.benchmark.worker import LabelNames
from wherefrom.cli.main import main
from wherefrom.core.example import Example
from wherefrom.core.explanation import Explanation
from wherefrom.errors import TextWasCut, WherefromError
from wherefrom.model.loading import quiet
from wherefrom.model.reading import TokenizerReading
from wherefrom.registry import all_tasks

INPUTS = int(os.environ.get("WHEREFROM_FUZZ", "200"))
Attempt = Callable[..., bool | None]
Record = Callable[[str, object], None]


def fuzz(share: float, calls: st.SearchStrategy[dict[str, Any]]) -> Callable[[Attempt], Callable[[Record], None]]:
    """A test that calls a function with so much of all inputs, the same ones every time. A call is answered or refused,
    by a WherefromError or by returning False. At least half of the calls are answered.
    """

    def decorate(attempt: Attempt) -> Callable[[Record], None]:
        def test(record_property: Record) -> None:
            outcomes: Counter[str] = Counter()

            @settings(
                max_examples=max(1, round(share * INPUTS)),
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            )
            @given(values=calls)
            def call(values: dict[str, Any]) -> None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", TextWasCut)
                    try:
                        refused = attempt(**values) is False
                    except WherefromError:
                        refused = True
                outcomes["refused" if refused else "answered"] += 1

            call()
            for outcome, number in outcomes.items():
                record_property(outcome, number)
            assert outcomes["answered"] >= outcomes["refused"], outcomes

        test.__doc__ = attempt.__doc__
        return test

    return decorate


Parts = dict[str, st.SearchStrategy[Any]]


@st.composite
def mostly(draw: st.DrawFn, usual: Parts, odd: Parts) -> dict[str, Any]:
    """The arguments of a call, which fit together; in one call of four, one or two of them are replaced by odd ones."""
    values = {name: draw(part) for name, part in usual.items()}
    if draw(st.integers(0, 3)) == 3:
        names = st.lists(st.sampled_from(sorted(odd)), min_size=1, max_size=2, unique=True)
        values |= {name: draw(odd[name]) for name in draw(names)}
    return values


TASKS = (*all_tasks(), "pair")  # a classifier that always gets two texts
SEVERAL_ROWS = ("multiple_choice", "similarity")  # methods that look at the layers of one pass do not serve them
PAIRS = ("pair", "question_answering", *SEVERAL_ROWS)
ANYWHERE = ("random", "occlusion", "saliency", "integrated_gradients", "lime", "kernel_shap")
TWO_STACKS = (*ANYWHERE, "attcat", "raw_attention")
METHODS = (*TWO_STACKS, "optimus", "mask_lrp", "alti", "lrp")
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "occlusion": [{}, {"fill": "unk"}, {"fill": "delete"}],
    "integrated_gradients": [{"steps": 4}, {"steps": "10"}],
    "lime": [{"samples": 12}, {"samples": 30, "width": "2.5"}],
    "kernel_shap": [{"samples": "20", "seed": 3}],
    "raw_attention": [{}, {"layer": 0, "head": 1}],
}

# Legal, though nobody would write it; "film" is always there to be read.
WORDS = ["a", "fine", "film", "not", "bad", "?", "na\u00efve", "\u65e5\u672c", "\U0001f642", "x" * 30, "e\u0301", "\t"]
WORDS += ["it's", "\u200b", "\0", "<b>", "&amp;", "\u202eabc", "1e308", "NaN", "\n"]
some_words = st.lists(st.sampled_from(WORDS), max_size=9).map(lambda words: " ".join([*words, "film"]))
legal = (
    some_words
    | st.lists(st.sampled_from(WORDS), max_size=90).map(lambda words: " ".join([*words, "film"]))
    | st.text(st.characters(), max_size=60).map(lambda text: f"film {text}")
)
# Anything: halves of characters, nothing at all.
texts = st.text(st.characters(), max_size=60) | st.lists(
    st.sampled_from(["a", "film", "[MASK]", "\0", "\ud800", "?", "[SEP]"]), max_size=90
).map(" ".join)
labels = st.none() | st.integers(-3, 3) | st.sampled_from(["LABEL_0", "LABEL_1", "start", "end", "film", "", "nothing"])
# Of any type at all, for places that want a name, a number or a list.
junk = st.sampled_from(
    [None, True, -1, 0, 10**30, 0.5, float("nan"), "", "\ud800", b"x", (), (0,), (None, None), (0, 1, 2)]
) | (st.sampled_from([[], [5], ["attcat"], {}, {"a": 1}, object, "x" * 5000, "\0"]))
# Numbers and names as numpy and torch have them.
whole = [np.int64(1), np.int32(0), np.array(0), torch.tensor(1), 0, 1]
arrays = [np.int32(-1), np.float32(1), np.bool_(True), np.str_("film"), np.array([0, 1])]
tensors = [torch.tensor(1.0), torch.tensor(True), torch.tensor([0])]
digits = ["9" * 5000, f"#{'9' * 5000}", "a#" + "9" * 5000, "#1", "#0: a", "fine: nothing", "a fine film"]
typed = st.sampled_from([*arrays, *tensors, *digits, True, 1.0, 1j])
single = labels | junk | typed
targets = single | st.tuples(single, single) | st.lists(single, max_size=3)
options = st.dictionaries(
    st.sampled_from(["steps", "fill", "seed", "heads", "width", "ridge", "samples", "combination", "nothing"]),
    st.sampled_from(["0", "-1", "3", "1e308", "nan", "mask", "", "mean", "\ud800"]) | junk,
    max_size=2,
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)

# Targets that a task has, whatever the text.
TARGETS: dict[str, list[Any]] = {
    "classification": [None, *whole, "LABEL_2", (0, 2), ("LABEL_1", np.int64(0)), [0, "LABEL_1"]],
    "causal_lm": [None, *whole, "film", "good film bad", ("good", "bad"), ["good", 7]],
    "masked_lm": [None, *whole, "film", "#1", "#1: film", ("good", "bad")],
    "multiple_choice": [None, *whole, "good", (0, 1), ("good", "not bad")],
    "question_answering": [None, "start", "end", "span", "film", "no answer"],
    "seq2seq": [None, "good film", "film", ("good film", "bad")],
    "similarity": [None, "similarity"],
    "token_classification": [None, "film", "film: LABEL_1"],
}
TARGETS["pair"] = TARGETS["classification"]


def inputs_for(task: str) -> st.SearchStrategy[Any]:
    """What a task reads."""
    if task == "multiple_choice":
        return st.tuples(legal, st.just("good\nnot bad"))
    if task in PAIRS:
        return st.tuples(legal, legal.map(lambda text: f"film {text}"))
    return legal.map(lambda text: f"film [MASK] {text}") if task == "masked_lm" else legal


def methods_for(task: str) -> tuple[str, ...]:
    return ANYWHERE if task in SEVERAL_ROWS else TWO_STACKS if task == "seq2seq" else METHODS


def chosen_for(task: str) -> st.SearchStrategy[tuple[Any, dict[str, Any]]]:
    """A method, and options that it has."""
    return st.sampled_from(methods_for(task)).flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from(OPTIONS.get(name, [{}])))
    )


@cache
def model(task: str) -> Model:
    family = {"causal_lm": "gpt2", "seq2seq": "t5"}.get(task, "bert")
    return Model(make_model(family, task="classification" if task == "pair" else task))


def explaining(task: str) -> st.SearchStrategy[dict[str, Any]]:
    return mostly(
        {
            "task": st.just(task),
            "given": inputs_for(task),
            "target": st.sampled_from(TARGETS[task]),
            "level": st.sampled_from(["token", "word", "sentence"]),
            "chosen": chosen_for(task),
        },
        {
            "given": texts | st.tuples(texts, texts) | junk,
            "target": targets,
            "level": st.sampled_from(["letter", "turn"]) | junk,
            "chosen": st.tuples(junk | st.sampled_from(METHODS), options),
        },
    )


@fuzz(0.25, st.sampled_from(TASKS).flatmap(explaining))
def test_explain(task: str, given: Any, target: Any, level: Any, chosen: tuple[Any, dict[str, Any]]) -> None:
    method, wanted = chosen
    found: Any = model(task).explain(given, method, target, level, **wanted)
    for explanation in found if isinstance(found, list) else [found]:
        assert len(explanation.scores) == len(explanation.tokens)


ROLES = st.sampled_from(["user", "assistant", "system", "tool"])
part = st.fixed_dictionaries({"type": st.just("text"), "text": some_words})
polite = st.fixed_dictionaries({"role": ROLES, "content": some_words | st.lists(part, min_size=1, max_size=2)})
said = texts | st.lists(part | texts | junk, max_size=3) | junk
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


def generating(task: str) -> st.SearchStrategy[dict[str, Any]]:
    return mostly(
        {
            "task": st.just(task),
            "template": st.sampled_from(TEMPLATES[:2]),
            "prompt": some_words if task == "seq2seq" else some_words | st.lists(polite, min_size=1, max_size=2),
            "tokens": st.sampled_from([1, 2, np.int64(2)]),
            "continuation": st.none() | some_words,
            "other": st.none() | some_words,
        },
        {
            "task": st.just("masked_lm"),
            "template": st.sampled_from(TEMPLATES),
            "prompt": texts | message | st.lists(message, min_size=1, max_size=3) | st.lists(texts, max_size=2) | junk,
            "tokens": st.sampled_from([None, True, 0, -1, 1.5, "3"]),
            "continuation": texts | junk,
            "other": texts | junk,
        },
    )


@fuzz(0.15, st.sampled_from(["causal_lm", "seq2seq"]).flatmap(generating))
def test_generate(task: str, template: str, prompt: Any, tokens: Any, continuation: Any, other: Any) -> None:
    generation = chat_model(task, template).generate_and_explain(
        prompt, tokens=tokens, continuation=continuation, rather_than=other
    )
    assert len(generation.scores) == len(generation.generated)


def deciding(task: str) -> st.SearchStrategy[dict[str, Any]]:
    verbs = ["predicted", "predict", *(["flip"] if task in ("classification", "pair") else [])]
    verbs += ["explain_entities"] if task == "token_classification" else []
    return mostly(
        {
            "task": st.just(task),
            "verb": st.sampled_from(verbs),
            "given": inputs_for(task),
            "to": st.none(),
            "fill": st.sampled_from(["delete", "mask"]),
            "units": st.none() | st.just([(0, 4)]),
        },
        {
            "verb": st.sampled_from(["predicted", "predict", "flip", "explain_entities"]),
            "given": texts
            | st.tuples(texts, texts)
            | st.sampled_from(["\x00\x01", "\u200b", ("film", "\u200d\n\x02")]),
            "to": targets,
            "fill": junk,
            "units": st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), max_size=3) | junk,
        },
    )


@fuzz(0.1, st.sampled_from(TASKS).flatmap(deciding))
def test_predict_flip_and_entities(task: str, verb: str, given: Any, to: Any, fill: Any, units: Any) -> None:
    more: dict[str, Any] = {"flip": {"to": to, "fill": fill, "units": units}, "predict": {"fill": fill}}.get(verb, {})
    if verb == "predict":
        more["without"] = [(0, 4)] if units else None
    getattr(model(task), verb)(given, **more)


def listing(task: str) -> st.SearchStrategy[dict[str, Any]]:
    return mostly(
        {
            "task": st.just(task),
            "given": st.lists(inputs_for(task), min_size=1, max_size=3),
            "target": st.sampled_from(TARGETS[task]),
            "long": st.sampled_from(["cut", "windows"] if task == "classification" else ["cut"]),
        },
        {"given": st.lists(texts | st.tuples(texts, texts) | junk, max_size=3) | junk, "target": targets, "long": junk},
    )


@fuzz(0.1, st.sampled_from(TASKS).flatmap(listing))
def test_lists_of_texts(task: str, given: Any, target: Any, long: Any) -> None:
    found: Any = model(task).explain(given, "saliency", target, long=long)
    assert not isinstance(given, list) or len(found) == len(given)


def comparing(task: str) -> st.SearchStrategy[dict[str, Any]]:
    return mostly(
        {
            "task": st.just(task),
            "given": inputs_for(task),
            "rationale": st.just([(0, 4)]),
            "answer": st.just("film") if task == "question_answering" else st.none(),
            "metrics": st.sampled_from(["aopc", "entropy", "auprc", "iou_f1", "aopc,entropy"]),
            "methods": st.sampled_from(["attcat,random", "saliency", ["attcat", "occlusion:fill=delete"]]),
        },
        {
            "given": texts,
            "rationale": st.lists(st.tuples(st.integers(-2, 70), st.integers(-2, 70)), max_size=3) | junk,
            "answer": texts | junk,
            "metrics": st.sampled_from(["nothing", ""]) | junk,
            "methods": junk.filter(lambda name: name is not None),
        },
    )


@fuzz(0.05, st.sampled_from(["classification", "pair", "question_answering"]).flatmap(comparing))
def test_compare(task: str, given: Any, rationale: Any, answer: Any, metrics: Any, methods: Any) -> None:
    found = model(task).compare(given, methods, metrics, rationale=rationale, answer=answer)
    assert len(found.grades) == len(found.explanations)


@cache
def sound(task: str, method: str = "saliency") -> dict[str, Any]:
    """An explanation as plain data."""
    both = ("a fine film", "not bad\nvery good") if task in PAIRS else "a fine [MASK]"
    explained: Any = model(task).explain(both, method)
    return cast("dict[str, Any]", explained.to_dict())


def crafting(task: str) -> st.SearchStrategy[dict[str, Any]]:
    fields = st.sampled_from(sorted(sound(task)))
    another = sound(task, "occlusion")
    return mostly(
        {
            "task": st.just(task),
            "changed": st.lists(fields, max_size=2).map(lambda names: {n: another[n] for n in names}),
        },
        {"changed": st.dictionaries(fields, junk | plain, min_size=1, max_size=2)},
    )


@fuzz(0.1, st.sampled_from(TASKS).flatmap(crafting))
def test_explanations_by_hand(task: str, changed: dict[str, Any]) -> None:
    """Fields of another explanation, or of any kind: read and graded, or refused."""
    explanation = Explanation.from_dict(sound(task) | changed)
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
    plan = RunPlan(str(path / "texts.jsonl"), model=str(path / "model"), methods="random", metrics="entropy", workers=1)
    run(plan, path / "run")
    return path


# Arguments as Python has them where the bytes were no UTF-8: with lone surrogates.
words = st.sampled_from(
    ["a fine film", "texts.jsonl", "-1", "nan", "", "x" * 5000, os.fsdecode(b"a\xff film"), "-", "--"]
)
files = st.sampled_from(
    ["texts.jsonl", "deep.jsonl", "squad:deep.json", "squad:start.json", "bytes.jsonl", "directory.jsonl", "model"]
)
# Of every command: what it is about, what keeps it cheap, and its options with values that it takes.
COMMANDS: dict[str, tuple[list[str], list[str], dict[str, list[str]]]] = {
    "explain": (
        ["a fine film"],
        ["--model", "model"],
        {"--method": ["saliency", "occlusion"], "--target": ["POSITIVE", "0"], "--versus": ["NEGATIVE"]}
        | {"--level": ["word", "sentence"], "-o": [], "--html": ["out/page.html"], "--minus": ["random"]}
        | {"--pair": ["not bad"], "--theme": ["light", "dark"], "--device": ["cpu"]},
    ),
    "compare": (
        ["a fine film"],
        ["--model", "model", "--methods", "random", "--metrics", "entropy", "--no-check"],
        {"--methods": ["attcat,random"], "--metrics": ["aopc"], "--rationale": ["fine"], "--answer": []}
        | {"--level": ["word"], "--target": ["1"], "--html": ["out/page.html"], "--against": ["model"]},
    ),
    "flow": (
        ["a fine film"],
        ["--model", "model"],
        {"--method": ["alti"], "--pair": ["bad"], "-o": [], "--html": ["out/page.html"], "--plot": ["out/flow.svg"]}
        | {"--save": ["out/flow.json"], "--device": ["cpu"]},
    ),
    "flip": (
        ["a fine film"],
        ["--model", "model"],
        {
            "--to": ["NEGATIVE", "POSITIVE"],
            "--method": ["saliency"],
            "--fill": ["delete"],
            "--level": ["word"],
            "-o": [],
        },
    ),
    "heads": (
        [],
        ["--model", "model", "--no-syntax", "--data", "texts.jsonl", "--out", "out/heads.json"],
        {"--data": ["texts.jsonl"], "--out": ["out/map.json"], "--limit": ["1"], "--positional": ["0.5"]}
        | {"--syntactic": ["0.5"], "--parser": []},
    ),
    "optimus": (
        [],
        ["--model", "model", "--data", "texts.jsonl", "--out", "out/optimus.json"],
        {"--data": ["texts.jsonl"], "--out": ["out/best.json"], "--limit": ["1"], "--raw": ["A"], "--metric": ["rft"]}
        | {"--level": ["word"]},
    ),
    "run": (
        ["texts.jsonl"],
        ["--model", "model", "--methods", "random", "--metrics", "entropy", "--workers", "1", "--out", "out"],
        {"--limit": ["1"], "--seed": ["3"], "--columns": [], "--labels": ["none"], "--target": ["predicted", "label"]}
        | {"--level": ["word"], "--part": ["1"], "--workers": ["1"], "--engine": ["local"], "--out": ["out"]},
    ),
    "report": (
        ["run"],
        [],
        {"--html": ["out/page.html"], "--csv": ["out/table.csv"], "--latex": ["out/table.tex"], "--seed": ["1"]}
        | {"--thermostat": ["out/thermostat"], "--power": []},
    ),
}


def command_lines(command: str) -> st.SearchStrategy[dict[str, Any]]:
    subject, fixed, flags = COMMANDS[command]
    legal_flags = [[flag, value] for flag, values in flags.items() for value in values]
    wrong = st.tuples(st.sampled_from(sorted(flags)), words | files | st.just("\udcff"))
    return mostly(
        {
            "command": st.just(command),
            "subject": st.just(subject),
            "fixed": st.just(fixed),
            "flags": st.lists(st.sampled_from(legal_flags), max_size=2, unique_by=lambda pair: pair[0]),
        },
        {"subject": st.lists(words | files, max_size=2), "flags": st.lists(wrong, min_size=1, max_size=2)},
    )


def run_command(line: list[str]) -> tuple[int, str]:
    """The command as the console script runs it, within this process: its exit code and what it wrote."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=how) for how in ("strict", "backslashreplace")]
    before, here, usual = (sys.stdin, sys.stdout, sys.stderr), Path.cwd(), sys.argv
    try:
        os.chdir(folder())
        Path("out").mkdir()
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


@fuzz(0.05, st.sampled_from(sorted(COMMANDS)).flatmap(command_lines))
def test_command_lines(command: str, subject: list[str], fixed: list[str], flags: list[list[str]]) -> bool:
    code, written = run_command([command, *subject, *fixed, *(word for flag in flags for word in flag)])
    assert code in (0, 1, 2)
    assert "Traceback" not in written
    return code == 0


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
        (["heads", "--data", "texts.jsonl", "--no-syntax", "--model", "model", "--out", "\udcff"], 0, "\\udcff"),
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
names = st.sampled_from([0, 1, "NEGATIVE", "POSITIVE", None])
row = st.fixed_dictionaries(
    {"text": st.just("A fine film.") | legal},
    optional={"label": names, "rationale": st.just([[0, 4]]), "pair": legal, "id": st.text(max_size=9) | st.integers()},
)
wrong_row = st.dictionaries(fields, plain | st.just("A fine film.") | spans | answers, max_size=5)


def read(name: str, content: bytes, layout: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        known = LabelNames(["NEGATIVE", "POSITIVE"])

        def look(example: Example) -> None:
            known.of(example)

        DataSet(f"{layout}:{path}").checked(look)


@fuzz(
    0.1,
    mostly(
        {"content": st.lists(row, min_size=1, max_size=3)}, {"content": st.lists(wrong_row, min_size=1, max_size=3)}
    ),
)
def test_json_lines(content: list[dict[str, Any]]) -> None:
    read("x.jsonl", "\n".join(json.dumps({"text": "A fine film."} | row) for row in content).encode(), "jsonl")


# What every layout may have in a text.
safe_words = st.lists(
    st.sampled_from(["a", "fine", "na\u00efve", "\u65e5\u672c", "<b>", "\U0001f642"]), max_size=9
).map(lambda words: " ".join(["film", *words]))
CELLS = ["1", "-1", "1.0", "nan", "1e999", "[[0, 1]]", '"', "a fine film", "\t", "[", "\0"]


@fuzz(
    0.05,
    mostly(
        {
            "head": st.permutations(["text", "label", "rationale", "id"]),
            "cells": st.tuples(safe_words, st.sampled_from(["0", "1", "POSITIVE"]), st.sampled_from("xyz")).map(
                lambda cells: {"text": cells[0], "label": cells[1], "rationale": "[[0 1]]", "id": cells[2]}
            ),
            "layout": st.sampled_from(["csv", "tsv"]),
            "tail": st.sampled_from([b"", b"\n", b"\r\n"]),
        },
        {
            "head": st.lists(fields, min_size=1, max_size=4),
            "cells": st.dictionaries(fields, st.sampled_from(CELLS)),
            "tail": st.binary(max_size=20),
        },
    ),
)
def test_tables(head: list[str], cells: dict[str, str], layout: str, tail: bytes) -> None:
    between = "," if layout == "csv" else "\t"
    content = [cells.get(name, "").replace("[0 1]", "[0, 1]") for name in head]
    quoted = [f'"{cell}"' if between in cell else cell for cell in content]
    read("x.txt", f"{between.join(head)}\n{between.join(quoted)}\n".encode() + tail, layout)


def squad(text: str) -> bytes:
    question = {"id": "1", "question": "what ?", "answers": [{"text": text[:4], "answer_start": 0}]}
    return json.dumps({"data": [{"paragraphs": [{"context": text, "qas": [question]}]}]}).encode()


def hatexplain(text: str) -> bytes:
    tokens, votes = text.split(), [{"label": "POSITIVE"}, {"label": "POSITIVE"}, {"label": "NEGATIVE"}]
    return json.dumps({"1": {"post_tokens": tokens, "annotators": votes, "rationales": [[1] * len(tokens)]}}).encode()


def esnli(text: str) -> bytes:
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow(["pairID", "gold_label", "Sentence1", "Sentence2", "Sentence1_marked_1"])
    table.writerow(["1", "POSITIVE", text, "a film", text.replace("film", "*film*")])
    return out.getvalue().encode()


def conllu(text: str) -> bytes:
    words = "\n".join(f"{number}\t{word}" + "\t_" * 8 for number, word in enumerate(text.split(), 1))
    return f"# text = {text}\n{words}\n\n".encode()


LAYOUTS = {"squad": squad, "hatexplain": hatexplain, "esnli": esnli, "conllu": conllu}


def published(layout: str) -> st.SearchStrategy[dict[str, Any]]:
    return mostly(
        {
            "layout": st.just(layout),
            "content": safe_words.map(LAYOUTS[layout]),
        },
        {"content": st.binary(max_size=200) | plain.map(lambda data: json.dumps({"data": data}).encode())},
    )


@fuzz(0.05, st.sampled_from(sorted(LAYOUTS)).flatmap(published))
def test_files_as_published(layout: str, content: bytes) -> None:
    read("x.json", content, layout)


@pytest.mark.parametrize("source", ["x" * 5000, "csv:" + "x" * 5000, "\0", "a@b@c", "hf:", ""])
def test_sources(source: str) -> None:
    with pytest.raises(WherefromError):
        DataSet(source).checked()
