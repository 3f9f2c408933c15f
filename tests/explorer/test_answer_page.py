"""The tab "Answer" in a real browser: statements are clicked, passages unticked, files dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from explorer.browser import NEEDS_BROWSER, chromium, opened, until
from explorer.serving import Client, serving
from explorer.test_sources import ANSWER, FIRST, METHODS, QUESTION, SECOND, post, stream, tiny
from wherefrom.explorer.serve import ExplorerServer

pytestmark = NEEDS_BROWSER


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


def address(server: ExplorerServer, passages: list[tuple[str | None, str]] | None = None, **more: str) -> str:
    rows = [(None, FIRST), (None, SECOND)] if passages is None else passages
    parts = {"w": "answer", "q": QUESTION, "c": json.dumps(rows), "a": ANSWER} | more
    return f"{server.address}#t=the%20film&{'&'.join(f'{key}={quote(value)}' for key, value in parts.items())}"


def shows(page: Any, selector: str, text: str) -> None:
    """Until an element shows the text."""
    found = "([where, what]) => [...document.querySelectorAll(where)].some(one => one.textContent.includes(what))"
    until(page, found, [selector, text])


def complete(page: Any) -> None:
    until(page, "() => document.querySelectorAll('#source-methods [data-row] td').length === 6 * 7")
    until(page, "() => document.querySelector('#answer-progress').textContent === ''")


def test_a_statement_is_chosen_and_its_sources_light_up(browser: Any, server: ExplorerServer, client: Client) -> None:
    rows = {line["row"]["method"]: line["row"] for line in stream(client, tokens=64) if "row" in line}
    with opened(browser, address(server)) as page:
        complete(page)
        assert page.get_attribute("#choose-answer", "aria-selected") == "true"
        for number in (1, 0):
            page.click(f"[data-statement='{number}']")
            expected = rows["leave_one_out"]["statements"][number]
            assert page.get_attribute(f"[data-statement='{number}']", "aria-pressed") == "true"
            shows(page, "#found .told", expected["grounding"])
            badge = "✓ grounded" if expected["grounded"] else "✗ not from the passages"
            assert page.locator("#found .badge").first.inner_text() == badge
            lit = {place: strength for place, (_, strength) in enumerate(expected["shades"]) if float(strength) >= 0.05}
            shown = page.eval_on_selector_all(
                "#documents .c.for, #documents .c.against",
                "all => all.map(one => [Number(one.dataset.source), one.style.getPropertyValue('--s')])",
            )
            assert dict(shown) == lit
            cells = page.eval_on_selector_all(
                "#found tbody tr", "all => all.map(one => [...one.children].map(cell => cell.textContent))"
            )
            names = rows["leave_one_out"]["names"]
            drops = [f"{expected['drops'][place]:.1f}".replace("-", "−") for place in expected["top"]]
            assert [[row[0], row[2]] for row in cells] == [
                [names[place], drop] for place, drop in zip(expected["top"], drops, strict=True)
            ]
        page.focus("[data-statement='0']")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.dataset.statement") == "1"
        assert "i=1" in page.url


def test_a_passage_is_unticked(browser: Any, server: ExplorerServer, client: Client) -> None:
    expected = post(client, "without", removed=[1], tokens=64)
    with opened(browser, address(server)) as page:
        complete(page)
        page.uncheck("[data-passage='1']")
        shows(page, "#without", f"Without passage 2 the model answers: {expected['answer']}")
        drop = expected["whole"][0] - expected["logs"][0]
        shows(page, "#without", f"{'falls' if drop >= 0 else 'rises'} by {abs(drop):.1f}")
        assert page.evaluate("document.activeElement.dataset.passage") == "1"
        where = page.url
        page.check("[data-passage='1']")
        until(page, "() => document.querySelector('#without') === null")
    with opened(browser, where) as page:  # somebody who was sent the address sees the same
        shows(page, "#without", f"Without passage 2 the model answers: {expected['answer']}")


def test_methods_are_chosen_and_their_code_is_copied(browser: Any, server: ExplorerServer, client: Client) -> None:
    with opened(browser, address(server)) as page:
        complete(page)
        page.click("[data-method='attn_lrp']")
        shows(page, "#found .told", "Sources by attn_lrp.")
        page.click("#copy-python")
        expected = post(client, "code", tokens=64, method="attn_lrp", methods=METHODS)["python"]
        shows(page, "#code", "model.sources(")
        assert page.text_content("#code") == expected
        assert page.is_hidden("#copy-command")
        with page.expect_download() as download:
            page.click("#save-page")
        assert "Wherefrom" in download.value.path().read_text(encoding="utf-8")


def test_a_slow_method_is_stopped(browser: Any, server: ExplorerServer) -> None:
    service = server.shelf.service(0)
    with opened(browser, f"{server.address}#t=the%20film") as page:
        page.click("#choose-answer")
        page.fill("#question", "is the film very good?")
        with service.network.turns.turn(click=True):  # nobody else gets a pass, so that nothing can be ready before
            page.click("#answer")
            page.wait_for_selector("#answer-progress .spin")
            page.click("#stop-answer")
            shows(page, "#answer-progress", "Stopped.")
        assert page.is_hidden("#stop-answer")
        page.fill("#given-answer", "a fine film.")
        page.click("#answer")
        complete(page)


def test_files_are_dropped_and_removed(browser: Any, server: ExplorerServer) -> None:
    with opened(browser, f"{server.address}#t=the%20film") as page:
        page.click("#choose-answer")
        page.set_input_files(
            "#files",
            [
                {"name": name, "mimeType": "text/plain", "buffer": text.encode()}
                for name, text in (("a.txt", FIRST), ("a.txt", SECOND))
            ],
        )
        shows(page, ".passage-row .name", "a.txt (2)")
        for name in ("library", "town"):
            page.click(f"[aria-label='Remove {name}']")
        names = page.eval_on_selector_all(".passage-row .name", "all => all.map(one => one.textContent)")
        assert names == ["a.txt", "a.txt (2)"]
        page.set_input_files("#files", [{"name": "x.bin", "mimeType": "text/plain", "buffer": b"\xff\xfe\x00"}])
        shows(page, "#answer-error", "x.bin is not text in UTF-8.")
        data = page.evaluate_handle(
            """() => { const data = new DataTransfer();
            data.items.add(new File(["it was dull!"], "dropped.txt", { type: "text/plain" })); return data; }"""
        )
        page.dispatch_event("#asking", "drop", {"dataTransfer": data})
        shows(page, ".passage-row .name", "dropped.txt")
        page.fill("#question", QUESTION)
        page.fill("#given-answer", ANSWER)
        page.click("#answer")
        complete(page)
        shows(page, "#documents summary", "dropped.txt")


@pytest.mark.parametrize(
    ("passages", "more", "said"),
    [
        ([], {}, "There is no passage: paste one, or drop a text file."),
        ([(None, FIRST), (None, "")], {}, "passage 2 is empty."),
        ([(None, FIRST), (None, FIRST)], {}, "passage 2 is the same as passage 1"),
        ([(None, "the plot. " * 200)], {}, "sources would be cut, from passage 1"),
        ([(None, FIRST)], {"q": " "}, "The question is empty."),
    ],
)
def test_what_is_wrong_is_one_line_on_the_page(
    browser: Any, server: ExplorerServer, passages: Any, more: dict[str, str], said: str
) -> None:
    with opened(browser, address(server, passages, **more)) as page:
        shows(page, "#answer-error", said)
        assert page.is_visible("#answer-error")
        assert page.is_hidden("#answered")
        assert page.inner_text("#answer-progress") == ""


HOSTILE = (
    "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script> the \u202efilm\u202c was bad. \x07 fine."
)


def test_hostile_texts_are_only_text_and_nothing_sticks_out(browser: Any, server: ExplorerServer) -> None:
    name = "<b onmouseover='window.hacked=1'>" + "n" * 150
    passages: list[tuple[str | None, str]] = [(name, HOSTILE), (None, "w" * 100 + " was dull. it was good.")]
    where = address(server, passages, q=HOSTILE, a=HOSTILE, o="1")
    with opened(browser, where, width=375, dark=True) as page:
        complete(page)
        page.locator("#without q").wait_for()
        assert page.evaluate("window.hacked") is None
        assert page.locator("main img, main script, #answer-tab b:not(#without b)").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        shown = page.inner_text("#answered")
        assert name in shown
        assert "\u202e" not in shown
        assert "\x07" not in shown


@pytest.mark.parametrize("width", [1100, 375])
def test_nothing_sticks_out(browser: Any, server: ExplorerServer, width: int) -> None:
    with opened(browser, address(server), width=width) as page:
        complete(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.focus("#choose-answer")
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector("#words .w")
        assert page.is_hidden("#answer-tab")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_other_models_have_no_such_tab(browser: Any) -> None:
    with serving() as running, opened(browser, f"{running.address}#t=the%20film&w=answer&q=x&c=%5B%5D") as page:
        assert page.is_hidden("#tabs")
        assert page.is_hidden("#answer-tab")
        page.wait_for_selector(".row .badge")


@pytest.mark.parametrize("broken", ["c={", "c=%5B1,null,%5B2%5D%5D", "c=7", "o=99.x&i=77&g=nothing&d=page"])
def test_addresses_that_somebody_wrote_are_read_with_care(browser: Any, server: ExplorerServer, broken: str) -> None:
    with opened(browser, f"{server.address}#t=the%20film&w=answer&q=is%20it%20good%3F&{broken}") as page:
        shows(page, "#answer-error", "There is no passage")
