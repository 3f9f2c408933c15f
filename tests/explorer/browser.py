"""A Chromium for the tests, without which there is nothing to test."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NEEDS_BROWSER = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: install Debian's package chromium"),
]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
FLAGS += ["--disable-sync", "--no-first-run", "--disable-dev-shm-usage"]
LIMIT = 120_000  # milliseconds that anything may take on a slow machine


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=LIMIT)
        try:
            yield browser
        finally:
            browser.close()


def until(page: Any, condition: str, given: Any = None) -> None:
    """Wait until a function of the page gives true. Playwright's own way evaluates texts inside of the page, which its
    policy forbids.
    """
    ends = time.monotonic() + LIMIT / 1000
    while not page.evaluate(condition, given):
        assert time.monotonic() < ends, f"never: {condition} {given}"
        page.wait_for_timeout(30)


@contextmanager
def opened(browser: Any, address: str, *, width: int = 1100, dark: bool = False) -> Iterator[Any]:
    """A page in a window of its own. Whatever goes wrong in its script fails the test."""
    scheme = "dark" if dark else "light"
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, permissions=["clipboard-read", "clipboard-write"]
    )
    context.set_default_timeout(LIMIT)
    page, wrong = context.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda line: wrong.append(line.text) if "Content Security" in line.text else None)
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    until(page, "() => /[0-9]/.test(document.querySelector('#chance').textContent)")
    try:
        yield page
        assert wrong == []
    finally:
        context.close()
