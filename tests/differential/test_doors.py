"""The same text gives the same numbers alone, in a list, beside longer texts, in a run and in the explorer.

Small random models of every family are made for every task that transformers has a head for, in double precision, with
biases that are not zero. `make test` compares a sample with a fixed seed; `make test-slow` compares everything.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from explorer.serving import Client, serving
from tiny_models import CHEAP, CONFIGS, make_network, tokenizer
from tolerances import STABLE, TOLERANCE, assert_close, tolerance_of
from torch import Tensor

import wherefrom
from wherefrom.api import Model
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run
from wherefrom.case.asking import Asker
from wherefrom.case.door import subject_of
from wherefrom.core.explanation import Explanation
from wherefrom.errors import WherefromError
from wherefrom.model.tasks import find_task
from wherefrom.model.text_model import TextModel
from wherefrom.registry import all_methods

METHODS = [row.name for row in all_methods() if not row.slow and row.name != "best"]
SAMPLE = 16  # of the models and tasks, in `make test`
PER_FAMILY = 100  # comparisons, at least, of each in `make test-slow`; most have several hundred
SHOWN = 1e-3  # the explorer sends rounded numbers

TEXT, PAIR = "the film was not bad", "a very good movie"
LONGER = "the acting was great , but the plot is not very good and the film was dull !"
BOTH = [LONGER, f"{LONGER} !"]  # an odd and an even number of tokens more
# A text that the task reads, longer ones, and what is explained.
INPUTS: dict[str, tuple[Any, list[Any], str | None]] = {
    "classification": (TEXT, BOTH, None),
    "regression": (TEXT, BOTH, None),
    "zero_shot": (TEXT, BOTH, None),
    "token_classification": (TEXT, BOTH, None),
    "question_answering": ((PAIR, TEXT), [(PAIR, text) for text in BOTH], None),
    "masked_lm": ("the [MASK] was not bad", [f"{LONGER} [MASK]", f"[MASK] {LONGER} !"], "film"),
    "causal_lm": (TEXT, BOTH, "good"),
    "seq2seq": (TEXT, BOTH, "good film"),
    "multiple_choice": ((TEXT, "good\nbad"), [(LONGER, "fine\nvery dull\nbad"), (f"{LONGER} !", "good\nbad")], None),
    "similarity": ((TEXT, PAIR), [(LONGER, PAIR), (PAIR, f"{LONGER} !")], None),
}
# How the file of a run names the two texts of a task.
FIELDS = {"question_answering": ("question", "context"), "multiple_choice": ("text", "choices")}

LONGROPE = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 2, "long_factor": [3.0, 9.0]}
# Settings of a family beside those of its row: its name, and what differs.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{family: (family, {}) for family in CONFIGS},
    "phi3 longrope": ("phi3", {"rope_parameters": LONGROPE | {"original_max_position_embeddings": 12}}),
    "big_bird block_sparse": ("big_bird", {"attention_type": "block_sparse", "block_size": 2, "num_random_blocks": 1}),
    "gpt2 untied": ("gpt2", {"tie_word_embeddings": False}),
    "llama tied": ("llama", {"tie_word_embeddings": True}),
    "bert untied": ("bert", {"tie_word_embeddings": False}),
    "t5 untied": ("t5", {"tie_word_embeddings": False}),
}


def pairs() -> list[tuple[str, str]]:
    return [(variant, task) for variant in VARIANTS for task in INPUTS]


@cache
def model_of(variant: str, task: str) -> Model | None:
    """None where transformers has no such head, or the family cannot read what the task needs."""
    family, settings = VARIANTS[variant]
    _, pad, ends = CONFIGS[family]
    head = {"regression": "classification", "zero_shot": "classification"}.get(task, task)
    more: dict[str, Any] = {"labels": 1} if task == "regression" else {}
    if task == "zero_shot":
        more = {"id2label": {0: "contradiction", 1: "neutral", 2: "entailment"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            network = make_network(family, task=head, dtype=torch.float64, **settings, **more)
        except (ValueError, TypeError, ImportError):
            return None
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                if name.endswith("bias") and "norm" not in name.lower():
                    parameter.normal_(0, 0.2)
        try:
            if task == "zero_shot":
                return wherefrom.load((network, tokenizer(pad, ends)), labels=["good", "very dull"])
            if task == "similarity":
                return wherefrom.load((network, tokenizer(pad, ends)), task=task)
            return Model(TextModel.of(network, tokenizer(pad, ends), name=f"tiny-{variant}", task=find_task(head)))
        except WherefromError:
            return None


@cache
def room_of(variant: str, task: str) -> float:
    """By the precision that the family computes in; of single precision where no pass can be watched."""
    model = model_of(variant, task)
    assert model is not None
    try:
        return tolerance_of(model.text_model)
    except (ValueError, TypeError, IndexError, RuntimeError, AssertionError):
        return TOLERANCE[torch.float32]


def options_of(method: str) -> dict[str, Any]:
    return CHEAP.get(method, {}) | STABLE.get(method, {})


def shown(explanation: Explanation) -> float:
    """The probability, or the output where there is none."""
    value = explanation.value if explanation.probability is None else explanation.probability
    assert value is not None
    return value


def in_company(text: Any, longer: list[Any]) -> Iterator[tuple[str, list[Any], int]]:
    """Lists with the text in them, and its place there."""
    yield "beside itself", [text, text], 1
    yield "before longer ones", [text, *longer], 0
    yield "after a longer one", [longer[-1], text], 1


class Differences:
    """Counts comparisons, and notes those that differ."""

    def __init__(self, what: str) -> None:
        self.what, self.made, self.problems = what, 0, list[str]()

    @contextmanager
    def comparing(self, where: str) -> Iterator[None]:
        self.made += 1
        try:
            yield
        except Exception as problem:
            first = next(iter(str(problem).strip().splitlines()), "")
            self.problems.append(f"{where}: {type(problem).__name__} {first[:200]}")

    def check(self) -> int:
        listed = "\n".join(self.problems)
        assert not self.problems, f"{self.what}: {len(self.problems)} of {self.made} differ:\n{listed}"
        return self.made


def explained_alone(model: Model, task: str, methods: Sequence[str]) -> dict[str, Explanation]:
    """By method, without those that are not defined for the family or the task (docs/families.md, docs/tasks.md)."""
    text, _, target = INPUTS[task]
    found: dict[str, Explanation] = {}
    for method in methods:
        try:
            found[method] = model.explain(text, method, target, check=False, **options_of(method))
        except WherefromError:
            continue
    return found


def compare_lists(variant: str, task: str, methods: Sequence[str]) -> int:
    """How many comparisons were made. Raises where one differs."""
    model = model_of(variant, task)
    if model is None:
        return 0
    text, longer, target = INPUTS[task]
    differences, room = Differences(f"{variant} {task}"), room_of(variant, task)
    for method, alone in explained_alone(model, task, methods).items():
        for company, texts, place in in_company(text, longer):
            with differences.comparing(f"{method} {company}"):
                listed = model.explain(texts, method, target, check=False, **options_of(method))[place]
                assert (listed.tokens, listed.target) == (alone.tokens, alone.target)
                assert_close(listed.scores, alone.scores, tolerance=room)
                assert_close(shown(listed), shown(alone), tolerance=room)
    return differences.check()


def compare_hidden(variant: str, task: str) -> int:
    """Rows with hidden tokens of a short and a long text, all together and each by itself."""
    model = model_of(variant, task)
    if model is None:
        return 0
    text, longer, target = INPUTS[task]
    differences, room = Differences(f"{variant} {task} hidden"), room_of(variant, task)
    draw = random.Random(0)
    for fill in ("delete", model.text_model.hiding.usual_fill()):
        together: Asker | None = None
        noted = []
        for given in (text, longer[0], longer[0]):
            encoding = model.text_model.encode(*((given,) if isinstance(given, str) else given))
            subject = subject_of(model.text_model, encoding, target)
            together = together or Asker(subject.model)
            if subject.model.task != together.model.task:
                continue
            rows = [[draw.random() < 0.6 for _ in subject.encoding.tokens] for _ in range(8)]
            keep = torch.tensor(rows)
            noted.append((subject, keep, together.note(subject.encoding, keep, fill)))
        assert together is not None
        together.run()
        for subject, keep, queries in noted:
            for number, row in enumerate(keep):
                with differences.comparing(f"{fill} {len(subject.encoding)} tokens, row {number}"):
                    alone = Asker(subject.model, share=False)
                    query = alone.note(subject.encoding, row[None], fill)
                    alone.run()
                    assert_close(_finite(queries.logits[number]), _finite(query.logits[0]), tolerance=room)
    return differences.check()


def _finite(logits: Tensor) -> Tensor:
    """Deleted tokens of an answer are -inf."""
    return logits.masked_fill(logits.isneginf(), 0)


def compare_run(variant: str, task: str, methods: Sequence[str], folder: Path) -> int:
    """The row of a run over the text and the longer ones."""
    model = model_of(variant, task)
    if model is None:
        return 0
    text, longer, target = INPUTS[task]
    # With the options that it has by default, mask_lrp is transatt, and a run refuses to compare the two.
    alone = explained_alone(model, task, [method for method in methods if method != "mask_lrp"])
    differences, room = Differences(f"{variant} {task} run"), room_of(variant, task)
    if not alone:
        return 0
    data = folder / "data.jsonl"
    data.write_text("\n".join(json.dumps(row_of(task, given, target)) for given in (text, *longer)), encoding="utf-8")
    plan = RunPlan(
        str(data),
        model=model,
        methods=[f"{method}:{_written(method)}".rstrip(":") for method in alone],
        metrics="comprehensiveness",
        target="predicted" if target is None else "label",
        workers=1,
    )
    rows = run(plan, folder / "run").explanations.to_dict("records")
    first = text if isinstance(text, str) else text[0]
    pair = None if isinstance(text, str) else text[1]
    for method, explanation in alone.items():
        with differences.comparing(method):
            (row,) = (
                row
                for row in rows
                if row["method"].partition(":")[0] == method
                and row["text"] == first
                and (pair is None or row["pair"] == pair)
            )
            assert row["target"] == explanation.target
            assert_close(list(row["scores"]), explanation.scores, tolerance=max(room, TOLERANCE[torch.float32]))
    return differences.check()


def row_of(task: str, given: Any, target: str | None) -> dict[str, Any]:
    """A row of the file of a run."""
    label = {} if target is None else {"explain": target}
    if isinstance(given, str):
        return {"text": given} | label
    first, second = FIELDS.get(task, ("text", "pair"))
    return {first: given[0], second: given[1].split("\n") if task == "multiple_choice" else given[1]} | label


def _written(method: str) -> str:
    return ",".join(f"{name}={value}" for name, value in options_of(method).items())


def compare_explorer(variant: str, task: str, methods: Sequence[str]) -> int:
    """What the explorer's server sends."""
    model = model_of(variant, task)
    if model is None:
        return 0
    text, _, target = INPUTS[task]
    alone = explained_alone(model, task, methods)
    if not alone:
        return 0
    differences = Differences(f"{variant} {task} explorer")
    query: dict[str, Any] = {"text": text} if isinstance(text, str) else {"text": text[0], "pair": text[1]}
    names = {method: f"{method}:{_written(method)}".rstrip(":") for method in alone}
    with serving(model.text_model) as server, Client(server) as client:
        rows: dict[str, Any] = {}
        for start in range(0, len(names), 8):  # the server takes no more than twelve at once
            lines = client.stream(
                "explain", methods=list(names.values())[start : start + 8], level="token", target=target, **query
            )
            rows |= {line["row"]["asked"]: line["row"] for line in lines if "row" in line}
        for method, explanation in alone.items():
            with differences.comparing(method):
                expected = [unit.score for unit in explanation.units()]
                assert_close(rows[names[method]]["scores"], expected, tolerance=SHOWN)
        explanation = next(iter(alone.values()))
        if explanation.probability is not None:
            with differences.comparing("probability"):
                read = client.ask("read", level="token", target=target, **query)
                assert_close(read["probability"], explanation.probability, tolerance=SHOWN)
    return differences.check()


