"""What a person sees of the sources of an answer: terminal, page, notebook, table, command."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from explorer.browser import CHROMIUM, chromium
from rich.console import Console
from typer.testing import CliRunner

from wherefrom.cli.main import app, register_commands
from wherefrom.core.sources import Document, Grounding, Source, Sources, SourceTest, Statement
from wherefrom.report.sources import print_sources

HOSTILE = "<script>window.hit=1</script><img src=x onerror='window.hit=1'>"


def statement(text: str, start: int, scores: tuple[float, float, float], *, grounded: bool = True) -> Statement:
    places = [(0, 0, "Ann built it.", 0, 13), (0, 1, "It is old.", 14, 24), (1, 0, "Rain fell.", 0, 10)]
    sources = [Source(*place, score=score, drop=score) for place, score in zip(places, scores, strict=True)]
    test = SourceTest((0,), 4.0, (0.5, -1.0), 1.0, "supported", "Nobody knows.") if max(scores) > 0 else None
    return Statement(
        text, start, start + len(text), -2.0, 3, tuple(sources), Grounding(5.0 if grounded else 0.1, 0.7), test
    )


def example(extra: str = "") -> Sources:
    first, second = "Ann did.", f"It rained.{extra}"
    return Sources(
        question=f"Who built it?{extra}",
        answer=f"{first} {second}",
        generated=True,
        documents=(Document(f"house{extra}", "Ann built it. It is old."), Document("weather", "Rain fell.")),
        statements=(
            statement(first, 0, (4.0, 0.2, -1.0)),
            statement(second, 9, (-0.5, -0.1, -0.2), grounded=False),
        ),
        prompt="...",
        by="sentence",
        method="leave_one_out",
        notes=(f"a note{extra}",),
        model="model",
        forwards=7,
    )


def shown(sources: Sources, width: int = 100) -> str:
    out = io.StringIO()
    print_sources(sources, console=Console(file=out, width=width, highlight=False, force_terminal=False))
    return out.getvalue()


def test_the_terminal_says_where_each_statement_comes_from() -> None:
    text = shown(example())
    assert "1. Ann did." in text
    assert "+4.000  house, sentence 1: Ann built it." in text
    assert "supported: without house, sentence 1 the log-probability falls by 4.0;" in text
    assert "by at most 0.5" in text
    assert "Without it the model answers: Nobody knows." in text
    assert "Not from the passages: the model says this without them, too" in text
    assert "No source has a positive score" in text
    assert "a note" in text


def test_what_comes_from_texts_stays_text() -> None:
    page = example(HOSTILE).to_html()
    assert "<script>window.hit" not in page
    assert "<img src=x" not in page
    assert "<script>window.hit" not in example(HOSTILE)._repr_html_()
    assert "\x1b" not in shown(replace(example(), question="a\x1b[31m"))


def test_a_table_has_a_row_for_each_statement_and_source() -> None:
    frame = example().to_pandas()
    assert len(frame) == 6
    assert frame.loc[0, "document"] == "house"
    assert frame.loc[0, "score"] == 4.0
    assert frame["grounded"].tolist() == [True] * 3 + [False] * 3


def test_json_is_plain(tmp_path: Path) -> None:
    example().save(tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text())["wherefrom_sources"] == 1
    assert Sources.load(tmp_path / "r.json") == example()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Name a causal language model"),
        (["--model", "m"], "There is no passage"),
        (["--model", "m", "--context", "absent.txt"], "absent.txt cannot be read"),
    ],
)
def test_the_command_says_what_is_missing(options: list[str], message: str) -> None:
    register_commands("sources")
    done = CliRunner().invoke(app, ["sources", "Who?", *options])
    assert done.exit_code != 0
    assert message in str(done.exception) or message in done.output


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: install Debian's package chromium")
@pytest.mark.parametrize("width", [1100, 375])
def test_the_page_in_a_browser(width: int, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(example(HOSTILE).to_html(), encoding="utf-8")
    with chromium() as browser:
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.goto((tmp_path / "page.html").as_uri())
        colour = "i => getComputedStyle(document.querySelectorAll('[data-source]')[i]).getPropertyValue('--s')"
        assert float(page.evaluate(colour, 0)) == 1
        assert page.evaluate("document.querySelectorAll('[data-source]')[2].classList.contains('against')")
        first, second = page.locator(".statement").all()
        first.press("ArrowRight")
        assert second.get_attribute("aria-pressed") == "true"
        assert page.locator("#statement-0").is_hidden()
        assert "Not from the passages" in page.locator("#statement-1").inner_text()
        first.click()
        assert page.locator("#statement-1").is_hidden()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("window.hit") is None
