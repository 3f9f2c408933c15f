"""Pictures of the views for docs/before-and-after.md, by whichever `wherefrom` is imported.

    PYTHONPATH=OLD/src python tools/before_and_after.py before   # OLD: the repository as it was, such as at 434d1ad
    python tools/before_and_after.py after

All commands run in this one process on the same input, and Chromium takes the pictures.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SENTENCE = "A gorgeous, witty film, but the plot drags and the ending is a mess."
SATURATED = "A gorgeous and witty film."
METHODS = "attcat,attn_lrp,integrated_gradients,alti,attention_rollout,occlusion,random"
METRICS = "comprehensiveness,sufficiency,rft,aopc"
GROUNDS = {"dark": ("#0d1117", "#e6edf3"), "light": ("#ffffff", "#1f2328")}
COLUMNS = 96


def command(*arguments: str) -> str:
    """What a command prints in a terminal of many colours."""
    from wherefrom.cli.main import app

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        app(list(arguments))
    return out.getvalue()


def terminal_page(printed: str, theme: str) -> str:
    """A terminal with this ground, as a page."""
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    ground, ink = GROUNDS[theme]
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(printed))
    code = console.export_html(inline_styles=True, code_format="{code}", theme=MONOKAI)
    style = f"background:{ground};color:{ink};margin:0;padding:16px;font:14px/1.35 'DejaVu Sans Mono',monospace"
    return f'<meta charset="utf-8"><body style="{style}"><pre style="margin:0;font:inherit">{code}</pre>'


def write_pages(folder: Path) -> None:
    """Every view of the same text, by the commands and in a notebook."""
    import wherefrom

    os.environ |= {"FORCE_COLOR": "1", "COLORTERM": "truecolor", "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    for theme in GROUNDS:
        os.environ["COLORFGBG"] = "15;0" if theme == "dark" else "0;15"
        printed = command("explain", SENTENCE)
        (folder / f"terminal-{theme}.html").write_text(terminal_page(printed, theme), encoding="utf-8")
    command("explain", SENTENCE, "--html", str(folder / "explain.html"))
    command("explain", SATURATED, "--html", str(folder / "saturated.html"))
    names = ("--methods", METHODS, "--metrics", METRICS)
    command("compare", SENTENCE, *names, "--html", str(folder / "compare.html"))
    command("flow", "A gorgeous, witty film, but the plot drags.", "--html", str(folder / "flow.html"))
    command("run", "sample:reviews", *names, "--limit", "16", "--workers", "1", "--out", str(folder / "run"))
    command("report", str(folder / "run"), "--html", str(folder / "report.html"))
    model = wherefrom.load("embedded")
    flow = model.flow("A gorgeous, witty film, but the plot drags.")
    try:
        explanation = model.explain(SENTENCE, check=True)  # as it is in a notebook's kernel, since there is a check
    except wherefrom.WherefromError:
        explanation = model.explain(SENTENCE)
    cells = [("model.explain(text)", explanation), ("model.flow(text)", flow)]
    (folder / "notebook.html").write_text(notebook_page(cells), encoding="utf-8")


def notebook_page(cells: Sequence[tuple[str, object]]) -> str:
    """Cells with their outputs, as a notebook shows them: the HTML of an object that has one, else its repr."""
    from html import escape

    shown = ['<meta charset="utf-8"><body style="background:#fff;margin:16px;font:14px sans-serif">']
    for code, value in cells:
        rich_view = getattr(value, "_repr_html_", None)
        output = rich_view() if rich_view is not None else f"<pre>{escape(repr(value))[:600]}</pre>"
        shown.append(
            f'<pre style="background:#f5f5f5;border:1px solid #ddd;padding:8px;margin:0 0 8px">{escape(code)}</pre>'
            f'<div style="margin:0 0 20px 12px;overflow:hidden">{output}</div>'
        )
    return "".join(shown)


# page, name of the picture, width, largest height, colour scheme
SHOTS = (
    ("terminal-dark", "terminal", 860, 1000, "dark"),
    ("terminal-light", "terminal-light", 860, 1000, "light"),
    ("explain", "explain", 1100, 900, "light"),
    ("explain", "explain-dark", 1100, 900, "dark"),
    ("explain", "explain-phone", 375, 900, "light"),
    ("saturated", "saturated", 1100, 420, "light"),
    ("compare", "compare", 1100, 900, "light"),
    ("compare", "compare-phone", 375, 900, "light"),
    ("report", "report", 1100, 1000, "light"),
    ("report", "report-phone", 375, 900, "light"),
    ("flow", "flow", 1000, 800, "light"),
    ("notebook", "notebook", 900, 900, "light"),
)


def photograph(folder: Path, when: str) -> None:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        )
        for page_name, name, width, most, scheme in SHOTS:
            page = browser.new_page(
                viewport={"width": width, "height": 100},
                color_scheme="dark" if scheme == "dark" else "light",
            )
            page.goto((folder / f"{page_name}.html").as_uri())
            height = min(most, page.evaluate("document.documentElement.scrollHeight"))
            page.set_viewport_size({"width": width, "height": height})
            target = PICTURES / f"{when}-{name}.png"
            target.write_bytes(page.screenshot())
            page.close()
            with Image.open(target) as picture:
                picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
                    target, optimize=True
                )
        browser.close()


def main() -> None:
    (when,) = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.environ.get("BEFORE_AND_AFTER_PAGES", name))
        folder.mkdir(exist_ok=True)
        if not (folder / "notebook.html").exists():
            write_pages(folder)
        photograph(folder, when)


if __name__ == "__main__":
    main()
