"""The page of a generation in a browser: a generated token is chosen with the mouse and with the keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from explorer.browser import LIMIT, NEEDS_BROWSER, chromium

from wherefrom.core.generation import Generation

pytestmark = NEEDS_BROWSER

LOOK = """() => ({
  chosen: [...document.querySelectorAll(".step")].findIndex(one => one.getAttribute("aria-pressed") === "true"),
  outlined: [...new Set([...document.querySelectorAll(".matrix .chosen")].map(one => one.dataset.step))],
  prompt: [...document.querySelectorAll("#prompt [data-place]")].map(one => [one.textContent,
    one.classList.contains("against") ? "against" : "for", one.style.getPropertyValue("--s")]),
  steps: [...document.querySelectorAll(".step")].map(one => one.style.getPropertyValue("--s")),
  focus: document.activeElement.dataset.step ?? null,
})"""


def generation() -> Generation:
    return Generation(
        text="the keys",
        tokens=("the", "keys", "</s>", "<pad>"),
        offsets=((0, 3), (4, 8), (0, 0), (0, 0)),
        segment=(0, 0, -1, -1),
        generated=(" are", " not", " old"),
        token_ids=(1, 2, 3),
        scores=(
            (0.25, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0),
            (-0.5, 0.125, 0.0, 0.0, 0.75, 0.0, 0.0),
            (0.0, -1.0, 0.0, 0.0, 0.25, 0.5, 0.0),
        ),
        probabilities=(0.5, 0.25, 0.125),
        versus=(None, None, None),
        method="occlusion",
        task="seq2seq",
    )


def shades(*given: tuple[str, str, float]) -> list[list[str]]:
    return [[word, side, f"{strength:.3f}"] for word, side, strength in given]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Any:
    written: Path = tmp_path_factory.mktemp("generation") / "page.html"
    written.write_text(generation().to_html(), encoding="utf-8")
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 900, "height": 900})
        context.set_default_timeout(LIMIT)
        opened, wrong = context.new_page(), list[str]()
        opened.on("pageerror", lambda error: wrong.append(str(error)))
        opened.goto(written.as_uri())
        yield opened
        assert wrong == []


def test_the_first_token_is_chosen_from_the_start(page: Any) -> None:
    page.reload()
    found = page.evaluate(LOOK)
    assert found["chosen"] == 0
    assert found["outlined"] == ["0"]
    assert found["prompt"] == shades(("the", "for", 0.25), ("keys", "for", 1))
    assert found["steps"] == ["0.000", "0.000", "0.000"]


def test_a_click_changes_the_attributions(page: Any) -> None:
    page.reload()
    page.click('.step[data-step="1"]')
    found = page.evaluate(LOOK)
    assert found["chosen"] == 1
    assert found["outlined"] == ["1"]
    assert found["prompt"] == shades(
        ("the", "against", 0.5 / 0.75), ("keys", "for", 0.125 / 0.75)
    )  # by the token's own largest
    assert found["steps"] == ["1.000", "0.000", "0.000"]  # what was generated before speaks for it, too
    page.click('.matrix thead [data-step="2"]')
    found = page.evaluate(LOOK)
    assert found["chosen"] == 2
    assert found["prompt"] == shades(("the", "for", 0), ("keys", "against", 1))
    assert found["steps"] == ["0.250", "0.500", "0.000"]


def test_the_keyboard_changes_them_as_well(page: Any) -> None:
    page.mouse.move(0, 0)
    page.reload()
    page.focus('.step[data-step="0"]')
    chosen = []
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
        found = page.evaluate(LOOK)
        assert found["focus"] == str(found["chosen"])
        chosen.append(found["chosen"])
    assert chosen == [1, 2, 2, 1]  # it stays at the last
    assert found["prompt"] == shades(
        ("the", "against", 0.5 / 0.75), ("keys", "for", 0.125 / 0.75)
    )  # by the token's own largest
    page.keyboard.press("Tab")
    assert page.evaluate(LOOK)["chosen"] == 2
