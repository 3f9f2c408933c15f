"""Chats in a real browser: messages are written, words hidden, and a token of the answer is explained."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from tiny_models import make_network

from explorer.browser import NEEDS_BROWSER, chromium, opened, until
from explorer.serving import Client, serving
from explorer.test_answer_page import shows
from explorer.test_chats import ASKED, CHAT, SAID, tiny
from wherefrom.explorer.serve import ExplorerServer
from wherefrom.model.text_model import TextModel

pytestmark = NEEDS_BROWSER
METHODS = ["attn_lrp", "occlusion", "random"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def server() -> Iterator[ExplorerServer]:
    with serving(tiny()) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: ExplorerServer) -> Iterator[Client]:
    with Client(server) as asking:
        yield asking


def address(server: ExplorerServer, chat: list[dict[str, str]], **more: str) -> str:
    rows = json.dumps([[message["role"], message["content"]] for message in chat])
    parts = {"t": "the film", "m": ",".join(METHODS), "j": rows} | more
    return f"{server.address}#{'&'.join(f'{key}={quote(value)}' for key, value in parts.items())}"


def explained(page: Any) -> None:
    until(page, "() => document.querySelectorAll('.row .badge').length === 3")
    until(page, "() => document.querySelector('.best').textContent !== ''")


def test_messages_are_written_and_explained_by_turn(browser: Any, server: ExplorerServer, client: Client) -> None:
    with opened(browser, f"{server.address}#t=the%20film&m={','.join(METHODS)}") as page:
        page.click("#as-chat")
        page.select_option("[aria-label='Role of message 1']", "system")
        page.fill("[aria-label='Message 1']", SAID[0])
        page.click("#add-message")
        page.select_option("[aria-label='Role of message 2']", "user")
        page.fill("[aria-label='Message 2']", SAID[1])
        page.check("#level input[value=turn]", force=True)
        until(page, "text => document.querySelectorAll('#words .w')[1]?.textContent === text", SAID[1])
        assert page.eval_on_selector_all("#words .role", "all => all.map(one => one.textContent)") == ["system", "user"]
        explained(page)
        lines = client.stream("explain", **ASKED, level="turn", methods=METHODS)
        row = next(line["row"] for line in lines if line.get("row", {}).get("asked") == "attn_lrp")
        shown = page.eval_on_selector_all(".row[data-method=attn_lrp] .c", "all => all.map(one => one.dataset.tip)")
        assert [tip.rpartition("  ")[0] for tip in shown] == SAID
        assert len(row["scores"]) == 2
        page.click("#as-chat")
        until(page, "text => document.querySelector('#text').value === text", SAID[1])
        assert page.locator("#level input[value=turn]").count() == 0
        until(page, "() => document.querySelectorAll('#words .role').length === 0")


def test_a_token_of_the_answer_is_explained(browser: Any, server: ExplorerServer, client: Client) -> None:
    tokens = [line["token"] for line in client.stream("generate", **ASKED, count=3) if "token" in line]
    with opened(browser, address(server, CHAT)) as page:
        explained(page)
        page.fill("#generate-count", "3")
        page.click("#generate")
        until(page, f"() => document.querySelectorAll('#generated .w').length === {len(tokens)}")
        page.locator("#generated .w").last.click()
        until(page, "text => document.querySelector('#begun')?.textContent === text", tokens[-1]["before"])
        shows(page, "#words .role", "assistant")
        explained(page)
        where = page.url
    with opened(browser, where) as page:
        assert page.text_content("#begun") == tokens[-1]["before"]
        page.click("[aria-label='Remove the answer so far']")
        until(page, "() => document.querySelectorAll('#words .role').length === 2")


def test_hostile_messages_are_only_text(browser: Any) -> None:
    hostile = "<img src=x onerror='window.hacked=1'> the \u202efilm\u202c " + "w" * 60
    chat = [{"role": "<b>user</b>", "content": hostile}]
    network = make_network("llama", task="causal_lm", max_position_embeddings=256)
    longer = TextModel.of(network, tiny().reading.tokenizer, task=tiny().task)
    with serving(longer) as running, opened(browser, address(running, chat), width=375, dark=True) as page:
        shows(page, "#words", "onerror")
        explained(page)
        assert page.evaluate("window.hacked") is None
        assert page.locator("main img, .role b, #words b").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        assert "\u202e" not in page.inner_text("#words")


def test_an_empty_message_is_said_in_place(browser: Any, server: ExplorerServer) -> None:
    with opened(browser, address(server, CHAT)) as page:
        page.fill("[aria-label='Message 1']", " ")
        page.fill("[aria-label='Message 2']", " ")
        shows(page, "#text-error", "nothing to read in what is said")
