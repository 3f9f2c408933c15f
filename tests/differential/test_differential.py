"""The same text gives the same numbers alone, in a list, beside longer texts, in a run and in the explorer; and units
of the caller's choice, windows and left-padding tokenizers give what the network itself answers, row by row.

Small random models of every family are made for every task that transformers has a head for, in double precision, with
biases that are not zero. The full table of models, tasks and settings takes a quarter of an hour, so a fixed part of it
is compared: see `company_of`. `make test` compares a small part; `make test-slow` prints how many comparisons it made.
"""

from __future__ import annotations

import inspect
import json
import math
import random
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from explorer.serving import Client, serving
from tiny_models import CONFIGS, make_network, tokenizer
from tolerances import STABLE, TOLERANCE, assert_close, tolerance_of
from torch import Tensor

import wherefrom
from wherefrom.api import Model
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run
from wherefrom.case.asking import Asker
from wherefrom.case.door import subject_of
from wherefrom.case.windows import windows_of
from wherefrom.core.explanation import Explanation
from wherefrom.errors import WherefromError
from wherefrom.model.tasks import find_task
from wherefrom.model.text_model import TextModel
from wherefrom.registry import all_methods

THINNED = 5  # one of so many combinations of model, task and setting is compared in lists
PER_FAMILY = 70  # comparisons, at least, of each in `make test-slow`; most have several hundred
SHOWN = 1e-3  # the explorer sends rounded numbers
SINGLE = TOLERANCE[torch.float32]

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


# Options that change nothing without a fitted combination or a head map, and fills that occlusion is compared with.
LEFT_OUT = {("optimus", "select"), ("optimus", "combination"), ("mask_lrp", "only"), ("mask_lrp", "counts")}
LEFT_OUT |= {("lime", "fill"), ("kernel_shap", "fill")}
FEW = {"lime": {"samples": 16}, "kernel_shap": {"samples": 16}, "integrated_gradients": {"steps": 10}}


def settings_of_methods() -> dict[str, tuple[str, dict[str, Any]]]:
    """Every method as it is by default, and with every other value of its options that are a choice or a switch."""
    settings: dict[str, tuple[str, dict[str, Any]]] = {}
    for method in all_methods():
        if method.name in ("best", "attention_flow"):  # a choice among the others; a second for a text of ten tokens
            continue
        usual = FEW.get(method.name, {}) | STABLE.get(method.name, {})
        settings[method.name] = method.name, usual
        hints = typing.get_type_hints(method.function)
        for option, parameter in inspect.signature(method.function).parameters.items():
            hint = hints[option]
            values = (True, False) if hint is bool else typing.get_args(hint) if _is_choice(hint) else ()
            for value in values:
                if value != parameter.default and (method.name, option) not in LEFT_OUT and option != "precision":
                    settings[f"{method.name}:{option}={value}"] = method.name, usual | {option: value}
    more: dict[str, dict[str, Any]] = {"raw_attention": {"layer": 0, "head": 1}, "logit_contributions": {"layer": 1}}
    return settings | {f"{method}:layer": (method, options) for method, options in more.items()}


def _is_choice(hint: Any) -> bool:
    return typing.get_origin(hint) is typing.Literal


SETTINGS = settings_of_methods()
METHODS = [row.name for row in all_methods() if not row.slow and row.name != "best"]


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
def tolerance_for(variant: str, task: str) -> float:
    """By the precision that the family computes in; of single precision where no pass can be watched."""
    model = model_of(variant, task)
    assert model is not None
    try:
        return tolerance_of(model.text_model)
    except (ValueError, TypeError, IndexError, RuntimeError, AssertionError):
        return SINGLE


def shown(explanation: Explanation) -> float:
    """The probability, or the output where there is none."""
    value = explanation.value if explanation.probability is None else explanation.probability
    assert value is not None
    return value


