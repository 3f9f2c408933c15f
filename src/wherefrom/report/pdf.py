"""A page as a PDF, printed by a browser that is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from wherefrom.errors import MissingPackage

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
PATIENCE = 120  # seconds


def print_pdf(html: str, path: Path) -> None:
    """Print a self-contained page to a file. Raises where no browser is installed, or it fails."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    advice = "Write the page with --html, open it in a browser, and print it to a PDF there."
    if browser is None:
        raise MissingPackage(f"A PDF is printed by Chromium or Chrome, and neither was found. {advice}")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(html, encoding="utf-8", errors="backslashreplace")
        command = [
            browser,
            "--headless",
            "--disable-gpu",
            f"--user-data-dir={folder}/profile",
            "--no-pdf-header-footer",
        ]
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # Chromium refuses to run as root otherwise
            command.append("--no-sandbox")
        printed = Path(folder) / "page.pdf"
        try:
            subprocess.run(
                [*command, f"--print-to-pdf={printed}", page.as_uri()],
                capture_output=True,
                timeout=PATIENCE,
                check=True,
            )
            content = printed.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise MissingPackage(f"{browser} could not print the page ({type(error).__name__}). {advice}") from error
    path.write_bytes(content)
