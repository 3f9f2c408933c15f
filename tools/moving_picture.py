"""Make docs/pictures/hide-a-word.gif anew: a word is hidden in the explorer, and the probability changes.

    python tools/moving_picture.py

It needs Chromium and Pillow, which matplotlib brings.
"""

from __future__ import annotations

import io
import shutil
from typing import TYPE_CHECKING

from pictures import EXPLORER_FLAGS, PICTURES, WAIT

if TYPE_CHECKING:
    from PIL.Image import Image

WORDS = (15, 9)  # "mess" and "drags" of the explorer's first example
WIDTH, HEIGHT = 860, 1100  # of the page, so that nothing scrolls
TALL = 560  # pixels of the picture, from the top of the decision
LONG, SHORT = 1800, 700  # milliseconds of a frame
GOAL = PICTURES / "hide-a-word.gif"
MOST_BYTES = 1_000_000


def frames() -> list[tuple[Image, int]]:
    """Pictures of the page, each with how long it is shown."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    from wherefrom.explorer.serve import ExplorerServer

    server = ExplorerServer(["embedded"], [], port=0)
    server.start()
    taken: list[tuple[Image.Image, int]] = []
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=EXPLORER_FLAGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.set_default_timeout(WAIT)

        def take(duration: int) -> None:
            top = page.evaluate("document.querySelector('#words').closest('section').getBoundingClientRect().top")
            shown = page.screenshot(clip={"x": 0, "y": top - 8, "width": WIDTH, "height": TALL})
            taken.append((Image.open(io.BytesIO(shown)).convert("RGB"), duration))

        page.goto(server.address)
        page.wait_for_selector("body[data-ready]")
        page.locator(".best:not(:empty)").wait_for()
        page.mouse.move(5, 5)
        take(LONG)
        for word in WORDS:
            place = page.locator("#words .w").nth(word)
            place.hover()
            take(SHORT)
            before = page.locator("#change").inner_text()
            place.click()
            page.wait_for_function("before => document.querySelector('#change').innerText !== before", arg=before)
            page.mouse.move(5, 5)
            page.wait_for_timeout(600)
            take(LONG)
        browser.close()
    server.stop()
    return taken


def main() -> None:
    taken = frames()
    palette = taken[0][0].quantize(128)
    pictures = [picture.quantize(palette=palette, dither=0) for picture, _ in taken]
    durations = [duration for _, duration in taken]
    pictures[0].save(GOAL, save_all=True, append_images=pictures[1:], duration=durations, loop=0, optimize=True)
    size = GOAL.stat().st_size
    print(f"{GOAL.name}: {len(pictures)} frames, {size:,} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"The picture has more than {MOST_BYTES:,} bytes: use fewer colours or a smaller page.")


if __name__ == "__main__":
    main()