def company_of(variant: str, task: str, setting: str) -> list[Any] | None:
    """A list with the task's text in it: beside itself, before longer texts, or after a longer one, in turn.

    None for the combinations that are left out. Variants, tasks and settings are numbered, so that each setting of a
    family meets some of its tasks, and each kind of company.
    """
    text, longer, _ = INPUTS[task]
    number = list(VARIANTS).index(variant) + list(INPUTS).index(task) + list(SETTINGS).index(setting)
    if number % THINNED:
        return None
    lists: list[list[Any]] = [[text, text], [text, *longer], [longer[-1], text]]
    return lists[number // THINNED % len(lists)]


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


def explain_alone(model: Model, task: str, setting: str) -> Explanation | None:
    """None where the method is not defined for the family or the task (docs/families.md, docs/tasks.md)."""
    text, _, target = INPUTS[task]
    method, options = SETTINGS[setting]
    try:
        explanation: Explanation = model.explain(text, method, target, check=False, **options)
        return explanation
    except WherefromError:
        return None


def compare_lists(variant: str, task: str, settings: Iterable[str]) -> int:
    """How many comparisons were made. Raises where one differs."""
    model = model_of(variant, task)
    if model is None:
        return 0
    text, _, target = INPUTS[task]
    differences, tolerance = Differences(f"{variant} {task}"), tolerance_for(variant, task)
    for setting in settings:
        texts = company_of(variant, task, setting)
        alone = explain_alone(model, task, setting) if texts else None
        if texts is None or alone is None:
            continue
        method, options = SETTINGS[setting]
        with differences.comparing(f"{setting} in a list of {len(texts)}"):
            listed = model.explain(texts, method, target, check=False, **options)
            same = [explanation for explanation, other in zip(listed, texts, strict=True) if other == text]
            differences.made += len(same) - 1
            for explanation in same:
                assert (explanation.tokens, explanation.target) == (alone.tokens, alone.target)
                assert_close(explanation.scores, alone.scores, tolerance=tolerance)
                assert_close(shown(explanation), shown(alone), tolerance=tolerance)
    return differences.check()


def compare_hidden(variant: str, task: str) -> int:
    """Rows with hidden tokens of a short and a long text, all together and each by itself."""
    model = model_of(variant, task)
    if model is None or explain_alone(model, task, "occlusion") is None:
        return 0
    text, longer, target = INPUTS[task]
    differences, tolerance = Differences(f"{variant} {task} hidden"), tolerance_for(variant, task)
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
                    assert_close(_finite(queries.logits[number]), _finite(query.logits[0]), tolerance=tolerance)
    return differences.check()


def _finite(logits: Tensor) -> Tensor:
    """Deleted tokens of an answer are -inf."""
    return logits.masked_fill(logits.isneginf(), 0)


def compare_run(variant: str, task: str, methods: Iterable[str], folder: Path) -> int:
    """The row of a run over the text and the longer ones."""
    model = model_of(variant, task)
    if model is None:
        return 0
    text, longer, target = INPUTS[task]
    # With the options that it has by default, mask_lrp is transatt, and a run refuses to compare the two.
    alone = _all_alone(model, task, (method for method in methods if method != "mask_lrp"))
    differences, tolerance = Differences(f"{variant} {task} run"), tolerance_for(variant, task)
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
            assert_close(list(row["scores"]), explanation.scores, tolerance=max(tolerance, SINGLE))
    return differences.check()


def _all_alone(model: Model, task: str, methods: Iterable[str]) -> dict[str, Explanation]:
    both = ((method, explain_alone(model, task, method)) for method in methods)
    return {method: explanation for method, explanation in both if explanation is not None}


def row_of(task: str, given: Any, target: str | None) -> dict[str, Any]:
    """A row of the file of a run."""
    label = {} if target is None else {"explain": target}
    if isinstance(given, str):
        return {"text": given} | label
    first, second = FIELDS.get(task, ("text", "pair"))
    return {first: given[0], second: given[1].split("\n") if task == "multiple_choice" else given[1]} | label


def _written(method: str) -> str:
    return ",".join(f"{name}={value}" for name, value in SETTINGS[method][1].items())


def compare_explorer(variant: str, task: str, methods: Iterable[str]) -> int:
    """What the explorer's server sends."""
    model = model_of(variant, task)
    if model is None:
        return 0
    text, _, target = INPUTS[task]
    alone = _all_alone(model, task, methods)
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


def compare_doors(variant: str, task: str, methods: Iterable[str], folder: Path) -> int:
    methods = list(methods)
    return compare_run(variant, task, methods, folder) + compare_explorer(variant, task, methods)


Record = Callable[[str, object], None]


# For `make test`: families that were wrong once, and the plainest.
SAMPLE = [("bert", "classification"), ("xlnet", "causal_lm"), ("funnel", "masked_lm"), ("roformer", "multiple_choice")]
SAMPLE += [("phi3 longrope", "causal_lm"), ("mobilebert", "similarity"), ("big_bird block_sparse", "classification")]
SAMPLE += [("t5", "seq2seq"), ("bert", "zero_shot"), ("longformer", "classification"), ("gpt2", "classification")]
SAMPLE += [("longformer", "question_answering")]


@pytest.mark.parametrize(("variant", "task"), SAMPLE)
def test_a_sample(variant: str, task: str) -> None:
    assert compare_lists(variant, task, list(SETTINGS)[::2]) >= 2


@pytest.mark.parametrize("task", ["causal_lm", "question_answering", "token_classification"])
@pytest.mark.parametrize("method", ["lrp", "transatt"])
def test_relevance_where_tokens_come_before_rows(task: str, method: str) -> None:
    """XLNet's relevance of a text depended on the texts beside it."""
    model = model_of("xlnet", task)
    assert model is not None
    text, longer, target = INPUTS[task]
    alone = model.explain(text, method, target, check=False)
    for texts in ([text, text], [longer[0], text]):
        listed = model.explain(texts, method, target, check=False)[-1]
        assert_close(listed.scores, alone.scores, tolerance=tolerance_for("xlnet", task))


@pytest.mark.parametrize(("variant", "task"), [SAMPLE[0], SAMPLE[4], SAMPLE[7]])
def test_a_sample_of_hidden_tokens(variant: str, task: str) -> None:
    assert compare_hidden(variant, task) == 48


def test_a_sample_of_runs_and_the_explorer(tmp_path: Path) -> None:
    assert compare_doors("bert", "classification", ["attcat", "occlusion"], tmp_path) == 5


# Models and tasks that go through a run and the explorer with every method.
DOORS = [("bert", task) for task in INPUTS if task not in ("causal_lm", "seq2seq")]
DOORS += [("gpt2", "causal_lm"), ("phi3 longrope", "causal_lm"), ("xlnet", "classification")]
DOORS += [("t5", "seq2seq"), ("bart", "seq2seq"), ("funnel", "masked_lm"), ("roformer", "multiple_choice")]
DOORS += [("big_bird block_sparse", "classification"), ("longformer", "classification")]


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_family(variant: str, tmp_path: Path, record_property: Record) -> None:
    """Lists and hidden tokens for every task; a run and the explorer for one task and a third of the methods."""
    made = sum(compare_lists(variant, task, SETTINGS) + compare_hidden(variant, task) for task in INPUTS)
    number = list(VARIANTS).index(variant)
    tasks = [task for task in INPUTS if model_of(variant, task)]
    made += compare_doors(variant, tasks[number % len(tasks)], METHODS[number % 3 :: 3], tmp_path)
    record_property("comparisons", made)
    model_of.cache_clear()
    assert made >= PER_FAMILY


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "task"), DOORS)
def test_runs_and_the_explorer(variant: str, task: str, tmp_path: Path, record_property: Record) -> None:
    made = compare_doors(variant, task, METHODS, tmp_path)
    record_property("comparisons", made)
    assert made >= 10


