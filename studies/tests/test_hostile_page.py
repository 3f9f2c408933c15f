"""Names that come from files and models cannot run anything on the page of a study: they are escaped, and the page's
policy allows no script. tests/report tries the other pages.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from explorer.browser import NEEDS_BROWSER, chromium
from report.test_hostile_pages import EVIL, TOUCH, visit

from wherefrom_studies.claims import Claim
from wherefrom_studies.pages import StudyCell, StudyPage, StudyPicture, StudyTable, html_page

PICTURE = b"\x89PNG\r\n\x1a\n"


def hostile_page(folder: Path) -> str:
    evil = EVIL.replace("\ud800", "")
    (folder / "picture.png").write_bytes(PICTURE)
    page = StudyPage(
        name="evil",
        title=evil,
        about=evil,
        facts=[evil],
        tables=[StudyTable(evil, evil, [evil], [(evil, [StudyCell(evil, evil)])])],
        claims=[Claim(evil, evil, evil).judged(None, evil)],
        pictures=[StudyPicture("picture.png", evil, evil)],
        missing=[evil],
        contradictions=[evil],
        intervals=evil,
    )
    return html_page(page, folder)


def test_everything_is_escaped_and_the_policy_allows_no_script(tmp_path: Path) -> None:
    page = hostile_page(tmp_path)
    assert page.count("&lt;script&gt;") > 12
    assert "<script" not in page
    assert "<img src=x" not in page
    assert not re.search(r"<[^>]*\bonclick=", re.sub(r'"[^"]*"', '""', page))  # but in a quoted attribute
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    assert re.sub(r"sha256-[A-Za-z0-9+/]{43}=", "sha256-#", policy) == (
        "default-src 'none'; style-src 'sha256-#'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert page.index("Content-Security-Policy") < page.index("<style>")


@pytest.mark.slow
@NEEDS_BROWSER[1]
def test_nothing_runs_or_loads_in_a_browser_escaped_or_not(tmp_path: Path) -> None:
    page = hostile_page(tmp_path)
    raw = (
        EVIL.replace("\ud800", "").replace("</title></style></script>", "").replace("<meta http-equiv=refresh", "<meta")
    )
    with chromium() as browser:
        for source, violated in ((page, set()), (page.replace("<main", raw + "<main", 1), {"script-src-elem"})):
            opened = visit(browser, source, tmp_path / "page.html")
            assert (
                opened.page.evaluate("getComputedStyle(document.querySelector('h2')).marginTop") == "0px"
            )  # the style
            if violated:  # a link that a reader follows is stopped by no policy
                opened.page.evaluate("document.querySelectorAll('main, main *').forEach(one => one.remove())")
            assert opened.page.evaluate(TOUCH) > 0
            assert opened.happened() == []
            assert opened.asked == []
            assert {violation.split()[0] for violation in opened.violations()} >= violated
            assert bool(opened.violations()) == bool(violated)
            opened.page.close()
