"""The page of an audit: what it says, and how a browser lays it out and prints it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from explorer.browser import NEEDS_BROWSER
from report.test_browser import shown

from audit.made import made
from wherefrom.core.audit import Estimate
from wherefrom.report.audit_wording import sentences
from wherefrom.report.colour import DARK, LIGHT
from wherefrom.report.pdf import print_pdf

WITHOUT_BROWSER = NEEDS_BROWSER[1]

ASK = """
const inside = document.querySelector("iframe").contentDocument;
const all = name => [...inside.querySelectorAll(name)];
document.body.textContent = JSON.stringify({
  wide: inside.documentElement.scrollWidth,
  ground: getComputedStyle(inside.querySelector(".answer")).backgroundColor,
  first: ["table", ".answer"].map(it => inside.querySelector(it).getBoundingClientRect().top).reduce((a, b) => a > b),
  lines: all(".line i").map(it => it.getBoundingClientRect().width),
  captions: all("table.measured").every(it => it.caption && it.caption.textContent),
  scrolls: all(".scroll").every(it => it.tabIndex === 0 && it.getAttribute("aria-label")),
});
"""


def test_every_sentence_has_its_number_and_interval() -> None:
    told = [one.text for one in sentences(made(against=True))]
    assert told[0].startswith("The model is right on 80% (70% to 90%) of 100 texts")
    assert "1 suspected shortcut, among 30 tests of words and labels." in told[1]
    assert "“zeta” draws texts to “POSITIVE”: of 20 texts with it, the model gives 80%" in told[1]
    assert (
        "It leans most on “zeta” for “POSITIVE” (in 20 texts; without it its probability falls by 80 points" in told[2]
    )
    assert "The explanations of 80% (70% to 90%)" in told[3]
    assert "Beside “zeta”, 80% (70% to 90%) of the decisions are others" in told[4]
    assert all("(70" in text for text in told)


def test_what_is_not_there_is_said() -> None:
    bare = replace(made(), shortcuts=(), words=(), misleading=())
    told = [one.text for one in sentences(bare)]
    assert "No shortcut is suspected among 30 tests of words and labels." in told
    assert "No word stands out among the 12 that were compared with words of like frequency." in told
    unlabelled = replace(bare, performance=replace(bare.performance, accuracy=Estimate()))
    assert not any("right on" in one.text for one in sentences(unlabelled))


def test_a_card_keeps_names_from_being_markdown() -> None:
    card = made("`]<b>*x*|", "# a\n[l](u)").to_markdown()
    assert "<b>" not in card.replace("`ˋ]<b>*x*|`", "")
    assert "\n# a" not in card
    assert not re.search(r"(?<!\\)\]\(", card)


@pytest.mark.slow
@WITHOUT_BROWSER
@pytest.mark.parametrize(("width", "dark"), [(375, True), (1100, False)], ids=["narrow and dark", "wide and light"])
def test_the_page_in_a_browser(width: int, dark: bool, tmp_path: Path) -> None:
    name = "a-very-long-word-that-nobody-breaks" * 3
    found = shown(made(name, name, against=True).to_html(), tmp_path, width=width, dark=dark, ask=ASK)
    assert found["wide"] <= width
    assert found["ground"] == f"rgb{(DARK if dark else LIGHT)['ground']}"
    assert found["first"]
    assert found["lines"]
    assert min(found["lines"]) >= 2
    assert found["captions"]
    assert found["scrolls"]


@pytest.mark.slow
@WITHOUT_BROWSER
def test_the_page_is_printed(tmp_path: Path) -> None:
    print_pdf(made().to_html(), tmp_path / "a.pdf")
    content = (tmp_path / "a.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    text = subprocess.run(
        ["pdftotext", str(tmp_path / "a.pdf"), "-"], capture_output=True, text=True, check=False
    ).stdout
    assert not text or "Suspected shortcuts" in text  # where there is something that reads it