def test_there_are_enough_comparisons() -> None:
    """By the least that each test above accepts."""
    assert PER_FAMILY * len(VARIANTS) + 10 * len(DOORS) >= 5_000


# Against the network itself, asked row by row.
SENTENCE = "the film was not bad , but dull !"
LONG = "the film was not bad , but the plot is dull and the acting was never very fine ! " * 6
FAMILIES = ["bert", "roberta", "gpt2", "llama", "xlnet", "convbert", "t5"]


def loaded(family: str, **more: Any) -> tuple[Any, wherefrom.Model]:
    _, pad, ends = CONFIGS[family]
    network = make_network(family, dtype=torch.float64, **more)
    return network, wherefrom.load((network, tokenizer(pad, ends)))


@torch.no_grad()
def logits_of(network: Any, ids: list[int], words: list[int]) -> Tensor:
    """One row; positions are those of `ids`, which are looked up as `words`."""
    if ids == words:
        found: Tensor = network(input_ids=torch.tensor([ids])).logits[0]
        return found
    handle = network.get_input_embeddings().register_forward_hook(
        lambda module, given, _: torch.nn.functional.embedding(
            torch.tensor([words]).view_as(given[0]), module.weight, module.padding_idx
        )
    )
    try:
        found = network(input_ids=torch.tensor([ids])).logits[0]
    finally:
        handle.remove()
    return found


