"""What works for every task, as docs/tasks.md says it: a small random model for each is tried with every method.

`make tasks` writes the page (`python tests/task_table.py`); tests/methods/test_tasks_table.py compares it, task by
task, with what is found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tiny_models import CHEAP, make_model, make_network, tokenizer

import wherefrom
from wherefrom.api import Model
from wherefrom.errors import WherefromError, WrongModel
from wherefrom.registry import all_methods

PAGE = Path(__file__).parents[1] / "docs" / "tasks.md"
BEGIN, END = "<!-- tasks: written by `make tasks` -->", "<!-- end of tasks -->"
METHODS = [row.name for row in all_methods()]
TEXT, PAIR = "the film was not bad", "a very good movie"
WORKS, NOT_YET, NOT_DEFINED = "works", "not yet", "not defined"


def function(texts: Sequence[str]) -> list[list[float]]:
    return [[0.0, float(len(text)) / 10] for text in texts]


def entailment() -> tuple[Any, Any]:
    return make_network("bert", id2label={0: "contradiction", 1: "neutral", 2: "entailment"}), tokenizer()


# A model for every task, the family that it is of, and a text that it reads.
ASKED: dict[str, tuple[Any, Any]] = {
    "classification": (lambda: Model(make_model("bert")), TEXT),
    "regression, reranker": (lambda: Model(make_model("bert", labels=1)), (TEXT, PAIR)),
    "token_classification": (lambda: Model(make_model("bert", task="token_classification")), TEXT),
    "question_answering": (lambda: Model(make_model("bert", task="question_answering")), (TEXT, PAIR)),
    "masked_lm": (lambda: Model(make_model("bert", task="masked_lm")), "the [MASK] was not bad"),
    "causal_lm": (lambda: Model(make_model("gpt2", task="causal_lm")), TEXT),
    "seq2seq": (lambda: Model(make_model("t5", task="seq2seq")), TEXT),
    "multiple_choice": (lambda: Model(make_model("bert", task="multiple_choice")), (TEXT, "good\nbad")),
    "zero_shot": (lambda: wherefrom.load(entailment(), labels=["good", "bad"]), TEXT),
    "similarity": (lambda: Model(make_model("bert", task="similarity")), (TEXT, PAIR)),
    "a function": (lambda: wherefrom.load(function), TEXT),
}


@cache
def model_of(task: str) -> Model:
    found: Model = ASKED[task][0]()
    return found


def cell(task: str, method: str) -> str:
    """ "works", or why it does not, in a sentence. Raises where an error does not say it."""
    try:
        target = {"seq2seq": "a good film"}.get(task)  # the output of random weights may go on for ever
        found = model_of(task).explain(ASKED[task][1], method, target, **CHEAP.get(method, {}))
    except WrongModel as problem:
        return reason(str(problem), method)
    except WherefromError as problem:
        return f"{NOT_DEFINED}: {reason(str(problem), method)}"
    assert found.method == method
    return WORKS


def reason(told: str, method: str) -> str:
    """The first sentence, without the method's own name."""
    first = re.split(r"(?<=[^.])\. (?=[A-Z])", told)[0].rstrip(".").replace(method, "the method")
    if not told.startswith("Not yet"):
        return f"{NOT_DEFINED}: {first}"
    return f"{NOT_YET}: {first.removeprefix('Not yet ')}"


def column(task: str) -> dict[str, str]:
    return {method: cell(task, method) for method in METHODS}


def table(columns: dict[str, dict[str, str]]) -> str:
    """The table, and below it every reason once, by its number."""
    reasons = list(dict.fromkeys(one for found in columns.values() for one in found.values() if one != WORKS))
    lines = [f"| method | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for method in METHODS:
        cells = []
        for found in columns.values():
            told = found[method]
            cells.append(WORKS if told == WORKS else f"{told.partition(':')[0]} ({reasons.index(told) + 1})")
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    listed = [f"{number}. {told[0].upper()}{told[1:]}." for number, told in enumerate(reasons, 1)]
    return "\n".join([*lines, "", *listed])


def read_page() -> dict[str, dict[str, str]]:
    """What the page says: task -> method -> "works" or the reason."""
    inside = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = [[part.strip() for part in line.strip("|").split("|")] for line in inside.splitlines() if line[:1] == "|"]
    reasons = re.findall(r"^(\d+)\. (.*)\.$", inside, re.MULTILINE)
    known = {number: f"{told[0].lower()}{told[1:]}" for number, told in reasons}
    found: dict[str, dict[str, str]] = {task: {} for task in rows[0][1:]}
    for name, *cells in rows[2:]:
        for task, told in zip(found, cells, strict=True):
            number = re.search(r"\((\d+)\)$", told)
            found[task][name.strip("`")] = told if number is None else known[number[1]]
    return found


if __name__ == "__main__":
    written = PAGE.read_text(encoding="utf-8")
    before, after = written.partition(BEGIN)[0], written.partition(END)[2]
    filled = table({task: column(task) for task in ASKED})
    PAGE.write_text(f"{before}{BEGIN}\n\n{filled}\n\n{END}{after}", encoding="utf-8")
