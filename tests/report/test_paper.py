"""Coloured text for papers: every character escaped, colours as in the other views, nothing outside of the picture."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from report.sentences import explain, film
from wherefrom import Comparison
from wherefrom.errors import BadOption, UnknownName
from wherefrom.report.colour import LIGHT, ColourScale, blend, coloured
from wherefrom.report.paper import InkedWord, escape_latex, estimated_width, laid_out, latex_text, words_of

HOSTILE = r"50% of $5 & {a_b} #1 ~ ^2 \input{x} <b> [c] -- it's \"x\" |y| `z` \\"
SVG = "{http://www.w3.org/2000/svg}"


def test_words_have_the_colours_of_the_page() -> None:
    explanation = film()
    words = words_of(explanation)
    assert "".join(word.text for word in words) == explanation.text
    strongest = max(explanation.units(), key=lambda unit: abs(unit.score))
    shade = coloured(strongest.score, ColourScale(abs(strongest.score)), signed=True)
    (word,) = [word for word in words if word.text == strongest.text.strip()]
    assert word.colour == blend(shade, LIGHT)
    assert word.against == (strongest.score < 0)
    assert all(word.colour is None for word in words if word.text.isspace())


def test_a_word_is_broken_at_spaces_only() -> None:
    words = [
        InkedWord("ab"),
        InkedWord("cd"),
        InkedWord(" "),
        InkedWord("ef"),
        InkedWord("gh"),
        InkedWord("\n"),
        InkedWord("i"),
    ]
    placed, count = laid_out(words, 6.0, lambda text: float(len(text)))
    assert [(one.word.text, one.left, one.line) for one in placed] == [
        ("ab", 0, 0),
        ("cd", 2, 0),
        ("ef", 0, 1),
        ("gh", 2, 1),
        ("i", 0, 2),
    ]
    assert count == 3
    wide, _ = laid_out([InkedWord("abcdefgh"), InkedWord(" "), InkedWord("i")], 6.0, lambda text: float(len(text)))
    assert [one.line for one in wide] == [0, 1]


@pytest.mark.parametrize("width", [120, 460])
def test_the_svg_is_whole_and_nothing_sticks_out(width: int) -> None:
    explanation = explain(f"{HOSTILE} </text><script>alert(1)</script> \x07 \U0001f600 電影", (0, 3, 1.0), (7, 9, -0.5))
    root = ElementTree.fromstring(explanation.to_svg(width=width))
    assert root.tag == f"{SVG}svg"
    assert not root.findall(f".//{SVG}script")
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert "50%" in texts
    drawn = [element for element in root.iter(f"{SVG}text") if "textLength" in element.attrib]
    longest = max(estimated_width(element.text or "") for element in drawn)
    for element in drawn:
        assert float(element.attrib["x"]) + float(element.attrib["textLength"]) <= max(width, longest) + 0.2
        assert float(element.attrib["y"]) <= float(root.attrib["height"])
    assert len(root.findall(f".//{SVG}rect")) == 2
    assert len(root.findall(f".//{SVG}line")) == 1  # what speaks against is underlined


def printed_latex(source: str) -> str:
    """What TeX would print of escaped text; fails on a special character that is not escaped."""
    named = {"textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^", "textless": "<"}
    named |= {"textgreater": ">", "textbar": "|", "textquotedbl": '"', "textasciigrave": "`", "textquotesingle": "'"}
    pattern = r"\\([a-z]+)\{\}|\\([&%$#_{}])|\{([-,\[\]])\}|([^\\{}&%$#_~^<>|\"`'\[\]])"
    parts = list(re.finditer(pattern, source))
    assert "".join(part[0] for part in parts) == source, "something is not escaped"
    return "".join(named[part[1]] if part[1] else part[2] or part[3] or part[4] for part in parts)


@pytest.mark.parametrize("text", [HOSTILE, "---", "``quoted''", "{}}{", "\\", "%" * 5, ",,", "a ~ b ^ c", "é ü ß"])
def test_latex_prints_a_text_as_it_is_written(text: str) -> None:
    assert printed_latex(escape_latex(text)) == text


def test_latex_of_an_explanation_is_balanced_and_coloured() -> None:
    source = explain(HOSTILE, (0, 3, 1.0), (7, 9, -0.5)).to_latex()
    first, body = source.split("\n", 1)
    assert first.startswith("% ")
    assert r"\usepackage{xcolor}" in first
    assert "LuaLaTeX" not in first
    assert r"\colorbox[RGB]{78,144,244}{\strut 50\%}" in body
    assert re.search(r"\\colorbox\[RGB\]\{\d+,\d+,\d+\}\{\\strut \\underline\{\\\$5\}\}", body)
    plain = re.sub(r"\\[\\{}]", "", body)
    depth = 0
    for character in plain:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    assert "\n\n" not in source.rstrip("\n")
    assert "LuaLaTeX" in explain("a 電影", (0, 1, 1.0)).to_latex()


def test_a_line_break_is_a_line_break() -> None:
    assert latex_text([InkedWord("a"), InkedWord("\n\n"), InkedWord("b")]) == r"a \newline b"


def test_a_comparison_has_a_row_for_every_method() -> None:
    comparison = Comparison((film(), film(method="gae"), film(method="gae")), ((), (), ()), ("a_b", "gae", "gae"))
    latex = comparison.to_latex()
    assert [line.split(" & ")[0] for line in latex.splitlines() if line.endswith("\\\\")] == [r"a\_b", "gae", "gae"]
    root = ElementTree.fromstring(comparison.to_svg())
    assert [element.text for element in root.iter(f"{SVG}text") if "textLength" not in element.attrib] == [
        "a_b",
        "gae",
        "gae",
    ]
    axes = comparison.plot()
    drawn = [text.get_text() for text in axes.texts]
    assert drawn.count("gae") == 2
    assert all(word.text in drawn for word in words_of(film()) if not word.text.isspace())


def test_plot_draws_bars_or_text() -> None:
    axes = film().plot(kind="text")
    words = [word for word in words_of(film()) if not word.text.isspace()]
    assert len(axes.patches) == sum(word.colour is not None for word in words)
    assert len(axes.texts) == 1 + len(words)
    assert len(film().plot().patches) == len(film().units())
    from matplotlib.figure import Figure

    small = Figure(figsize=(2, 0.3)).subplots()
    assert film().plot(small, kind="text") is small
    assert all(float(text.get_fontsize()) < 14 for text in small.texts)  # it shrinks where there is no room
    with pytest.raises(UnknownName, match="bars"):
        film().plot(kind="pie")  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="at least 100"):
        film().to_svg(width=5)