@pytest.mark.parametrize("family", FAMILIES[:-1])
@pytest.mark.parametrize("fill", ["delete", "unk"])
def test_units(family: str, fill: str) -> None:
    """Every unit hidden as a whole; words outside of the caller's units are units, too."""
    network, model = loaded(family)
    spans = [(0, 8), (13, 20)]  # "the film", "not bad"
    found = model.explain(SENTENCE, "occlusion", 1, units=spans, fill=fill, check=False)
    units = found.units()
    assert [unit.text for unit in units] == ["the film", "was", "not bad", ",", "but", "dull", "!"]
    encoding = model.text_model.encode(SENTENCE)
    ids, unknown = list(encoding.input_ids), model.text_model.reading.tokenizer.unk_token_id
    whole = logits_of(network, ids, ids)[1]
    for unit in units:
        start = SENTENCE.index(unit.text)
        hidden = {
            place
            for place, (first, last) in enumerate(encoding.offsets)
            if encoding.segment[place] >= 0 and first >= start and last <= start + len(unit.text)
        }
        kept = [token for place, token in enumerate(ids) if place not in hidden]
        words = [unknown if place in hidden else token for place, token in enumerate(ids)]
        left = logits_of(network, kept, kept) if fill == "delete" else logits_of(network, ids, words)
        assert_close(unit.score, whole - left[1], tolerance=SINGLE, what=(family, unit.text))


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_shapley_values_of_units(family: str) -> None:
    """All coalitions of four units, by the definition."""
    network, model = loaded(family)
    text, spans = "the film was not bad but dull", [(0, 8), (9, 12), (13, 20), (21, 29)]
    found = model.explain(text, "kernel_shap", 1, units=spans, fill="delete", check=False)
    encoding = model.text_model.encode(text)

    def value(kept: frozenset[int]) -> float:
        ids = [
            token
            for token, (first, last), part in zip(encoding.input_ids, encoding.offsets, encoding.segment, strict=True)
            if part < 0 or any(spans[unit][0] <= first and last <= spans[unit][1] for unit in kept)
        ] or [model.text_model.hiding.start_token()]
        return logits_of(network, ids, ids)[1].item()

    count = len(spans)
    for unit, scored in enumerate(found.units()):
        others, expected = [other for other in range(count) if other != unit], 0.0
        for size in range(count):
            weight = math.factorial(size) * math.factorial(count - size - 1) / math.factorial(count)
            for chosen in combinations(others, size):
                expected += weight * (value(frozenset({*chosen, unit})) - value(frozenset(chosen)))
        assert scored.score == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "convbert"])
@pytest.mark.parametrize("target", [None, 2])
def test_windows(family: str, target: int | None) -> None:
    """Occlusion of every token in every window, a row at a time."""
    network, model = loaded(family)
    reader = model.text_model
    found = model.explain(LONG, "occlusion", target, long="windows", fill="unk")
    whole = reader.reading.tokenize(LONG, None, None)
    windows = windows_of(reader, whole)
    assert len(windows) > 1
    rows = [list(window.encoding.input_ids) for window in windows]
    answers = [logits_of(network, row, row) for row in rows]
    mean = torch.stack([answer.softmax(-1) for answer in answers]).mean(0)
    label = int(mean.argmax()) if target is None else target
    assert found.target == reader.labels[label]
    assert_close(found.probability, mean[label], tolerance=SINGLE)
    total, count = torch.zeros(2, len(whole), dtype=torch.float64)
    for window, row, answer in zip(windows, rows, answers, strict=True):
        for number, place in enumerate(window.places):
            count[place] += 1
            if not whole.special[place]:
                words = [*row[:number], reader.reading.tokenizer.unk_token_id, *row[number + 1 :]]
                total[place] += answer[label] - logits_of(network, row, words)[label]
    assert_close(found.scores, total / count, tolerance=SINGLE)


@pytest.mark.parametrize("family", FAMILIES)
def test_left_padding_tokenizers(family: str) -> None:
    """On which side a tokenizer pads does not matter: rows are padded where the model was tried."""
    _, pad, ends = CONFIGS[family]
    left = deepcopy(tokenizer(pad, ends))
    left.padding_side = "left"
    network, right = loaded(family)
    other = wherefrom.load((network, left))
    texts = [SENTENCE, f"{SENTENCE} and the plot is very dull", "a film"]
    for method in ("occlusion", "input_x_gradient"):
        both = zip(right.explain(texts, method), other.explain(texts, method), strict=True)
        for text, (expected, listed) in zip(texts, both, strict=True):
            assert_close(listed.scores, expected.scores, tolerance=SINGLE)
            assert_close(listed.scores, other.explain(text, method).scores, tolerance=SINGLE)
    assert left.padding_side == "left"
