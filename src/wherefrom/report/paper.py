"""Coloured text for papers, as SVG, as LaTeX and drawn by matplotlib: one explanation, or a row for each of several."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from wherefrom.core.explanation import Explanation
from wherefrom.core.labels import visible
from wherefrom.errors import BadOption, MissingExtra
from wherefrom.report.colour import LIGHT, Colour, blend, coloured, scale_of
from wherefrom.report.effect import loudness_of
from wherefrom.report.pieces import lines, pieces
from wherefrom.report.wording import output

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE, LEADING, GAP = 14.0, 24.0, 14.0  # of letters, of lines, and between rows, in points
FAINT = 0.05  # strengths below this have no colour
# Widths of Helvetica's letters as parts of the size, roughly. An SVG states the width of every word, so that the boxes
# fit the letters whatever font a reader has.
WIDTHS = {0.25: "ijl'|!.,:;", 0.32: 'ft()[]{}/\\-r I"`', 0.8: "mwMW%@", 0.72: "ABCDEGHKNOPQRSTUVXYZ&"}
LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "-": r"{-}",  # two or three of them would become a dash
    "[": r"{[}",  # or it would start an option of the command before it
    "]": r"{]}",
    ",": r"{,}",
} | {character: f"\\{character}" for character in "&%$#_"}


Rows = Sequence[tuple[str, Explanation]]  # each with its name


class InkedWord(NamedTuple):
    """A stretch of the text that is drawn as one: without a space in it, or white space alone."""

    text: str
    colour: Colour | None = None
    against: bool = False  # is underlined


class PlacedWord(NamedTuple):
    """A word with its position: from the left, in points, and the number of its line."""

    word: InkedWord
    left: float
    line: int
    width: float


def caption(explanation: Explanation) -> str:
    """The method, the target and its probability."""
    if explanation.probability is None and explanation.value is None:
        return f"{explanation.method}: {explanation.target}".removesuffix(": ")
    return f"{explanation.method}: {explanation.target} ({output(explanation.output, explanation)})"


def words_of(explanation: Explanation, *, special: bool = False) -> list[InkedWord]:
    """The text with its colours; its pair is in a new line."""
    shown = pieces(explanation, special=special)
    scale = scale_of([piece.score for piece in shown], signed=explanation.signed, loudness=loudness_of(explanation))
    words: list[InkedWord] = []
    for place, line in enumerate(lines(explanation, shown)):
        words += [InkedWord("\n")] * bool(place)
        for run in line:
            colour, against = None, False
            if run.piece is not None:
                shade = coloured(run.piece.score, scale, signed=explanation.signed)
                if shade.strength >= FAINT:
                    colour, against = blend(shade, LIGHT), shade.side == "against"
            text = visible(run.text or (f" {run.piece.label} " if run.piece is not None else ""))
            for part in re.findall(r"\s+|\S+", text):
                words.append(InkedWord(part) if part.isspace() else InkedWord(part, colour, against))
    return words


def laid_out(words: Sequence[InkedWord], width: float, measure: Callable[[str], float]) -> tuple[list[PlacedWord], int]:
    """The words in lines of at most this width, and how many lines that takes. A word of several pieces is not broken,
    unless it is wider than a line.
    """
    placed, left, line = list[PlacedWord](), 0.0, 0
    for number, word in enumerate(words):
        if word.text.isspace():
            if "\n" in word.text:
                left, line = 0.0, line + word.text.count("\n")
            elif left:
                left += measure(" ")
            continue
        starts = number == 0 or words[number - 1].text.isspace()
        rest = words[number:] if starts else [word]
        end = next((place for place, other in enumerate(rest) if other.text.isspace()), len(rest))
        if left and left + sum(measure(other.text) for other in rest[:end]) > width:
            left, line = 0.0, line + 1
        size = measure(word.text)
        placed.append(PlacedWord(word, left, line, size))
        left += size
    return placed, line + 1


def estimated_width(text: str) -> float:
    """About the width of a text in a sans-serif font, in points."""
    return SIZE * sum(_width(character) for character in text)


def _width(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    return next((width for width, characters in WIDTHS.items() if character in characters), 0.56)


def to_svg(rows: Rows, *, width: float, special: bool = False) -> str:
    """The text once for each row, below its name, as a self-contained picture. width: in points."""
    if width < 100:
        raise BadOption(f"A picture of coloured text is at least 100 points wide, not {width:g}.")
    body, top = list[str](), 0.0
    for name, explanation in rows:
        body.append(
            f'<text x="0" y="{top + SIZE:.1f}" font-size="{0.85 * SIZE:.1f}" fill="{_hex("soft")}">{_xml(name)}</text>'
        )
        placed, count = laid_out(words_of(explanation, special=special), width, estimated_width)
        top += LEADING
        for word, left, line, size in placed:
            y = top + line * LEADING + SIZE
            if word.colour is not None:
                box = f'x="{left:.1f}" y="{y - SIZE:.1f}" width="{size:.1f}" height="{1.3 * SIZE:.1f}"'
                body.append(f'<rect {box} rx="2" fill="{_rgb(word.colour)}"/>')
            if word.against:
                under = f'x1="{left:.1f}" x2="{left + size:.1f}" y1="{y + 3:.1f}" y2="{y + 3:.1f}"'
                body.append(f'<line {under} stroke="{_hex("ink")}" stroke-width="1.2"/>')
            where = f'x="{left:.1f}" y="{y:.1f}" textLength="{size:.1f}" lengthAdjust="spacingAndGlyphs"'
            body.append(f'<text {where} fill="{_hex("ink")}">{_xml(word.text)}</text>')
        top += count * LEADING + GAP
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {top:.0f}" width="{width:.0f}"'
        f' height="{top:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="{SIZE:g}" xml:space="preserve">'
    )
    return "\n".join([opening, *body, "</svg>\n"])


def _xml(text: str) -> str:
    """A text as SVG has it, without the two characters that XML does not allow and `visible` leaves."""
    return escape(re.sub("[\ufffe\uffff]", "\ufffd", visible(text)))


def _rgb(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _hex(name: str) -> str:
    return _rgb(LIGHT[name])


def to_latex(rows: Rows, *, special: bool = False) -> str:
    """The text once for each row, beside its name; without a name where there is one row. It needs the package xcolor
    alone.
    """
    texts = [(name, latex_text(words_of(explanation, special=special))) for name, explanation in rows]
    needs = r"% \usepackage[T1]{fontenc} \usepackage{textcomp} \usepackage{xcolor}"
    if any(ord(character) > 0x17F for _, text in texts for character in text):
        needs += "; compile with LuaLaTeX or XeLaTeX and a font that has all characters"
    if len(texts) == 1:
        return f"{needs}\n{{\\setlength{{\\fboxsep}}{{1pt}}{texts[0][1]}\\par}}\n"
    body = "\n".join(f"{escape_latex(visible(name))} & {text} \\\\" for name, text in texts)
    columns = r"l@{\hspace{1em}}p{0.75\linewidth}"
    return f"{needs}\n{{\\setlength{{\\fboxsep}}{{1pt}}\n\\begin{{tabular}}{{{columns}}}\n{body}\n\\end{{tabular}}}}\n"


def latex_text(words: Sequence[InkedWord]) -> str:
    """Words in coloured boxes; those that speak against the target are underlined."""
    parts = []
    for word in words:
        if word.text.isspace():
            parts.append(r" \newline " if "\n" in word.text else " ")
            continue
        text = escape_latex(word.text)
        if word.against:
            text = rf"\underline{{{text}}}"
        if word.colour is not None:
            text = rf"\colorbox[RGB]{{{','.join(map(str, word.colour))}}}{{\strut {text}}}"
        parts.append(text)
    return "".join(parts).strip()


def escape_latex(text: str) -> str:
    """A text that LaTeX prints as it is written."""
    return "".join(LATEX.get(character, character) for character in text)


def draw_text(rows: Rows, ax: Axes | None = None, *, special: bool = False) -> Axes:
    """The text once for each row, below its name, drawn by matplotlib. On axes that are given, the text is as large as
    fits.
    """
    try:
        from matplotlib import pyplot
        from matplotlib.patches import Rectangle
        from matplotlib.textpath import TextPath
    except ModuleNotFoundError as error:
        raise MissingExtra("Drawing a picture", "report") from error

    def measure(text: str) -> float:
        end = TextPath((0, 0), f"{text}|", size=SIZE).get_extents().x1
        return float(end - TextPath((0, 0), "|", size=SIZE).get_extents().x1)

    width = 460.0 if ax is None else ax.bbox.width * 72 / ax.figure.dpi
    layouts = [(name, laid_out(words_of(row, special=special), width, measure)) for name, row in rows]
    height = sum(LEADING * (1 + count) + GAP for _, (_, count) in layouts)
    if ax is None:
        ax = pyplot.figure(figsize=(width / 72, height / 72)).add_axes((0.0, 0.0, 1.0, 1.0))
    shrink = min(1.0, ax.bbox.height * 72 / ax.figure.dpi / height)
    ax.set_xlim(0, width / shrink)
    ax.set_ylim(height, 0)
    ax.axis("off")
    top = 0.0
    for name, (placed, count) in layouts:
        soft, ink = _hex("soft"), _hex("ink")
        ax.text(0, top + SIZE, visible(name), fontsize=0.8 * SIZE * shrink, color=soft, parse_math=False)
        top += LEADING
        for word, left, line, size in placed:
            y = top + line * LEADING + SIZE
            if word.colour is not None:
                ax.add_patch(Rectangle((left, y - SIZE), size, 1.3 * SIZE, color=_rgb(word.colour), linewidth=0))
            if word.against:
                ax.plot([left, left + size], [y + 3, y + 3], color=ink, linewidth=shrink)
            ax.text(left, y, word.text, fontsize=SIZE * shrink, color=ink, parse_math=False)
        top += count * LEADING + GAP
    return ax
