"""The pages as a browser lays them out, narrow and wide, light and dark. Without Chromium there is nothing to test."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from explorer.browser import CHROMIUM, NEEDS_BROWSER

from report.sentences import explain
from report.test_comparison import three
from wherefrom.core.check import Check, HiddenUnits
from wherefrom.core.comparison import Comparison, Grade
from wherefrom.report.colour import DARK, LIGHT
from wherefrom.report.comparison import page as comparison_page
from wherefrom.report.html import page

pytestmark = NEEDS_BROWSER

ASK = """
const inside = document.querySelector("iframe").contentDocument, style = name => {
  const found = inside.querySelector(name); return found ? getComputedStyle(found) : null; };
const words = [...inside.querySelectorAll(".text .t")].filter(one => !one.classList.contains("special"));
document.body.textContent = JSON.stringify({
  wide: inside.documentElement.scrollWidth,
  ground: getComputedStyle(inside.querySelector(".card")).backgroundColor,
  words: Object.fromEntries(words.map(one => [one.textContent, [getComputedStyle(one).backgroundColor,
    getComputedStyle(one).textDecorationLine]])),
  warning: inside.querySelector(".warning")?.getBoundingClientRect().height ?? 0,
  check: inside.querySelector(".check").getBoundingClientRect().height,
  bar: inside.querySelector(".apart .t").getBoundingClientRect().width,
});
"""


def shown(source: str, folder: Path, *, width: int, dark: bool, ask: str = ASK) -> dict[str, Any]:
    """What the browser made of a page in a frame of this width, which may be narrower than its windows can be.

    ask: a script that looks at the page inside and leaves its findings as JSON.
    """
    outside = folder / "outside.html"
    outside.write_text(
        f'<body><iframe style="border:0;width:{width}px;height:1500px" srcdoc="{html.escape(source)}"'
        f" onload='{html.escape(ask)}'></iframe></body>",
        encoding="utf-8",
    )
    assert CHROMIUM is not None
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}", scheme]
    done = subprocess.run(
        [*command, "--dump-dom", outside.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    found = re.search(r"\{.*\}", done.stdout, re.DOTALL)
    assert found is not None, done.stderr[-500:]
    answer: dict[str, Any] = json.loads(html.unescape(found[0]))
    return answer


def saturated(**more: Any) -> str:
    strongest = HiddenUnits((0, 1), ("gorgeous", "film"), 0.9979, 0.9979, 14, 0.997, 0.992, 0.998, 0.5, "too short")
    check = Check("too short", 0.998, "delete", 2, strongest=strongest)
    given: dict[str, Any] = {"probability": 0.998, "check": check, "unassigned": 0.002} | more
    return page([explain("gorgeous film", (0, 8, -0.003), (9, 13, 0.003), **given)])


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [375, 1100])
def test_a_page_in_a_browser(width: int, dark: bool, tmp_path: Path) -> None:
    palette = DARK if dark else LIGHT
    found = shown(saturated(), tmp_path, width=width, dark=dark)
    assert found["wide"] <= width  # nothing to scroll sideways
    assert found["ground"] == f"rgb{palette['ground']}"
    assert found["warning"] > 0
    assert found["check"] > 0
    assert found["bar"] > 0
    red, green, blue = palette["against"]
    assert found["words"]["gorgeous"] == [f"rgba({red}, {green}, {blue}, 0.12)", "underline"]
    red, green, blue = palette["for"]
    assert found["words"]["film"] == [f"rgba({red}, {green}, {blue}, 0.12)", "none"]


BOXES = """
const inside = document.querySelector("iframe").contentDocument, all = name => [...inside.querySelectorAll(name)];
const text = inside.querySelector(".text"), box = text.querySelector(".people"), style = getComputedStyle(box);
document.body.textContent = JSON.stringify({
  wide: inside.documentElement.scrollWidth,
  edges: ["Top", "Right", "Bottom", "Left"].map(side => style[`border${side}Style`] + " "
    + style[`border${side}Color`]),
  ground: style.backgroundColor, ink: style.color, lines: box.getClientRects().length,
  aloud: [...box.querySelectorAll(".aloud")].map(one => [one.textContent, one.getBoundingClientRect().width]),
  inside: all(".people").every(one => one.getBoundingClientRect().right <= inside.documentElement.clientWidth),
  taller: inside.querySelector(".scroll").scrollHeight - inside.querySelector(".scroll").clientHeight,
  legend: inside.querySelector(".legend .marks").textContent,
});
"""


@pytest.mark.parametrize(("width", "dark"), [(375, True), (1100, False)], ids=["narrow and dark", "wide and light"])
def test_what_people_marked_in_a_browser(width: int, dark: bool, tmp_path: Path) -> None:
    text = "word " * 100 + "gorgeous witty film " + "word " * 100  # so long that it scrolls in its row
    marked = (((490, 520), (900, 910)), ())
    one = explain(text, (500, 508, 1.0), (515, 519, -1.0))
    both = Comparison((one, one), ((Grade("auprc", 0.5, "higher"),),) * 2, ("attcat", "random"), rationale=marked)
    found = shown(comparison_page(both), tmp_path, width=width, dark=dark, ask=BOXES)
    assert found["wide"] <= width
    red, green, blue = (DARK if dark else LIGHT)["ink"]
    assert found["edges"] == [f"solid rgba({red}, {green}, {blue}, 0.85)"] * 4
    assert (found["ground"], found["ink"]) == ("rgba(0, 0, 0, 0)", f"rgb({red}, {green}, {blue})")
    assert [words for words, _ in found["aloud"]] == ["[marked by people: ", "]"]
    assert all(wide <= 1 for _, wide in found["aloud"])  # for screen readers, and not seen
    assert found["inside"]
    assert found["taller"] <= 0  # what is not seen makes nothing scroll
    assert found["legend"] == "box marked by people"


TABLE = """
const inside = document.querySelector("iframe").contentDocument, scroll = inside.querySelector(".scroll");
const box = one => { const edges = one.getBoundingClientRect(); return [edges.left, edges.right]; };
document.body.textContent = JSON.stringify({
  wide: inside.documentElement.scrollWidth, table: scroll.scrollWidth - scroll.clientWidth,
  window: box(scroll), cells: [...inside.querySelectorAll(".grades td, .grades thead button")].map(box),
  named: [...inside.querySelectorAll(".grades tbody tr:first-child td")]
    .map(one => inside.defaultView.getComputedStyle(one, "::before").content),
  more: inside.querySelector(".told .more").getBoundingClientRect().width,
});
"""


def test_a_comparison_on_a_phone_cuts_no_column_off(tmp_path: Path) -> None:
    """Every method is a card, with the name of each metric beside its number; a wide window has a table."""
    found = shown(comparison_page(three()), tmp_path, width=375, dark=False, ask=TABLE)
    assert found["wide"] <= 375
    assert found["table"] <= 0
    assert found["more"] == 0  # there is no more to the right
    left, right = found["window"]
    assert found["cells"]
    assert all(left <= start < end <= right for start, end in found["cells"])
    assert found["named"][:2] == ['"mean rank"', '"aopc"']
    wide = shown(comparison_page(three()), tmp_path, width=1100, dark=False, ask=TABLE)
    assert set(wide["named"]) == {"none"}
