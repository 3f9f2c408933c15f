"""Pages and texts in the source are plain English: short sentences, and none of the phrases to avoid."""

from __future__ import annotations

import ast
import re
import runpy
import tomllib
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[1]
READING = runpy.run_path(str(ROOT / "tools" / "reading_ease.py"))
PAGES = [str(page.relative_to(ROOT)) for page in READING["pages"]()]
SOURCES = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("src/**/*.py"))]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_none_of_the_phrases_to_avoid(page: str) -> None:
    assert READING["found_phrases"](READING["text_of"](ROOT / page)) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_the_median_sentence_of_a_page_is_short(page: str) -> None:
    lengths = [len(words) for words in READING["sentences"](READING["text_of"](ROOT / page))]
    assert not lengths or median(lengths) <= READING["MOST_WORDS"]


def strings_of(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings, messages and help texts of a module, each with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


@pytest.mark.parametrize("source", SOURCES)
def test_texts_in_the_source_have_none_of_the_phrases_to_avoid(source: str) -> None:
    found = [(line, READING["found_phrases"](text)) for line, text in strings_of(ROOT / source)]
    assert [entry for entry in found if entry[1]] == []


def test_phrases_and_long_sentences_are_noticed() -> None:
    assert READING["found_phrases"]("A run that was stopped\ngoes on; the scale stands below.") == [
        "goes on",
        "stands below",
    ]
    assert READING["found_phrases"]("It resumes. The loss goes on to zero.") == []
    text = "# A heading\n\nOne short sentence. Another `piece of code` here.\n\n| a | table |\n\n```\ncode\n```\n"
    assert [len(words) for words in READING["sentences"](text)] == [3, 3]


def test_links_of_llms_txt_lead_somewhere() -> None:
    text = (ROOT / "llms.txt").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_the_badges_of_the_readme_are_true() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"badge/python-{project['requires-python'].removeprefix('>=')}+-" in readme
    assert f"badge/licence-{project['license'].replace('-', '--')}-" in readme
    (workflow,) = re.findall(r"actions/workflows/([\w.]+)/badge\.svg", readme)
    assert (ROOT / ".github" / "workflows" / workflow).is_file()


def test_the_moving_picture_is_small() -> None:
    assert (ROOT / "docs" / "pictures" / "hide-a-word.gif").stat().st_size < 1_000_000
