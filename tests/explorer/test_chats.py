"""Chats in the explorer, as its page asks: against `Model.explain`, `Model.predict` and plain generation."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch
from tiny_models import make_chat_model
from typer.testing import CliRunner

import wherefrom
from explorer.serving import Client, serving
from wherefrom.api import Model
from wherefrom.core.comparison import Comparison
from wherefrom.explorer.serve import ExplorerServer
from wherefrom.model.text_model import TextModel

CHAT = [
    {"role": "system", "content": "it is not bad. the plot is fine!"},
    {"role": "user", "content": "the film was dull, but the acting was"},
]
SAID = ["it is not bad. the plot is fine!", "the film was dull, but the acting was"]
ASKED: dict[str, Any] = {"text": "", "messages": CHAT}


@cache
def tiny() -> TextModel:
    return make_chat_model()


@pytest.fixture(scope="module")
def server() -> Iterator[ExplorerServer]:
    with serving(tiny()) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: ExplorerServer) -> Iterator[Client]:
    with Client(server) as asking:
        yield asking


@pytest.mark.parametrize("level", ["token", "word", "sentence", "turn"])
def test_turns_are_shown_with_their_roles_and_the_template_is_not(client: Client, level: str) -> None:
    text = client.ask("read", **ASKED, level=level)["text"]
    assert text["roles"] == ["system", "user"]
    assert ["".join(run[0] for run in line) for line in text["lines"]] == SAID
    if level == "turn":
        assert text["units"] == SAID


@pytest.mark.parametrize("level", ["token", "word", "sentence", "turn"])
def test_rows_are_what_the_library_gives(client: Client, level: Any) -> None:
    methods = ["attn_lrp", "occlusion", "random"]
    lines = client.stream("explain", **ASKED, level=level, methods=methods)
    rows = {line["row"]["asked"]: line["row"] for line in lines if "row" in line}
    for method in methods:
        expected = Model(tiny()).explain(CHAT, method, level=level)
        ranked = [unit.score for unit in expected.units()]
        assert rows[method]["scores"] == pytest.approx(ranked, rel=1e-6, abs=1e-9)


def test_a_hidden_word_is_hidden(client: Client) -> None:
    whole = client.ask("read", **ASKED)
    place = whole["text"]["units"].index("dull")
    found = client.ask("hide", **ASKED, hidden=[place])
    expected = Model(tiny()).predict(CHAT, without=["dull"])
    assert found["probability"] == pytest.approx(expected.probability, rel=1e-6)
    assert found["target"] == expected.target


def test_words_of_a_chat_are_not_replaced(client: Client) -> None:
    assert "change the message" in client.ask("hide", **ASKED, replaced={"1": "good"}, status=400)["error"]


def test_the_answer_is_generated_and_each_token_explained_where_it_was_decided(client: Client) -> None:
    tokens = [line["token"] for line in client.stream("generate", **ASKED, count=4) if "token" in line]
    model = Model(tiny())
    generation = model.generate_and_explain(CHAT, "saliency", tokens=4)
    assert [token["id"] for token in tokens] == list(generation.token_ids[: len(tokens)])
    assert tokens[0]["exact"]
    found = client.ask("read", **ASKED, target=tokens[0]["id"])
    assert found["probability"] == pytest.approx(tokens[0]["probability"], rel=1e-6)
    assert tokens[1]["before"] == tokens[0]["text"]


def test_the_answer_so_far_is_a_turn_that_the_model_reads(client: Client) -> None:
    found = client.ask("read", **ASKED, begun=" great, and it", target="was")
    assert found["text"]["roles"] == ["system", "user", "assistant"]
    assert "".join(run[0] for run in found["text"]["lines"][-1]) == " great, and it"
    words, network = tiny().reading.tokenizer, tiny().network.module
    template = "".join(f"the {one['role']} is : {one['content']} . " for one in CHAT) + "the film is great, and it"
    with torch.no_grad():
        logits = network(torch.tensor([words(template, add_special_tokens=False)["input_ids"]])).logits[0, -1]
    expected = logits.softmax(-1)[words.convert_tokens_to_ids("was")]
    assert found["probability"] == pytest.approx(float(expected), rel=1e-6)


def test_the_copied_code_gives_the_same_numbers(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    place = client.ask("read", **ASKED)["text"]["units"].index("dull")
    code = client.ask("code", **ASKED, methods=["attn_lrp", "random"], hidden=[place])
    monkeypatch.setattr(wherefrom, "load", lambda *_: Model(tiny()))
    printed, shown = list[Any](), list[Comparison]()
    monkeypatch.setattr(Comparison, "show", lambda self: shown.append(self))
    exec(code["python"], {"print": printed.append})
    lines = client.stream("explain", **ASKED, methods=["attn_lrp", "random"])
    rows = [line["row"] for line in lines if "row" in line]
    for row, explanation in zip(rows, shown[0].explanations, strict=True):
        assert row["scores"] == pytest.approx([unit.score for unit in explanation.units()], rel=1e-6, abs=1e-9)
    assert printed[0].probability == pytest.approx(client.ask("hide", **ASKED, hidden=[place])["probability"])


def test_the_copied_command_reads_the_chat(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from wherefrom.cli.main import app

    words = shlex.split(client.ask("code", **ASKED, methods=["random"], level="turn")["command"])
    monkeypatch.setattr("wherefrom.cli.arguments.load", lambda *_, **__: Model(tiny()))
    result = CliRunner().invoke(app, words[1:])
    assert result.exit_code == 0, result.output
    assert "by turn" in result.output


def test_code_within_an_answer_is_refused_in_words(client: Client) -> None:
    refused = client.ask("code", **ASKED, begun=" the film", methods=["random"], status=400)
    assert "Model.generate_and_explain" in refused["error"]


@pytest.mark.parametrize(
    ("question", "status", "said"),
    [
        ({"messages": []}, 400, "a chat is a list of messages"),
        ({"messages": [{"role": "user", "content": " "}]}, 400, "nothing to read in what is said"),
        ({"messages": [{"role": "user"}]}, 422, "messages.0.content"),
        ({"messages": [{"role": "user", "content": "x", "tool": 1}]}, 422, "messages.0.tool"),
        ({"messages": [{"role": "user", "content": "film " * 60}]}, 400, "The chat has"),
        ({"messages": None, "text": "the film", "level": "turn"}, 400, "The level turn is for the messages of a chat"),
        ({"messages": [{"role": "user", "content": "x" * 10_001}]}, 413, "characters; the explorer takes 10,000"),
    ],
)
def test_what_is_wrong_is_said(client: Client, question: dict[str, Any], status: int, said: str) -> None:
    assert said in client.ask("read", **(ASKED | question), status=status)["error"]


def test_a_model_without_a_chat_template_says_so() -> None:
    with serving() as running, Client(running) as asking:
        assert asking.http.get("/api/state").json()["models"][0]["chats"] is False
        assert "Only a causal language model reads" in asking.ask("read", **ASKED, status=400)["error"]
