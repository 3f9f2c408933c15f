"""The page in a real browser: it is clicked, typed into and read."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from audit.made import made
from tiny_models import make_model, make_network, tokenizer
from toys import additive_regression

import wherefrom
from explorer.browser import LIMIT, NEEDS_BROWSER, chromium, opened, until
from explorer.serving import TEXT, Client, serving
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run
from wherefrom.cli.serve import split_sources
from wherefrom.explorer.limits import Limits
from wherefrom.explorer.serve import ExplorerServer
from wherefrom.model.text_model import TextModel
from wherefrom.samples import sample_path

pytestmark = NEEDS_BROWSER
METHODS = "attcat,occlusion,random"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def server() -> Iterator[ExplorerServer]:
    with serving(make_model("bert"), limits=Limits(characters=600)) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: ExplorerServer) -> Iterator[Client]:
    with Client(server) as asking:
        yield asking


def address(server: ExplorerServer, text: str = TEXT, **more: str) -> str:
    given = {"t": text, "m": METHODS} | more
    return f"{server.address}#{'&'.join(f'{key}={quote(value)}' for key, value in given.items())}"


@pytest.fixture
def page(browser: Any, server: ExplorerServer) -> Iterator[Any]:
    with opened(browser, address(server)) as shown:
        yield shown


def percent(chance: float) -> str:
    if 0.9995 <= chance < 1:
        return ">99.9%"
    return "<0.1%" if 0 < chance < 0.0005 else f"{chance:.1%}"


def wait_for(page: Any, selector: str, text: str) -> None:
    """Until an element shows the text."""
    found = "([where, what]) => [...document.querySelectorAll(where)].some(one => one.textContent.includes(what))"
    until(page, found, [selector, text])


def word(page: Any, place: int) -> Any:
    return page.locator(f"#words .w[data-unit='{place}']")


def explained(page: Any) -> None:
    """Until every row and the verdict are there."""
    until(page, "() => document.querySelector('.best').textContent !== ''")
    until(page, "() => document.querySelectorAll('.row .badge').length >= 3")


# 1. The text


def test_a_text_is_typed_and_its_prediction_comes_at_once(page: Any, client: Client) -> None:
    page.fill("#text", "the plot was dull")
    found = client.ask("read", text="the plot was dull")
    wait_for(page, "#chance", percent(found["probability"]))
    assert page.inner_text("#target") == found["target"]
    shown = page.eval_on_selector_all(
        ".class", "all => all.map(one => [one.children[0].textContent, one.children[2].textContent])"
    )
    assert shown == [[label, percent(chance)] for label, chance in found["probabilities"]]
    assert [word(page, place).inner_text() for place in range(4)] == ["the", "plot", "was", "dull"]


def test_examples_and_history(page: Any, server: ExplorerServer) -> None:
    example = server.shelf.models[0].facts["examples"][1]["text"]
    page.select_option("#examples", "1")
    until(page, "text => document.querySelector('#text').value === text", example)
    remembered = "start => [...document.querySelectorAll('#history option')].some(one => one.text.startsWith(start))"
    until(page, remembered, example[:20])  # a text is remembered when it has rested for a moment
    page.fill("#text", "the acting was fine")
    wait_for(page, "#history option", "the acting was fine")
    kept = page.eval_on_selector_all("#history option", "all => all.map(one => one.textContent)")
    (label,) = [one for one in kept if one.startswith(example[:20])]
    page.select_option("#history", label=label)
    until(page, "text => document.querySelector('#text').value === text", example)


def test_a_pair_of_texts(page: Any, client: Client) -> None:
    page.click("#add-pair")
    page.fill("#pair", "it was good")
    found = client.ask("read", pair="it was good")
    wait_for(page, "#chance", percent(found["probability"]))
    assert page.locator("#words p").count() == 2
    page.click("#add-pair")
    wait_for(page, "#chance", percent(client.ask("read")["probability"]))


@pytest.mark.parametrize(
    ("text", "said"),
    [("   ", "There is no text to explain"), ("film " * 200, "The text has 1,000 characters; the explorer takes 600")],
)
def test_what_is_wrong_with_a_text_is_said_in_place(page: Any, text: str, said: str) -> None:
    page.fill("#text", text)
    wait_for(page, "#text-error", said)
    assert page.is_visible("#text-error")
    page.fill("#text", "the film was fine")
    page.wait_for_selector("#text-error", state="hidden")
    page.wait_for_selector("#words .w[data-unit='3']")


def test_a_text_that_is_too_long_for_the_model_says_what_was_cut(page: Any) -> None:
    page.fill("#text", "film " * 100)
    wait_for(page, "#text-note", "The model reads 64 tokens: the last 38 were cut")
    assert page.locator("#words .unread").count() == 1


HOSTILE = [
    "<script>window.hacked = 1</script> the film",
    '"><img src=x onerror="window.hacked=1"> was bad',
    "the \u202egood\u202c film \x07 was fine",
    "the \U0001f600 film & <b>plot</b> was",
    "w" * 300,
    "the film\n\nwas\tnot bad",
]


def test_hostile_texts_are_only_text(browser: Any, server: ExplorerServer) -> None:
    with opened(browser, address(server, m="attcat"), width=375) as page:
        for text in HOSTILE:
            page.fill("#text", text)
            until(page, "text => document.querySelector('#words').textContent.includes(text)", text.split()[-1])
            page.wait_for_selector(".row[data-method=attcat] .badge")
            word(page, 0).click()
            wait_for(page, "#change", "points")
            assert page.evaluate("window.hacked") is None
            assert page.locator("main img, #words b, .text b, #words script").count() == 0
            assert page.evaluate("document.documentElement.scrollWidth") <= 375
            shown = page.inner_text("#words") + page.inner_text(".row .text")
            assert "\u202e" not in shown
            assert "\x07" not in shown


# 2. Hide and try


def test_a_click_hides_a_word_and_the_probability_follows(page: Any, client: Client) -> None:
    explained(page)
    found = client.ask("hide", hidden=[4])
    word(page, 4).click()
    wait_for(page, "#chance", percent(found["probability"]))
    assert word(page, 4).get_attribute("aria-pressed") == "true"
    difference = 100 * (found["probability"] - found["whole"])
    said = page.inner_text("#change")
    assert f"{abs(difference):.1f} points without “bad”" in said
    (row,) = [line["row"] for line in client.stream("explain", methods=["occlusion"]) if "row" in line]
    page.wait_for_selector("[data-claim=occlusion]")
    claim = page.inner_text("[data-claim=occlusion]").replace("−", "-")
    assert float(re.search(r"score ([-+\d.e]+)", claim)[1]) == pytest.approx(row["scores"][4], rel=0.02, abs=0.006)  # type: ignore[index]
    assert page.get_attribute("#chance", "aria-live") == "polite"


def test_a_span_undo_and_reset(page: Any, client: Client) -> None:
    word(page, 3).click()
    word(page, 6).click(modifiers=["Shift"])
    wait_for(page, "#chance", percent(client.ask("hide", hidden=[3, 4, 5, 6])["probability"]))
    page.click("#undo")
    wait_for(page, "#chance", percent(client.ask("hide", hidden=[3])["probability"]))
    word(page, 0).click()
    wait_for(page, "#change", "“the”, “not”")
    page.click("#reset")
    wait_for(page, "#chance", percent(client.ask("read")["probability"]))
    assert page.locator("#words .w[aria-pressed=true]").count() == 0


def test_a_double_click_replaces_a_word(page: Any, client: Client) -> None:
    word(page, 4).dblclick()
    page.fill("#words input", "great")
    page.keyboard.press("Enter")
    wait_for(page, "#change", "with “great” for “bad”")
    wait_for(page, "#chance", percent(client.ask("hide", replaced={"4": "great"})["probability"]))
    page.click("#undo")
    wait_for(page, "#chance", percent(client.ask("read")["probability"]))


def test_what_stands_where_a_word_was(page: Any, client: Client) -> None:
    word(page, 10).click()
    for fill in ("mask", "unk", "pad", "delete"):
        page.select_option("#fill", fill)
        found = client.ask("hide", hidden=[10], fill=fill)
        wait_for(page, "#change", percent(found["probability"]))


def test_everything_can_be_done_by_keys(page: Any, client: Client) -> None:
    word(page, 0).focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    wait_for(page, "#change", "“bad”")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+Enter")
    wait_for(page, "#chance", percent(client.ask("hide", hidden=[4, 5, 6])["probability"]))
    page.keyboard.press("F2")
    page.keyboard.type("great")
    page.keyboard.press("Enter")
    wait_for(page, "#change", "with “great”")
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    wait_for(page, "#chance", percent(client.ask("hide", hidden=[4])["probability"]))
    controls = "button, select, input, textarea, summary"
    assert page.evaluate(f"[...document.querySelectorAll('{controls}')].every(one => one.tabIndex >= 0)")


# 3. Methods side by side


def test_rows_have_highlights_numbers_tests_and_costs(page: Any, client: Client) -> None:
    explained(page)
    rows = {
        line["row"]["asked"]: line["row"]
        for line in client.stream("explain", methods=METHODS.split(","))
        if "row" in line
    }
    for asked, row in rows.items():
        shown = page.locator(f".row[data-method='{asked}']")
        assert row["verdict"] in shown.locator(".badge").inner_text()
        assert "forward" in shown.locator(".cost").inner_text()
        strongest = max(range(len(row["scores"])), key=lambda place: abs(row["scores"][place]))
        coloured = shown.locator(f".c[data-unit='{strongest}']")
        side = "against" if row["scores"][strongest] < 0 else "for"
        assert side in coloured.get_attribute("class").split()
        assert ("underline" in coloured.evaluate("one => getComputedStyle(one).textDecorationLine")) == (
            side == "against"
        )
        assert coloured.locator("rt").inner_text().replace("−", "-").lstrip("+-") != ""


def test_methods_are_added_with_options_and_removed(page: Any) -> None:
    explained(page)
    page.select_option("#add-method", "alti")
    page.wait_for_selector(".row[data-method='alti'] .badge")
    page.click("button[aria-label='Options of alti']")
    page.select_option(".options [data-option=norm]", "l2")
    page.click(".options button")
    page.wait_for_selector(".row[data-method='alti:norm=l2'] .badge")
    page.click("button[aria-label='Remove random']")
    page.wait_for_selector(".row[data-method='random']", state="detached")
    assert "alti:norm=l2" in page.evaluate("decodeURIComponent(location.hash)")


def test_the_target_changes_and_all_rows_follow(page: Any, client: Client) -> None:
    explained(page)
    page.locator(".class", has_text="LABEL_0").click()
    found = client.ask("read", target="LABEL_0")
    wait_for(page, "#chance", percent(found["probability"]))
    explained(page)
    wait_for(page, ".legend", "for LABEL_0")
    page.select_option("#versus-pick", "LABEL_1")
    rather = client.ask("read", target="LABEL_0", versus="LABEL_1")
    wait_for(page, "#target", "LABEL_0 rather than LABEL_1")
    wait_for(page, "#chance", percent(rather["probability"]))
    explained(page)
    wait_for(page, ".legend", "for LABEL_0 rather than LABEL_1")


@pytest.mark.parametrize("width", [1100, 375])
def test_the_prediction_is_apart_from_what_is_explained(
    browser: Any, server: ExplorerServer, client: Client, width: int
) -> None:
    read = client.ask("read")
    other = next(label for label in server.shelf.models[0].facts["labels"] if label != read["prediction"])
    with opened(browser, address(server), width=width) as page:
        page.locator(".class", has_text=other).click()
        wait_for(page, "#target", other)
        assert page.inner_text("#decision-name") == "Model predicts"
        assert page.inner_text("#prediction") == read["prediction"]
        assert page.inner_text("#prediction-chance") == percent(read["predicted"])
        assert page.inner_text(".explaining").startswith(
            f"Explaining\n{other}\n{percent(dict(read['probabilities'])[other])}"
        )
        page.fill("#text", "the plot was fine")  # another text: what it predicts is explained again
        wait_for(page, "#target", client.ask("read", text="the plot was fine")["prediction"])
        assert page.locator("#pin-field").is_hidden()
        page.select_option("#target-pick", other)
        wait_for(page, "#target", other)
        page.check("#pin")
        page.fill("#text", "the film was dull and very long")
        read = client.ask("read", text="the film was dull and very long", target=other)
        wait_for(page, "#chance", percent(read["probability"]))
        assert page.inner_text("#target") == other
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_scale_is_common_or_own(page: Any) -> None:
    explained(page)
    strengths = "all => all.map(one => Number(getComputedStyle(one).getPropertyValue('--s')))"
    own = page.eval_on_selector_all(".row[data-method=attcat] .c", strengths)
    page.locator("#scale label", has_text="common").click()
    common = page.eval_on_selector_all(".row[data-method=attcat] .c", strengths)
    assert max(common) < max(own)
    assert "s=common" in page.evaluate("location.hash")


def test_a_word_is_outlined_everywhere(page: Any) -> None:
    explained(page)
    word(page, 4).hover()
    until(page, "() => document.querySelectorAll('.lit').length === 4")
    assert set(page.eval_on_selector_all(".lit", "all => all.map(one => one.dataset.unit)")) == {"4"}


def test_a_slow_method_can_be_stopped(page: Any, server: ExplorerServer) -> None:
    explained(page)
    service = server.shelf.service(0)
    with service.network.turns.turn(click=True):  # nobody else gets a pass, so that the method cannot be ready before
        page.select_option("#add-method", "kernel_shap")
        page.wait_for_selector(".row[data-method=kernel_shap] .spin")
        page.click("#stop")
        wait_for(page, ".row[data-method=kernel_shap]", "stopped")
    assert page.is_hidden("#stop")


# 4. Hide top k


def test_the_slider_hides_a_methods_words_in_its_order(page: Any, client: Client) -> None:
    explained(page)
    row = page.locator(".row[data-method=attcat]")
    row.locator(".hide-top summary").click()
    row.locator(".band").wait_for()
    curve = client.stream("curve", method="attcat")[0]["curve"]
    slider = row.locator("input[type=range]")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    wait_for(page, ".topk output", "Without its top 2")
    said = row.locator("output").inner_text()
    assert percent(curve["values"][2]) in said
    assert "Random orders:" in said
    gone = row.locator(".gone").evaluate_all("all => all.map(one => Number(one.dataset.unit))")
    assert sorted(gone) == sorted(curve["order"][:2])


# 5. The verdict


def test_the_verdict_is_in_words(page: Any, client: Client) -> None:
    explained(page)
    lines = client.stream("explain", methods=METHODS.split(","), best=True)
    assert page.inner_text(".verdict") == next(line["verdict"]["words"] for line in lines if "verdict" in line)
    best = next(line["best"] for line in lines if "best" in line)
    assert page.inner_text(".best") == best["words"]
    page.locator(".chip", has_text="attcat").get_by_label("Remove attcat").click()
    wait_for(page, ".best", "Add a second method")  # nothing is said of a method that is not shown


# 10. Keeping and sharing


def test_every_state_has_an_address(browser: Any, server: ExplorerServer, page: Any) -> None:
    explained(page)
    page.click("#add-pair")
    page.fill("#pair", "it was good & fine?")
    wait_for(page, "#words p:nth-child(2)", "good")
    page.select_option("#target-pick", "LABEL_2")
    wait_for(page, "#target", "LABEL_2")
    word(page, 4).click()
    word(page, 10).dblclick()
    page.fill("#words input", "great + 100%")
    page.keyboard.press("Enter")
    page.select_option("#fill", "mask")
    wait_for(page, "#change", "great + 100%")
    until(page, "() => !document.querySelector('#chance').classList.contains('stale')")
    before = [page.inner_text(one) for one in ("#target", "#chance", "#change", "#words")]
    with opened(browser, page.evaluate("location.href")) as other:
        wait_for(other, "#change", "great + 100%")
        until(other, "() => !document.querySelector('#chance').classList.contains('stale')")
        assert [other.inner_text(one) for one in ("#target", "#chance", "#change", "#words")] == before
        assert other.input_value("#text") == TEXT


def test_the_page_is_saved_and_code_is_copied(page: Any, client: Client, tmp_path: Path) -> None:
    explained(page)
    with page.expect_download(timeout=LIMIT) as saving:
        page.click("#save-page")
    saving.value.save_as(tmp_path / "saved.html")
    assert (tmp_path / "saved.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    page.click("#copy-python")
    wait_for(page, "#shared", "The Python is")
    question: dict[str, Any] = {"methods": METHODS.split(",")}
    assert page.inner_text("#code").strip() == client.ask("code", **question)["python"].strip()
    page.click("#copy-command")
    wait_for(page, "#shared", "The command is")
    assert page.inner_text("#code").strip() == client.ask("code", **question)["command"].strip()
    page.click("#copy-address")
    wait_for(page, "#shared", "The address is")


# The page itself


@pytest.mark.parametrize(("width", "dark"), [(375, True), (1100, False)], ids=["narrow and dark", "wide and light"])
def test_nothing_sticks_out(browser: Any, server: ExplorerServer, width: int, dark: bool) -> None:
    with opened(browser, address(server, h="4"), width=width, dark=dark) as page:
        explained(page)
        page.locator(".hide-top summary").first.click()
        page.locator(".band").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ground = page.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor")
        assert ground == ("rgb(22, 24, 29)" if dark else "rgb(255, 255, 255)")


def test_it_goes_on_when_the_server_comes_back(browser: Any) -> None:
    with serving(make_model("bert")) as first:
        port = first.port
        context = opened(browser, address(first))
        page = context.__enter__()
        explained(page)
    word(page, 4).click()
    page.wait_for_selector("#banner:not([hidden])")
    assert "The server does not answer" in page.inner_text("#banner")
    with serving(make_model("bert"), port=port) as second, Client(second) as asking:
        page.wait_for_selector("#banner", state="hidden")
        wait_for(page, "#chance", percent(asking.ask("hide", hidden=[4])["probability"]))
        wait_for(page, "#change", "“bad”")
        explained(page)
        context.__exit__(None, None, None)


def test_without_the_token_the_page_says_so(browser: Any) -> None:
    with serving(host="0.0.0.0") as running:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{running.port}/")
        page.wait_for_selector("#banner:not([hidden])", timeout=LIMIT)
        assert "lacks the token" in page.inner_text("#banner")
        page.goto(f"http://127.0.0.1:{running.port}/?token={running.token}")
        page.wait_for_selector("body[data-ready]", timeout=LIMIT)
        context.close()


@pytest.mark.parametrize("broken", ["t=the%20film&h=999.x.-1&r={&n=77&m=nothing&f=fire&l=page", "%5B1%5D", "h=1&m=,,"])
def test_addresses_that_somebody_wrote_are_read_with_care(browser: Any, server: ExplorerServer, broken: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{server.address}#{broken}")
    page.wait_for_selector("body[data-ready]", timeout=LIMIT)
    page.fill("#text", "the film was bad")
    wait_for(page, "#words .w[data-unit='3']", "bad")
    context.close()


def test_a_target_that_does_not_exist_is_said_in_place(browser: Any, server: ExplorerServer) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(address(server, x="NOBODY"))
    wait_for(page, "#text-error", "No label is called 'NOBODY'")
    context.close()


# 6. Inside


def test_inside_the_model(page: Any, client: Client) -> None:
    explained(page)
    page.locator("#inside-details summary").first.click()
    page.wait_for_selector("#flow-told")
    heads = client.stream("inside")[0]["heads"]
    assert page.locator(".tile").count() == 12
    wait_for(page, "#layered option", "attcat")  # its scores layer by layer
    assert page.locator("#inside .strip").first.locator("tbody tr").count() == 3
    page.click("[data-head='1.2']")
    assert "Layer 2, head 3" in page.inner_text(".head")
    assert f"{percent(heads['relevance'][1][2])} of the relevance" in page.inner_text(".head")
    page.click("#switch-head")
    found = client.ask("heads", off=[[1, 2]])
    wait_for(page, "#heads-change", f"→ {percent(found['probability'])}")
    page.click("#switch-head")
    until(page, "() => document.querySelector('#heads-change').textContent === ''")
    token = page.locator(".flow-tokens .token").nth(3)
    token.click()
    wait_for(page, "#flow-told", f"At the end “{heads['tokens'][3]}” contains most of")


# 7. Language models


def test_a_generated_token_is_explained(browser: Any) -> None:
    model = make_model("gpt2", task="causal_lm")
    with serving(model) as running, Client(running) as asking:
        lines = asking.stream("generate", text="the film was", count=3)
        where = f"{running.address}#t=the%20film%20was&m=attcat,occlusion,random"
        with opened(browser, where) as page:
            explained(page)
            page.fill("#generate-count", "3")
            page.click("#generate")
            tokens = page.locator("#generated .w")
            until(
                page,
                f"() => document.querySelectorAll('#generated .w').length === {sum('token' in one for one in lines)}",
            )
            tokens.first.click()
            first = lines[0]["token"]
            wait_for(page, "#chance", percent(first["probability"]))
            assert page.input_value("#text") == first["before"]
            explained(page)


# 8. Two models


def test_two_models_side_by_side(browser: Any) -> None:
    with (
        serving(make_model("bert"), make_model("bert", seed=1)) as running,
        Client(running) as asking,
        opened(browser, address(running)) as page,
    ):
        explained(page)
        page.check("#both")
        page.wait_for_selector("#second:not([hidden])")
        one, two = (asking.ask("hide", model=number, hidden=[4]) for number in (0, 1))
        word(page, 4).click()
        wait_for(page, "#chance", percent(one["probability"]))
        wait_for(page, "#second .chance", percent(two["probability"]))
        until(page, "() => document.querySelectorAll('.panel').length === 2")
        until(page, "() => document.querySelectorAll('.panel[data-model=\"1\"] .row .badge').length === 3")
        page.select_option("#model", "1")
        wait_for(page, "#chance", percent(asking.ask("read", model=1)["probability"]))


def test_a_language_model_that_is_chosen_second_generates(browser: Any) -> None:
    """And it is not offered beside a classifier, which answers another question."""
    models = make_model("bert"), make_model("gpt2", task="causal_lm"), make_model("bert", seed=1)
    with serving(*models) as running, opened(browser, address(running)) as page:
        assert page.locator("#generation").is_hidden()
        page.check("#both")
        until(page, "() => [...document.querySelectorAll('.panel')].map(one => one.dataset.model).join() === '0,2'")
        page.select_option("#model", "1")
        page.wait_for_selector("#generate")
        assert page.locator("#both").count() == 0
        assert page.input_value("#text") == running.shelf.models[1].facts["examples"][0]["text"]
        until(page, "() => document.querySelectorAll('.panel').length === 1")
        page.fill("#generate-count", "2")
        page.click("#generate")
        page.wait_for_selector("#generated .w")
        page.select_option("#model", "0")
        page.wait_for_selector("#generation", state="hidden")


def test_the_first_model_answers_while_others_load(browser: Any) -> None:
    loaded = threading.Event()
    first, second = make_model("bert"), make_model("bert", seed=1)

    def load(model: Any) -> Any:
        assert model is first or loaded.wait(60)
        return model

    server = ExplorerServer([first, second], port=0, load=load)
    thread = server.start()
    try:
        with opened(browser, address(server)) as page:
            assert "loading" in page.inner_text("#model option[value='1']")
            assert page.locator("#both").count() == 0
            loaded.set()
            page.wait_for_selector("#both")
            page.select_option("#model", "1")
            until(page, "() => !document.querySelector('#chance').classList.contains('stale')")
    finally:
        loaded.set()
        server.stop()
        thread.join(60)


# 9. Runs


def test_examples_of_a_run_are_filtered_and_opened(browser: Any, tmp_path: Path) -> None:
    names = {0: "NEGATIVE", 1: "POSITIVE"}
    model = make_model("bert", labels=2, id2label=names, label2id={name: place for place, name in names.items()})
    plan = RunPlan("sample:reviews", model, methods=["attcat", "random"], metrics=["rft"], limit=8)
    run(plan, tmp_path / "films")
    with serving(model, runs=[tmp_path / "films"]) as running, Client(running) as asking:
        data = asking.http.get("/api/runs/0").json()
        with opened(browser, running.address) as page:
            page.wait_for_selector("#runs .example")
            assert page.locator(".board tbody tr").count() == 2
            assert page.locator(".scatter circle").count() == 2
            marked = [[words for words, own in one["marked"] if own] for one in data["examples"]]
            boxes = page.locator("#runs mark.people").all_text_contents()
            assert boxes == [f"[marked by people: {words}]" for one in marked for words in one]
            assert all(marked)  # every review of the sample has a rationale
            wait_for(page, "#runs .note", "8 of 8 examples; those on which methods agree least come first. In boxes")
            page.check("#only-wrong")
            wrong = [one for one in data["examples"] if one["wrong"]]
            wait_for(page, "#runs .note", f"{len(wrong)} of 8 examples")
            page.select_option("#only-label", "NEGATIVE")
            negative = [one for one in wrong if one["label"] == "NEGATIVE"]
            wait_for(page, "#runs .note", f"{len(negative)} of 8 examples")
            page.select_option("#only-label", "")
            page.uncheck("#only-wrong")
            page.locator(".example").nth(2).click()
            until(page, "text => document.querySelector('#text').value === text", data["examples"][2]["text"])
            wait_for(page, "#chance", percent(data["examples"][2]["probability"]))


def test_a_word_of_an_audit_shows_its_examples(browser: Any, tmp_path: Path) -> None:
    names = {0: "NEGATIVE", 1: "POSITIVE"}
    model = make_model("bert", labels=2, id2label=names, label2id={name: place for place, name in names.items()})
    folder = tmp_path / "audit" / "run"
    run(RunPlan("sample:reviews", model, methods=["attcat"], metrics=["rft"], level="word", limit=12), folder)
    made("film").save(folder.parent / "audit.json")
    assert split_sources(["embedded", str(folder.parent)]) == (["embedded"], [folder])
    with serving(model, runs=[folder]) as running, opened(browser, running.address) as page:
        page.wait_for_selector("#runs .chip")
        assert "suspected shortcut" in page.inner_text(".findings")
        page.locator("#runs .chip").first.click()
        lines = sample_path("reviews").read_text(encoding="utf-8").splitlines()[:12]
        texts = [json.loads(line)["text"] for line in lines]
        having = [text for text in texts if "film" in re.findall(r"\w+", text.lower())]
        wait_for(page, "#runs .note", f"“film”: {len(having)} of 12 examples")
        shown = page.locator(".example > span").all_text_contents()
        assert all("film" in text.lower() for text in shown)
        page.locator(".example").first.click()
        until(page, "() => document.querySelector('#text').value.toLowerCase().includes('film')")
        page.locator("#runs .chip").first.click()
        wait_for(page, "#runs .note", "12 of 12 examples")


# Regression


def test_a_regression_model_has_values_and_no_percentages(browser: Any) -> None:
    model = additive_regression(good=2.0, bad=-3.0)
    with (
        serving(model) as running,
        Client(running) as asking,
        opened(browser, address(running, "good film, bad plot")) as page,
    ):
        wait_for(page, "#chance", "−1.00")
        found = asking.ask("hide", text="good film, bad plot", hidden=[0])
        assert found["probability"] == pytest.approx(-3.0)
        word(page, 0).click()
        wait_for(page, "#chance", "−3.00")
        wait_for(page, "#change", "−2.00")
        assert "%" not in page.inner_text("#change")


# 9. Every task


def entailment() -> TextModel:
    network = make_network("bert", id2label={0: "contradiction", 1: "neutral", 2: "entailment"})
    return wherefrom.load((network, tokenizer()), labels=["good", "bad"]).text_model


TASKS: dict[str, tuple[Any, dict[str, str], str]] = {  # a model, what it is asked, and a method that it refuses
    "multiple_choice": (lambda: make_model("bert", task="multiple_choice"), {"p": "good\nbad"}, "alti"),
    "zero_shot": (entailment, {}, "alti"),
    "similarity": (lambda: make_model("bert", task="similarity"), {"p": "a good film"}, "alti"),
    "seq2seq": (lambda: make_model("t5", task="seq2seq"), {}, "mask_lrp"),
    "token_classification": (lambda: make_model("bert", task="token_classification"), {}, ""),
    "masked_lm": (lambda: make_model("bert", task="masked_lm"), {"t": "the [MASK] was not [MASK] at all"}, ""),
}


@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_explained_or_says_why_not(browser: Any, task: str) -> None:
    make, asked, refused = TASKS[task]
    methods = ",".join(one for one in ("occlusion", "saliency", refused) if one)
    given = {"t": "the film was not bad"} | asked | {"m": methods}
    with serving(make()) as running, Client(running) as asking:
        where = f"{running.address}#{'&'.join(f'{key}={quote(value)}' for key, value in given.items())}"
        with opened(browser, where) as page:
            until(page, "() => document.querySelectorAll('.row .badge').length >= 2")
            if refused:
                wait_for(page, ".row", "Not ")
            before = page.inner_text("#chance")
            word(page, 0).click()
            until(page, "() => document.querySelector('#change').textContent !== ''")
            question: dict[str, Any] = {"text": given["t"]} | ({"pair": asked["p"]} if "p" in asked else {})
            found = asking.ask("hide", **question, hidden=[0])
            assert found["whole"] is not None
            assert before
            code = asking.ask("code", **question, methods=["occlusion"])
            assert ("labels=['good', 'bad']" in code["python"]) == (task == "zero_shot")
            assert ("--candidates good,bad" in code["command"]) == (task == "zero_shot")
            assert "--target" not in code["command"]
