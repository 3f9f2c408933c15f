"""Every kind of page in Chromium, made of hostile tokens, labels, names, ids and options: nothing of them runs.

Two walls are tested one by one: what is shown is escaped, and where an escape would be missing, the page's policy still
lets nothing run and nothing load. Without Chromium there is nothing to test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from audit.made import made
from benchmark.test_report import VALUES, written
from explorer.browser import CHROMIUM, NEEDS_BROWSER
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from report.sentences import explain, pair
from wherefrom.benchmark.statistics import Energy
from wherefrom.benchmark.summary import summarise
from wherefrom.core.check import Check, HiddenUnits
from wherefrom.core.comparison import Comparison, Grade
from wherefrom.core.explanation import Explanation
from wherefrom.core.flow import Flow
from wherefrom.report.benchmark import report_page
from wherefrom.report.colour import LIGHT
from wherefrom.report.comparison import page as comparison_page
from wherefrom.report.flow import page as flow_page
from wherefrom.report.html import difference, page

pytestmark = NEEDS_BROWSER

# Everything that runs says so to `ran`; everything that loads asks a host that nobody has, so that it is seen.
EVIL = "".join(
    (
        "</title></style></script><script>ran('script')</script>",
        "<img src=x onerror=ran('img')><svg onload=ran('svg')><animate onbegin=ran('animate') attributeName=x dur=1s>",
        "'\" onmouseover=ran('over') onfocus=ran('focus') onclick=ran('click') tabindex=0 autofocus x='\"",
        "<b onmouseover=ran('b over') onfocus=ran('b focus') onclick=ran('b click') tabindex=0 autofocus>b</b>",
        "<a href=javascript:ran('link')>go</a><iframe srcdoc='<script>parent.ran(1)</script>'></iframe>",
        "<link rel=stylesheet href=http://evil.invalid/a.css><style>*{background:url(http://evil.invalid/b.png)}</style>",
        "<meta http-equiv=refresh content='0;url=http://evil.invalid/'><base href=http://evil.invalid/>",
        "<form action=http://evil.invalid/><button>send</button></form><object data=http://evil.invalid/o></object>",
        "<!-- ]]> --> {{ 7 * 7 }} ${ran('dollar')} `ran` $\\frac{ \u202e\ud800\x00",
    )
)
FILE = "<img src=x onerror=ran('file')>.jsonl"


def explanation(**more: Any) -> Explanation:
    """An explanation with everything a page shows, all of it hostile."""
    half = len(EVIL) // 2
    hidden = HiddenUnits((0, 1), (EVIL, EVIL), 0.2, 0.9, 14, 0.8, 0.7, 0.9, 1.0, "supported")
    table = {"heads": [EVIL, 1], "layers": [EVIL], "scores": {EVIL: [[0.5], [None]]}}
    chosen = {"chosen": EVIL, "runner_up": None, "failed": {EVIL: EVIL}, "scores": {EVIL: table}}
    graded = {"metrics": [EVIL], "better": ["higher"], "grades": {EVIL: [0.5], "other": [None]}}
    given: dict[str, Any] = {
        "target": EVIL,
        "prediction": EVIL + "2",
        "method": EVIL,
        "model": EVIL,
        "params": {EVIL: EVIL, "fill": [EVIL]},
        "notes": (EVIL,),
        "probabilities": {EVIL: 0.7, EVIL + "2": 0.3},
        "layers": ((1.0, -1.0, 0.5, 0.25), (0.5, 0.5, 0.5, 0.5)),
        "unassigned": 0.1,
        "cut": 1,
        "check": Check("supported", 0.75, EVIL, 2, hidden, hidden),
        "selection": (chosen | graded,),
    }
    return explain(EVIL, (0, half, 1.0), (half, len(EVIL) - 9, -0.5), ends=3.0, **(given | more))


def comparison() -> Comparison:
    grades = [
        (Grade(EVIL, value, "higher", EVIL, "", {"instead_of": EVIL}), Grade("rft", None, "lower", why=EVIL))
        for value in (0.5, 0.25)
    ]
    both = (explanation(), explanation(signed=False, seconds=2.0))
    return Comparison(both, tuple(grades), names=(EVIL, "other"), failed={EVIL: EVIL}, rationale=(((1, 9),), ()))


def flow() -> Flow:
    layers = np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5]]] * 2)
    end = len(EVIL) - 5
    return Flow(
        text=EVIL,
        tokens=(EVIL, EVIL, "b"),
        offsets=((0, 0), (0, 9), (9, end)),
        segment=(-1, 0, 0),
        layers=layers,
        read=(0.0, 0.0, 1.0),
        method=EVIL,
        prediction=EVIL,
        probability=0.7,
        params={EVIL: EVIL},
        model=EVIL,
        notes=(EVIL,),
    )


def report(folder: Path) -> str:
    """Two runs, so that the ranks over data sets and the list of runs are there as well."""
    runs = [
        written(folder / name, VALUES, name=name + FILE, evil=EVIL.replace("\ud800", "")) for name in ("one", "two")
    ]
    return report_page([summarise(run, Energy()) for run in runs], Energy())


MAKERS: dict[str, Callable[[Path], str]] = {
    "explanation": lambda _: page([explanation()]),
    "pair": lambda _: page([pair(method=EVIL, target=EVIL, model=EVIL)], title=EVIL),
    "two explanations": lambda _: page([explanation(), explanation(method="other")], special=True),
    "difference": lambda _: difference(explanation(), explanation(signed=False, params={"x": EVIL})),
    "comparison": lambda _: comparison_page(comparison()),
    "nothing to compare": lambda _: comparison_page(Comparison((), (), names=(), failed={EVIL: EVIL})),
    "flow": lambda _: flow_page(flow()),
    "report": report,
    "audit": lambda _: made(EVIL, EVIL, against=True).to_html(),
}
KINDS = list(MAKERS)

WATCH = """
window.happened = [];
window.ran = what => window.happened.push(String(what));
document.addEventListener("securitypolicyviolation", event => {
  (window.violated = window.violated || []).push(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`);
});
"""
# Everything that a reader can do, to every element, also to those that appear on the way: flows draw themselves anew.
TOUCH = """
() => {
  const over = ["pointerover", "pointerenter", "mouseover", "mouseenter", "mousemove", "focusin", "toggle"];
  let touched = 0;
  for (let round = 0; round < 2; round++) {
    for (const one of document.querySelectorAll("body *")) {
      for (const type of over) one.dispatchEvent(new PointerEvent(type, {bubbles: true, clientX: 9, clientY: 9}));
      for (const key of ["Enter", "ArrowRight"]) one.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
      one.focus?.({focusVisible: true});
      one.dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true}));
      touched++;
    }
  }
  return touched;
}
"""


@pytest.fixture(scope="module")
def reached() -> Iterator[tuple[str, list[str]]]:
    """The host that hostile pages ask for: where it listens, and what reached it."""
    asked: list[str] = []

    class Listener(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser(reached: tuple[str, list[str]]) -> Iterator[Browser]:
    rules = f"--host-resolver-rules=MAP evil.invalid {reached[0]}"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", rules])
        yield started
        started.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("runs")
    return {kind: make(folder) for kind, make in MAKERS.items()}


@dataclass
class Visit:
    """A page that is open, and what it tried."""

    page: Page
    asked: list[str] = field(default_factory=list)  # requests, but for the page itself and what it carries along
    dialogs: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)  # exceptions of our own script

    def happened(self) -> list[str]:
        found: list[str] = self.page.evaluate("window.happened")
        return found + self.dialogs

    def violations(self) -> list[str]:
        found: list[str] = self.page.evaluate("window.violated || []")
        return found


def visit(browser: Browser, source: str, path: Path) -> Visit:
    path.write_text(source, encoding="utf-8")
    visit = Visit(browser.new_page(viewport={"width": 1100, "height": 900}))

    def asked(url: str) -> None:
        if url.split("#")[0] != path.as_uri() and not url.startswith("data:"):
            visit.asked.append(url)

    def dismiss(dialog: Dialog) -> None:
        visit.dialogs.append(dialog.message)
        dialog.dismiss()

    # A request that the policy stops is seen as one that failed by "csp"; it never leaves the page.
    visit.page.on("requestfinished", lambda request: asked(request.url))
    visit.page.on("requestfailed", lambda request: None if request.failure == "csp" else asked(request.url))
    visit.page.on("dialog", dismiss)
    visit.page.on("pageerror", lambda error: visit.wrong.append(str(error)))
    visit.page.add_init_script(WATCH)
    visit.page.goto(path.as_uri(), wait_until="load")
    return visit


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_runs_on_load_hover_focus_or_click(
    kind: str, pages: dict[str, str], browser: Browser, tmp_path: Path
) -> None:
    seen = visit(browser, pages[kind], tmp_path / "page.html")
    for unit in seen.page.locator(".text .t").all()[:12]:  # a real pointer, too, where there is something to point at
        if unit.is_visible():
            unit.hover(force=True)
    assert seen.page.evaluate(TOUCH) > 10
    assert seen.happened() == []
    assert seen.asked == []
    assert seen.wrong == []
    assert seen.violations() == []  # and the policy keeps nothing of ours from working
    assert seen.page.evaluate("location.href").split("#")[0] == (tmp_path / "page.html").as_uri()
    assert (
        seen.page.evaluate("document.querySelectorAll('body script, script, link, iframe, form, object, base').length")
        == 1
    )
    seen.page.close()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_escaped_does_not_run_either(
    kind: str, pages: dict[str, str], browser: Browser, reached: tuple[str, list[str]], tmp_path: Path
) -> None:
    """All but a link that the reader follows, or a refresh: these no policy of a page stops."""
    raw = (
        EVIL.replace("\ud800", "").replace("</title></style></script>", "").replace("<meta http-equiv=refresh", "<meta")
    )
    source = pages[kind].replace("<main", raw + "<main", 1)
    assert raw in source
    seen = visit(browser, source, tmp_path / "page.html")
    seen.page.evaluate("document.querySelectorAll('main, main *').forEach(one => one.remove())")
    seen.page.evaluate(TOUCH)
    assert seen.happened() == []
    assert seen.asked == []
    assert reached[1] == []
    assert {violation.split()[0] for violation in seen.violations()} >= {
        "script-src-elem",
        "script-src-attr",
        "base-uri",
    }
    seen.page.close()


def test_every_page_has_the_same_policy_but_for_its_hashes(pages: dict[str, str]) -> None:
    for kind, source in pages.items():
        (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', source)
        assert source.index("Content-Security-Policy") < source.index("<style>"), kind  # holds for what follows it
        assert re.sub(r"sha256-[A-Za-z0-9+/]{43}=", "sha256-#", policy) == (
            "default-src 'none'; script-src 'sha256-#'; style-src 'sha256-#'; style-src-attr 'unsafe-inline';"
            " img-src data:; base-uri 'none'; form-action 'none'"
        ), kind


def test_pages_still_work(pages: dict[str, str], browser: Browser, tmp_path: Path) -> None:
    """What scripts and styles are for: tips, sorting, following a flow, colours."""
    seen = visit(browser, pages["explanation"], tmp_path / "explanation.html")
    unit = seen.page.locator(".text .t.for:not(.special)").first
    unit.hover()
    assert seen.page.locator("#tip").is_visible()
    assert "onerror" in seen.page.locator("#tip").inner_text()  # as it was written
    red, green, blue = LIGHT["for"]
    assert unit.evaluate("one => getComputedStyle(one).backgroundColor") == f"rgb({red}, {green}, {blue})"
    seen.page.close()

    seen = visit(browser, pages["comparison"], tmp_path / "comparison.html")
    seen.page.get_by_role("button", name="time").click()
    assert seen.page.locator(".grades th[aria-sort=ascending]").inner_text() == "time"
    seen.page.get_by_role("button", name="time").click()
    assert seen.page.locator(".grades th[aria-sort=descending]").inner_text() == "time"
    seen.page.close()

    seen = visit(browser, pages["flow"], tmp_path / "flow.html")
    assert "of the content of" in seen.page.locator("#sentence").inner_text()
    before = seen.page.locator("#sentence").inner_text()
    seen.page.locator(".chip").nth(1).click()
    assert seen.page.locator("#sentence").inner_text() != before
    assert seen.page.locator("#graph svg path").count() > 0
    seen.page.close()

    seen = visit(browser, pages["report"], tmp_path / "report.html")
    seen.page.locator(".sortable button").first.click()
    assert seen.page.locator(".sortable th[aria-sort=ascending]").count() == 1
    joined = "one => getComputedStyle(one).strokeLinejoin"
    assert seen.page.locator(".study svg path").first.evaluate(joined) == "round"  # matplotlib's own rule, moved
    seen.page.close()
