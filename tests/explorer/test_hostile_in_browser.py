"""A language model on another host in a real browser: shared links and runs that somebody crafted, and a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tiny_models import make_model

from explorer.browser import LIMIT, NEEDS_BROWSER, chromium, opened, until
from explorer.serving import serving
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run

pytestmark = NEEDS_BROWSER
ATTACK = 'film <img src=x onerror="window.attacked=1"><script>window.attacked=1</script>\'"--> javascript:alert(1)'
# A probability, or what is wrong: a language model takes no second text.
ANSWERED = """() => /[0-9]/.test(document.querySelector('#chance').textContent)
    || document.querySelector('#text-error').innerText !== ''"""
LINKS = [
    f"t={quote(ATTACK)}&m=occlusion",
    f"t=film&m={quote(ATTACK)}",
    f"t=film&x={quote(ATTACK)}&m=random",
    f"t=film&p={quote(ATTACK)}&l={quote(ATTACK)}&f={quote(ATTACK)}",
    f"t=film&n={quote(ATTACK)}&h={quote(ATTACK)}&r={quote(json.dumps({'0': ATTACK}))}",
    "t=film&n=1e999&h=" + "9" * 5000,
    "__proto__=1&constructor=2&t=film&t=bad",
    f"t={'film%20' * 3000}",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


def test_shared_links_to_a_language_model_on_another_host(browser: Any) -> None:
    """Nothing of a link runs, nothing is requested elsewhere, and a text is answered or refused in place."""
    with serving(make_model("gpt2", task="causal_lm"), host="0.0.0.0") as running:
        for link in LINKS:
            context = browser.new_context()
            page, wrong, requested = context.new_page(), list[str](), list[str]()
            page.on("pageerror", lambda error, wrong=wrong: wrong.append(str(error)))
            page.on("request", lambda request, requested=requested: requested.append(request.url))
            page.goto(f"http://127.0.0.1:{running.port}/?token={running.token}#{link}")
            page.wait_for_selector("body[data-ready]", timeout=LIMIT)
            page.fill("#text", "the film was bad")
            until(page, ANSWERED)
            assert page.evaluate("() => window.attacked") is None, link
            assert wrong == [], link
            assert all(url.startswith((f"http://127.0.0.1:{running.port}/", "data:")) for url in requested), link
            context.close()


def test_a_restart_with_another_token(browser: Any) -> None:
    """The page of the old server says that its token is another, and the new address works."""
    model = make_model("gpt2", task="causal_lm")
    with serving(model, host="0.0.0.0") as first:
        port = first.port
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{port}/?token={first.token}#t=the%20film&m=random")
        page.wait_for_selector("body[data-ready]", timeout=LIMIT)
        until(page, "() => /[0-9]/.test(document.querySelector('#chance').textContent)")
    with serving(model, host="0.0.0.0", port=port) as second:
        assert second.token != first.token
        page.fill("#text", "the film was bad")
        until(page, "() => /token/.test(document.body.innerText)")
        with opened(browser, f"http://127.0.0.1:{port}/?token={second.token}#t=the%20film&m=random") as again:
            again.fill("#generate-count", "2")
            again.click("#generate")
            until(again, "() => document.querySelectorAll('#generated .w').length > 0")
        context.close()


def test_a_run_that_somebody_crafted_is_only_text(browser: Any, tmp_path: Path) -> None:
    """Texts, ids, labels and the names of models and data of a run are markup here."""
    names = {0: ATTACK, 1: "POSITIVE"}
    model = make_model("bert", labels=2, id2label=names, label2id={name: place for place, name in names.items()})
    data = tmp_path / "a<script>window.attacked=1<script>.jsonl"
    rows = [{"id": f"{ATTACK}{number}", "text": f"{ATTACK} bad", "label": ATTACK} for number in range(3)]
    data.write_text("\n".join(map(json.dumps, rows)))
    run(RunPlan(str(data), model, methods=["random"], metrics=["rft"]), tmp_path / "run")
    with serving(model, runs=[tmp_path / "run"]) as running, opened(browser, running.address) as page:
        page.wait_for_selector("#runs .example")
        page.locator(".example").first.click()
        until(page, "text => document.querySelector('#text').value === text", f"{ATTACK} bad")
        until(page, "() => /[0-9]/.test(document.querySelector('#chance').textContent)")
        assert page.evaluate("() => window.attacked") is None
        assert page.locator("#runs img").count() == 0
