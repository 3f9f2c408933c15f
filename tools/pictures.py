"""Make the pictures of docs/pictures anew, from the pages that the commands write: `make pictures`.

Chromium takes them; where there is none, install Debian's package `chromium`. The picture of the tab "Answer" needs a
causal language model, which is not part of the package: `python tools/pictures.py FOLDER` makes that picture alone,
with the model in this folder (SmolLM2-135M-Instruct in docs/pictures). `python tools/pictures.py --moving` makes the
moving picture alone.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
SENTENCE = "A gorgeous, witty film, but the plot drags and the ending is a mess."
SATURATED = "A gorgeous and witty film."
METHODS = "attcat,attn_lrp,integrated_gradients,alti,attention_rollout,occlusion,random"
METRICS = "comprehensiveness,sufficiency,rft,aopc"


def wherefrom(*arguments: str) -> None:
    """Run the command of this environment."""
    subprocess.run([sys.executable, "-m", "wherefrom", *arguments], check=True, cwd=ROOT)


def photograph(page: Path, picture: Path, size: tuple[int, int], profile: Path) -> None:
    """The top of a page, light, as Chromium shows it."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("There is no Chromium to take pictures with.")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking"]
    own = [f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}", f"--screenshot={picture}"]
    subprocess.run([browser, *flags, *own, page.as_uri()], check=True, capture_output=True)


EXPLORER_FLAGS = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking"]
WAIT = 600_000  # milliseconds


def explorer(run: Path) -> None:
    """The explorer at work: a word hidden, a method's words vanishing, the inside, a run."""
    from playwright.sync_api import sync_playwright

    from wherefrom.explorer.serve import ExplorerServer

    server = ExplorerServer(["embedded"], [run], port=0)
    server.start()
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=EXPLORER_FLAGS)
        page = browser.new_page(viewport={"width": 1100, "height": 900}, color_scheme="light")
        page.set_default_timeout(WAIT)
        page.goto(server.address)
        page.wait_for_selector("body[data-ready]")
        page.locator(".best:not(:empty)").wait_for()
        page.locator("#words .w").nth(15).click()
        page.locator("#change b").wait_for()
        page.locator("#claims tr").first.wait_for()
        page.mouse.move(5, 5)
        page.evaluate("scrollTo(0, 0)")
        last = page.locator(".row").nth(2).bounding_box()
        assert last is not None
        page.set_viewport_size({"width": 1100, "height": round(last["y"] + last["height"])})
        page.screenshot(path=PICTURES / "explorer.png")
        page.locator(".hide-top summary").nth(1).click()
        page.locator(".band").wait_for()
        page.locator(".topk input").nth(1).evaluate("e => { e.value = 3; e.dispatchEvent(new Event('input')); }")
        page.mouse.move(5, 5)
        page.locator("#methods").screenshot(path=PICTURES / "explorer-methods.png")
        page.locator("#inside-details summary").first.click()
        page.locator("#flow-told").wait_for()
        page.locator("[data-head='2.3']").click()
        page.locator("#switch-head").click()
        page.locator("#heads-change b").wait_for()
        page.mouse.move(5, 5)
        page.locator("#inside").screenshot(path=PICTURES / "explorer-inside.png")
        page.locator("#only-disagree").check()
        page.locator("#runs").screenshot(path=PICTURES / "explorer-runs.png")
        browser.close()
    server.stop()


TALL = 560  # pixels of the moving picture, from the top of the decision
MOST_BYTES = 1_000_000
LONG, SHORT = 2000, 800  # milliseconds of a frame


def moving() -> None:
    """The moving picture: two words are hidden one after the other, and the probability changes."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    from wherefrom.explorer.serve import ExplorerServer

    server = ExplorerServer(["embedded"], [], port=0)
    server.start()
    frames, durations = [], []
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=EXPLORER_FLAGS)
        page = browser.new_page(viewport={"width": 860, "height": 1100}, color_scheme="light")  # nothing scrolls
        page.set_default_timeout(WAIT)

        def take(duration: int) -> None:
            top = page.evaluate("document.querySelector('#decision').getBoundingClientRect().top")
            shown = page.screenshot(clip={"x": 0, "y": top - 8, "width": 860, "height": TALL})
            frames.append(Image.open(io.BytesIO(shown)).convert("RGB"))
            durations.append(duration)

        page.goto(server.address)
        page.wait_for_selector("body[data-ready]")
        page.locator(".best:not(:empty)").wait_for()
        take(LONG)
        for word in (15, 9):  # "mess" and "drags" of the first example
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
    palette = frames[-1].quantize(128)
    first, *rest = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames)
    path = PICTURES / "hide-a-word.gif"
    first.save(path, save_all=True, append_images=rest, duration=durations, loop=0, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        sys.exit(f"{path} has {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}.")


def answer(model: str) -> None:
    """The explorer's tab "Answer": a statement chosen, a passage unticked, all methods."""
    from playwright.sync_api import sync_playwright

    from wherefrom.explorer.serve import ExplorerServer

    server = ExplorerServer([model], port=0)
    server.start()
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=EXPLORER_FLAGS)
        page = browser.new_page(viewport={"width": 1100, "height": 900}, color_scheme="light")
        page.set_default_timeout(WAIT)
        page.goto(server.address)
        page.wait_for_selector("body[data-ready]")
        page.locator("#choose-answer").click()
        page.locator("#answer").click()
        page.locator("[data-row='kernel_shap'] td").nth(5).wait_for()
        page.locator("[data-statement='1']").click()
        page.locator("[data-passage='1']").uncheck()
        page.locator("#without q").wait_for()
        page.mouse.move(5, 5)
        page.evaluate("document.activeElement.blur()")
        page.locator("#answer-tab").screenshot(path=PICTURES / "explorer-answer.png")
        browser.close()
    server.stop()


def main() -> None:
    if sys.argv[1:] == ["--moving"]:
        moving()
        return
    if len(sys.argv) > 1:
        answer(sys.argv[1])
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wherefrom("explain", SENTENCE, "--html", str(folder / "explain.html"))
        wherefrom("explain", SATURATED, "--html", str(folder / "saturated.html"))
        wherefrom(
            "compare", SENTENCE, "--methods", METHODS, "--metrics", METRICS, "--html", str(folder / "compare.html")
        )
        flow = ("--html", str(folder / "flow.html"), "--plot", str(PICTURES / "flow_layers.png"))
        wherefrom("flow", "A gorgeous, witty film, but the plot drags.", *flow)
        run = ("--methods", METHODS, "--metrics", METRICS + ",auprc", "--out", str(folder / "run"))
        wherefrom("run", "sample:reviews", *run)
        wherefrom("report", str(folder / "run"), "--html", str(folder / "benchmark.html"))
        explorer(folder / "run")
        moving()
        sizes = {
            "explain": (1100, 990),
            "saturated": (1100, 450),
            "compare": (1330, 1120),
            "flow": (1000, 885),
            "benchmark": (1300, 1225),
        }
        for page, size in sizes.items():
            photograph(folder / f"{page}.html", PICTURES / f"{page}.png", size, folder / "profile")


if __name__ == "__main__":
    main()
