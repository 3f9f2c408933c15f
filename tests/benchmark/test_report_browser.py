"""The report as a browser lays it out and works it: narrow and wide, light and dark, its filters and sorting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from explorer.browser import NEEDS_BROWSER
from report.test_browser import shown

from benchmark.test_report import VALUES, written
from wherefrom.benchmark.summary import summarise
from wherefrom.core.statistics import Interval
from wherefrom.report.benchmark import report_page
from wherefrom.report.colour import DARK, LIGHT

pytestmark = NEEDS_BROWSER

ASK = """
const inside = document.querySelector("iframe").contentDocument, all = name => [...inside.querySelectorAll(name)];
const one = name => inside.querySelector(name), seen = () => all(".disputed").filter(it => it.offsetHeight > 0)
  .map(it => it.querySelector("h3 bdi").textContent);
const place = () => one(".place").textContent, change = it => it.dispatchEvent(new Event("change", {bubbles: true}));
const found = {
  wide: inside.documentElement.scrollWidth,
  ground: getComputedStyle(one(".answer")).backgroundColor,
  answer: one(".answer").getBoundingClientRect().top < one("table").getBoundingClientRect().top,
  near: all(".measured td.near span").map(it => getComputedStyle(it)).map(it => it.textDecorationLine + " "
    + it.textDecorationThickness),
  best: all("td.best span").map(it => getComputedStyle(it).fontWeight),
  figures: all("svg").every(it => it.getAttribute("role") === "img" && it.getAttribute("aria-label")),
  letters: Math.min(...all(".figure svg text").map(it => it.getBoundingClientRect().height).filter(high => high > 0)),
  captions: all("table").every(it => it.caption && it.caption.textContent),
  scrolls: all(".scroll").every(it => it.tabIndex === 0 && it.getAttribute("aria-label")),
  first: [seen(), place()],
  boxes: all(".disputed .text .people").filter(it => it.offsetHeight > 0)
    .map(it => [getComputedStyle(it).borderTopStyle, it.querySelector(".aloud").getBoundingClientRect().width,
      it.getBoundingClientRect().right]),
  legend: all(".legend.marks").filter(it => it.offsetHeight > 0).map(it => it.textContent.trim()),
  words: all(".words tbody tr").filter(it => it.offsetHeight > 0).length,
  snippet: Math.min(...all(".words .place-of-word").map(it => it.getBoundingClientRect().width)),
  said: all(".words td[style]").map(it => getComputedStyle(it).backgroundColor),
};
one("[name=next]").click(); found.next = [seen(), place()];
one("[name=wrong]").checked = true; change(one("[name=wrong]")); found.wrong = [seen(), place()];
one("[name=label]").value = "YES"; change(one("[name=label]")); found.none = [seen(), place()];
one("[name=wrong]").checked = false; change(one("[name=wrong]")); found.label = [seen(), place()];
const heading = one("table.sortable thead button"); heading.focus(); found.focus = inside.activeElement === heading;
heading.click(); found.sorted = heading.closest("th").getAttribute("aria-sort");
document.body.textContent = JSON.stringify(found);
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = summarise(written(tmp_path_factory.mktemp("run") / "few", VALUES))
    best, second, *others = found.boards["aopc"]
    near = replace(second, behind_interval=Interval(-0.3, 0.1))  # as if the examples did not tell it from the best
    return report_page([replace(found, boards={**found.boards, "aopc": [best, near, *others]})])


@pytest.mark.parametrize(("width", "dark"), [(375, True), (1100, False)], ids=["narrow and dark", "wide and light"])
def test_the_report_in_a_browser(page: str, width: int, dark: bool, tmp_path: Path) -> None:
    found = shown(page, tmp_path, width=width, dark=dark, ask=ASK)
    assert found["wide"] <= width  # tables and figures scroll by themselves
    assert found["ground"] == f"rgb{(DARK if dark else LIGHT)['ground']}"
    assert found["answer"]
    assert found["near"]
    assert set(found["near"]) == {"underline 2px"}
    assert found["best"]
    assert all(int(weight) >= 600 for weight in found["best"])
    assert found["letters"] >= 8  # pixels: figures are not shrunk until nobody can read them
    assert found["figures"]
    assert found["captions"]
    assert found["scrolls"]
    assert found["words"] >= 1
    assert found["snippet"] >= 200  # pixels: a sentence is not broken after every word
    assert all(colour != "rgba(0, 0, 0, 0)" for colour in found["said"])
    assert found["first"] == [["e0"], "1 of 3"]
    assert len(found["boxes"]) == len(VALUES) - 1  # what people marked, by every method but random
    assert all(style == "solid" and aloud <= 1 and right <= width for style, aloud, right in found["boxes"])
    assert found["legend"] == ["box marked by people"]
    assert found["next"] == [["e1"], "2 of 3"]
    assert found["wrong"] == [["e1"], "1 of 1"]
    assert found["none"] == [[], "no such example"]
    assert found["label"] == [["e0"], "1 of 2"]
    assert found["focus"]
    assert found["sorted"] == "ascending"