def test_a_sample(tmp_path: Path) -> None:
    draw, made = random.Random(20261118), 0
    for variant, task in draw.sample(pairs(), SAMPLE):
        made += compare_lists(variant, task, draw.sample(METHODS, 4))
    for variant, task in draw.sample(pairs(), SAMPLE // 2):
        made += compare_hidden(variant, task)
    made += compare_run("bert", "classification", ["attcat", "occlusion"], tmp_path)
    made += compare_explorer("bert", "classification", ["attcat", "occlusion"])
    assert made >= 5 * SAMPLE


# Models and tasks that also go through a run and the explorer.
DOORS = [("bert", task) for task in INPUTS if task not in ("causal_lm", "seq2seq")]
DOORS += [("gpt2", "causal_lm"), ("phi3 longrope", "causal_lm"), ("xlnet", "classification")]
DOORS += [("t5", "seq2seq"), ("bart", "seq2seq"), ("funnel", "masked_lm"), ("roformer", "multiple_choice")]
DOORS += [("big_bird block_sparse", "classification"), ("longformer", "classification")]


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_all_of_a_family(variant: str) -> None:
    made = sum(compare_lists(variant, task, METHODS) + compare_hidden(variant, task) for task in INPUTS)
    assert made >= PER_FAMILY


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "task"), DOORS)
def test_runs_and_the_explorer(variant: str, task: str, tmp_path: Path) -> None:
    assert compare_run(variant, task, METHODS, tmp_path)
    assert compare_explorer(variant, task, METHODS)


def test_there_are_enough_comparisons() -> None:
    assert PER_FAMILY * len(VARIANTS) >= 5_000
