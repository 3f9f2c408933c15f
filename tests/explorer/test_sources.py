"""The tab "Answer" as its page asks for it: against `Model.sources` and `Model.compare_sources`."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch
from tiny_models import make_chat_model, make_model

import wherefrom
from explorer.serving import LONG, Client, serving
from wherefrom.api import Model
from wherefrom.core.source_grades import SourcesComparison
from wherefrom.core.sources import Sources
from wherefrom.explorer.limits import Limits
from wherefrom.explorer.questions import SOURCE_METHODS
from wherefrom.explorer.serve import ExplorerServer
from wherefrom.model.text_model import TextModel
from wherefrom.sources.methods import REMOVING, SourceCase

FIRST = "the film was great. the plot is not bad. it was dull!"
SECOND = "a movie is fine. the acting was very good."
QUESTION, ANSWER = "is it good?", "the plot is great. it was a fine film."
ASKED = {"question": QUESTION, "passages": [{"text": FIRST}, {"text": SECOND}], "answer": ANSWER, "tokens": 8}
METHODS = list(SOURCE_METHODS)


@cache
def tiny() -> TextModel:
    return make_model("llama", task="causal_lm", dtype=torch.float64, max_position_embeddings=512)


@pytest.fixture(scope="module")
def server() -> Iterator[ExplorerServer]:
    with serving(tiny(), limits=Limits(passages=2000)) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: ExplorerServer) -> Iterator[Client]:
    with Client(server) as asking:
        yield asking


def stream(client: Client, path: str = "sources", **question: Any) -> list[dict[str, Any]]:
    answer = client.http.post(f"/api/{path}", json=ASKED | question)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def post(client: Client, path: str, *, status: int = 200, **question: Any) -> Any:
    answer = client.http.post(f"/api/sources/{path}", json=ASKED | question)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_rows_and_grades_are_what_the_library_gives(client: Client) -> None:
    lines = stream(client, methods=METHODS)
    answer = lines[0]["answer"]
    assert [run for run in answer["runs"] if run[1] is not None] == [
        ["the plot is great.", 0],
        ["it was a fine film.", 1],
    ]
    assert "".join(text for text, _ in answer["runs"]) == ANSWER
    assert ["".join(text for text, _ in one["parts"]) for one in answer["documents"]] == [FIRST, SECOND]
    rows = {line["row"]["method"]: line["row"] for line in lines if "row" in line}
    grades = {line["grade"]["method"]: line["grade"] for line in lines if "grade" in line}
    assert list(rows) == list(grades) == METHODS
    assert lines[-1] == {"done": True}
    model = Model(tiny())
    for name in METHODS:
        expected = model.sources(QUESTION, [FIRST, SECOND], ANSWER, method=name, regenerate=False)
        for shown, statement in zip(rows[name]["statements"], expected.statements, strict=True):
            assert shown["scores"] == pytest.approx([source.score for source in statement.sources], rel=1e-6, abs=1e-9)
            test = statement.test
            expected_test = ("", []) if test is None else (test.verdict, list(test.sources))
            assert (shown["verdict"], shown["tested"]) == expected_test
            assert shown["grounded"] == statement.grounding.grounded
            assert shown["log_probability"] == pytest.approx(statement.log_probability, rel=1e-6)
    compared = model.compare_sources(QUESTION, [FIRST, SECOND], ANSWER, methods=METHODS)
    for grade in compared.grades:
        shown = grades[grade.method]
        assert shown["top_1_drop"] == pytest.approx(grade.top_1_drop, rel=1e-6, abs=1e-9)
        assert shown["top_3_drop"] == pytest.approx(grade.top_3_drop, rel=1e-6, abs=1e-9)
        assert shown["lds"] == (None if grade.lds is None else pytest.approx(grade.lds, abs=1e-6))
        assert (shown["forwards"] > 0) == (grade.forwards > 0)


def test_the_chosen_method_comes_first_with_its_new_answers(client: Client) -> None:
    lines = stream(client, method="hierarchical", methods=["leave_one_out"])
    kinds = [next(iter(line)) for line in lines]
    assert kinds == ["answer", "row", "without", "without", "row", "grade", "done"]
    assert lines[1]["row"]["method"] == "hierarchical"
    expected = Model(tiny()).sources(QUESTION, [FIRST, SECOND], ANSWER, method="hierarchical", tokens=8)
    for line, statement in zip(lines[2:4], expected.statements, strict=True):
        assert statement.test is not None
        assert line["without"]["answer"] == (statement.test.answer or "").strip()


def test_an_answer_that_is_not_given_is_generated(client: Client) -> None:
    lines = stream(client, answer=None)
    expected = Model(tiny()).sources(QUESTION, [FIRST, SECOND], tokens=8, regenerate=False)
    assert lines[0]["answer"]["generated"] is True
    assert "".join(text for text, _ in lines[0]["answer"]["runs"]) == expected.answer
    assert [one["log_probability"] for one in lines[1]["row"]["statements"]] == pytest.approx(
        [statement.log_probability for statement in expected.statements], rel=1e-6
    )


@pytest.mark.parametrize(("removed", "rest"), [([0], [SECOND]), ([1], [FIRST])])
def test_without_a_passage_the_model_answers_anew(client: Client, removed: list[int], rest: list[str]) -> None:
    found = post(client, "without", removed=removed)
    whole, left = (
        Model(tiny()).sources(QUESTION, passages, ANSWER, regenerate=False) for passages in ([FIRST, SECOND], rest)
    )
    assert found["whole"] == pytest.approx([one.log_probability for one in whole.statements], rel=1e-6)
    assert found["logs"] == pytest.approx([one.log_probability for one in left.statements], rel=1e-6)
    anew = Model(tiny()).sources(QUESTION, rest, tokens=8, regenerate=False)
    assert found["answer"] == anew.answer.strip()


def test_without_any_passage_the_drop_is_the_grounding(client: Client) -> None:
    found = post(client, "without", removed=[0, 1])
    expected = Model(tiny()).sources(QUESTION, [FIRST, SECOND], ANSWER, regenerate=False)
    drops = [whole - log for whole, log in zip(found["whole"], found["logs"], strict=True)]
    assert drops == pytest.approx([one.grounding.drop for one in expected.statements], rel=1e-6)


def test_the_copied_code_gives_the_same_numbers(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"passages": [{"text": FIRST, "name": "it's.txt"}, {"text": SECOND}]}
    asked: dict[str, Any] = names | {"by": "document", "method": "context_cite"}
    python = post(client, "code", **asked, methods=["leave_one_out", "random"], removed=[0])["python"]
    lines = stream(client, **asked, methods=["leave_one_out", "random"])
    monkeypatch.setattr(wherefrom, "load", lambda *_: Model(tiny()))
    printed, shown = list[str](), list[Any]()
    monkeypatch.setattr(Sources, "show", lambda self: shown.append(self))
    monkeypatch.setattr(SourcesComparison, "show", lambda self: shown.append(self))
    exec(python, {"print": lambda text: printed.append(text)})
    sources, compared = shown
    row = lines[1]["row"]
    assert row["names"] == ["it's.txt", "passage 2"]
    assert sources.method == row["method"] == "context_cite"
    for one, statement in zip(row["statements"], sources.statements, strict=True):
        assert one["scores"] == pytest.approx([source.score for source in statement.sources], rel=1e-6, abs=1e-9)
        assert one["verdict"] == (statement.test.verdict if statement.test else "")
    grades = {line["grade"]["method"]: line["grade"] for line in lines if "grade" in line}
    assert {one.method: one.top_1_drop for one in compared.grades} == pytest.approx(
        {name: grade["top_1_drop"] for name, grade in grades.items()}, rel=1e-6
    )
    assert [text.strip() for text in printed] == [post(client, "without", **asked, removed=[0])["answer"]]


def test_code_for_an_answer_that_was_generated_gives_no_answer(client: Client) -> None:
    python = post(client, "code", answer=None, tokens=64)["python"]
    assert "r = model.sources(question, context)\n" in python
    assert "compare_sources" not in python


def test_the_page_of_the_sources_is_saved(client: Client) -> None:
    (line,) = stream(client, "sources/page")
    assert "the plot is great." in line["html"]
    assert "<script src" not in line["html"]


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"passages": []}, "There is no passage: paste one, or drop a text file."),
        ({"passages": [{"text": " \n"}]}, "There is no passage"),
        ({"passages": [{"text": FIRST}, {"text": ""}]}, "passage 2 is empty."),
        ({"passages": [{"text": FIRST}, {"text": FIRST}]}, "passage 2 is the same as passage 1"),
        (
            {"passages": [{"text": FIRST, "name": "a"}, {"text": SECOND, "name": "a"}]},
            "Two passages are called a: give each a name of its own.",
        ),
        ({"question": " "}, "The question is empty."),
        ({"answer": " "}, "The answer is no text, or empty"),
        (
            {"passages": [{"text": "a. " * 150}, {"text": "it. " * 150}]},
            "sources would be cut, from passage",
        ),
    ],
)
def test_what_is_wrong_is_one_line(client: Client, question: dict[str, Any], said: str) -> None:
    lines = stream(client, **question)
    assert said in lines[-1]["error"]
    assert "\n" not in lines[-1]["error"]


@pytest.mark.parametrize(
    ("question", "status", "said"),
    [
        ({"passages": [{"text": "film " * 500}]}, 413, "have 2,549 characters; the explorer takes 2,000."),
        ({"method": "../x"}, 422, "The request was not understood: method"),
        ({"passages": "x"}, 422, "The request was not understood: passages"),
        ({"by": "word"}, 422, "The request was not understood: by"),
        ({"removed": [2]}, 400, "There are 2 passages; there is no number 3."),
        ({"tokens": 0}, 422, "tokens"),
    ],
)
def test_what_cannot_be_asked_is_refused(client: Client, question: dict[str, Any], status: int, said: str) -> None:
    assert said in post(client, "without", status=status, **question)["error"]


def test_only_a_causal_language_model_answers() -> None:
    with serving() as running, Client(running) as asking:
        assert asking.http.get("/api/state").json()["models"][0]["asked"] is None
        assert "Only a causal language model answers" in stream(asking)[-1]["error"]


def test_a_tokenizer_without_a_chat_template_says_so(client: Client) -> None:
    assert "no chat template" in stream(client)[0]["answer"]["notes"][0]
    with serving(make_chat_model()) as running, Client(running) as asking:
        short: dict[str, Any] = {"passages": [{"text": "the film was great. it was dull!"}], "answer": "great."}
        assert stream(asking, **short)[0]["answer"]["notes"] == []


def test_a_method_that_fails_costs_no_other(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise wherefrom.WherefromError("It cannot look into this model.")

    monkeypatch.setattr("wherefrom.sources.explain.token_scores", fails)
    lines = stream(client, answer="it was dull.", methods=["leave_one_out", "attn_lrp", "random"])
    assert [line for line in lines if "failed" in line] == [
        {"failed": "attn_lrp", "why": "It cannot look into this model."}
    ]
    assert [line["grade"]["method"] for line in lines if "grade" in line] == ["leave_one_out", "random"]


def test_a_closed_stream_stops_the_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page closes the stream to stop: no pass may follow, even in the middle of a method."""
    with serving(tiny()) as running, Client(running) as asking:
        service = running.shelf.service(0)
        entered, ended, passed = threading.Event(), threading.Event(), list[object]()

        def many(case: SourceCase) -> None:
            entered.set()
            stopped = service.network.current.stopped
            assert stopped is not None
            assert stopped.wait(LONG)
            try:
                passed.append(case.removals.of_prompts([case.removals.whole.encoding]))
            finally:
                ended.set()

        monkeypatch.setitem(REMOVING, "kernel_shap", many)
        with asking.http.stream("POST", "/api/sources", json=ASKED | {"methods": ["kernel_shap"]}) as answer:
            lines = answer.iter_lines()
            next(lines)
            assert entered.wait(LONG)
        assert ended.wait(LONG)
        assert passed == []
        assert post(asking, "without", removed=[0])["answer"]  # and the server answers others


def test_numbers_are_finite(client: Client) -> None:
    for line in stream(client, methods=METHODS):
        for number in _numbers(line):
            assert math.isfinite(number)


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _numbers(part)
