"""An explanation in the terminal: the text in colour, its strongest pieces, and what to know about the numbers."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from wherefrom.core.explanation import Explanation, Theme
from wherefrom.core.labels import visible
from wherefrom.report.colour import DARK, LIGHT, Colour, ColourScale, Shade, blend, coloured, largest, scale_of, shade
from wherefrom.report.effect import effect_of, loudness_of, moved_by, unit_in_words, warning
from wherefrom.report.pieces import Piece, TextRun, line_extents, lines, pieces
from wherefrom.report.selection import CandidateTable, candidate_tables
from wherefrom.report.wording import (
    doubts,
    findings,
    notes_of,
    number,
    options,
    output,
    plus_minus,
    predicted,
    predicts,
    scale_ends,
    unassigned,
    unit_rule,
)

TOP = 6  # rows of the table below a coloured text
TOP_PLAIN = 24  # rows where there is no colour, so that the table is all there is
DIVIDER = 24  # the width of the line between the two texts of a pair
CELLS = 14  # the width of the bars on one side
FAINT = 0.08  # a background below this strength is not visible, or looks like a dark box on a grey terminal
BOXED = 0.3  # where the background is not known, weaker words have coloured letters instead of a box, which might glare
PALE_LETTERS = 0.15  # and the palest of these are dim
UNDERLINED = 0.25  # of the strongest colour shown, from there on; underlining weaker ones would clutter the text
LEFT_TO_RIGHT = "\u200e"
SIXTEEN_COLOURS = {"for": "blue", "against": "yellow", "only": "magenta"}  # for terminals of 16 colours
VERDICT_STYLES = {"supported": "bold", "weak": "bold", "not supported": "bold reverse", "too short": "bold"}


class BarCharacters(NamedTuple):
    """The characters that bars are drawn with."""

    full: str
    half_for: str
    half_against: str
    axis: str
    dot: str
    hollow: str
    rule: str


BLOCKS = BarCharacters("█", "▌", "▐", "│", " · ", "░", "─")
ASCII = BarCharacters("#", "", "", "|", " | ", ":", "-")


class Terminal(NamedTuple):
    """A terminal, and what it can show."""

    console: Console
    palette: Mapping[str, Colour]
    signed: bool
    ground_known: bool = True  # whether the background is as dark or as light as the palette
    colours: bool = True

    @property
    def coloured(self) -> bool:
        return self.colours and self.console.color_system is not None and not self.console.no_color

    @property
    def characters(self) -> BarCharacters:
        return ASCII if self.console.options.ascii_only else BLOCKS

    def text(self, text: str, style: Style | str = "") -> Text:
        """Text that means nothing but itself: no markup, no control characters, nothing the terminal's encoding
        lacks.
        """
        if self.characters is ASCII:
            text = text.replace("±", "+-")
        safe = visible(text).encode(self.console.encoding, "backslashreplace").decode(self.console.encoding)
        return Text(safe, style if self.coloured else "")

    def name(self, text: str) -> Text:
        """Text for a column. Right-to-left words are fenced, or terminals that know about direction would turn the
        whole row.
        """
        turns = any(unicodedata.bidirectional(character) in {"R", "AL", "AN"} for character in text)
        return self.text(f"{LEFT_TO_RIGHT}{text}{LEFT_TO_RIGHT}" if turns else text)

    def behind(self, shade: Shade, loudness: float = 1.0) -> Style:
        """A coloured ground, with ink that is legible on it. What speaks against is underlined too, for eyes that miss
        the colour.
        """
        underline = shade.side == "against" and shade.strength >= UNDERLINED * loudness
        if not self.coloured:
            return Style()
        if shade.strength < FAINT * loudness:
            return Style()
        if self.console.color_system in ("standard", "windows"):
            hue = SIXTEEN_COLOURS[shade.side]
            if shade.strength < 0.4:
                return Style(color=hue, underline=underline, dim=shade.strength < PALE_LETTERS)
            return Style(color="black" if hue == "yellow" else "bright_white", bgcolor=hue, underline=underline)
        if not self.ground_known and shade.strength < BOXED:
            return self.bar(shade) + Style(underline=underline, dim=shade.strength < PALE_LETTERS)
        ink, ground = Color.from_rgb(*self.palette["ink"]), Color.from_rgb(*blend(shade, self.palette))
        return Style(color=ink, bgcolor=ground, underline=underline)

    def bar(self, shade: Shade) -> Style:
        if not self.coloured:
            return Style()
        if self.console.color_system in ("standard", "windows"):
            return Style(color=SIXTEEN_COLOURS[shade.side])
        return Style(color=Color.from_rgb(*MIDDLE[shade.side]))


# Hues that are visible on a light and on a dark background (contrast 3 or more on either), for bars and letters.
MIDDLE: Mapping[str, Colour] = {"for": (58, 124, 230), "against": (196, 112, 16), "only": (138, 104, 214)}


def terminal_of(console: Console, *, signed: bool, theme: Theme = "auto") -> Terminal:
    """What the terminal can show. Some give their background in COLORFGBG, as "ink;ground" in sixteen colours. Where it
    is unknown, the palette is the dark one, and weak words get no box.
    """
    ground = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    known = theme != "auto" or ground.isdecimal()
    light = theme == "light" or (theme == "auto" and ground in LIGHT_GROUNDS)
    return Terminal(console, LIGHT if light else DARK, signed, known, colours=theme != "none")


LIGHT_GROUNDS = {"7", "15"}


def print_explanation(
    explanation: Explanation, *, special: bool = False, console: Console | None = None, theme: Theme = "auto"
) -> None:
    """Print the text with its scores; without colour where the output is not a terminal or NO_COLOR is set."""
    console = console or Console()
    terminal = terminal_of(console, signed=explanation.signed, theme=theme)
    shown = pieces(explanation, special=special)
    loudness = loudness_of(explanation, special=special)
    scale = scale_of((piece.score for piece in shown), signed=explanation.signed, loudness=loudness)

    console.print(_headline(explanation, terminal))
    warned = warning(explanation)
    if warned:
        console.print(terminal.text(warned, "bold"))
    console.print()
    for extent, line in zip(line_extents(explanation), lines(explanation, shown), strict=True):
        if extent.segment:  # the second text of a pair, which would look like another line of the first
            console.print(terminal.text(terminal.characters.rule * DIVIDER, "dim"))
        role = [terminal.text(f"{extent.role}: ", "bold")] if extent.role else []
        console.print(Text.assemble(*role, *(_run(run, scale, terminal) for run in line)), overflow="fold")
    console.print()
    if scale.full:
        console.print(_table(shown, unassigned(explanation), terminal))
        console.print(terminal.text(_scale_line(explanation, scale, special=special), "dim"))
    else:
        console.print(terminal.text("Every score is zero."))
    _print_check(explanation, terminal)
    for candidates in candidate_tables(explanation):
        console.print()
        console.print(_candidate_table(candidates, terminal))
    footer = terminal.characters.dot.join(f"{name} {value}" for name, value in doubts(explanation))
    if footer:
        console.print()
        console.print(terminal.text(footer, "dim"))
    for note in notes_of(explanation):
        console.print(terminal.text(f"note: {note}", "dim"))


def _headline(explanation: Explanation, terminal: Terminal) -> Text:
    about = f" ({options(explanation.params)})" if explanation.params else ""
    chance = predicts(explanation)
    line = Text.assemble(
        terminal.text(explanation.method, "bold"),
        terminal.text(about, "dim"),
        terminal.text(" explains "),
        terminal.text(explanation.target or "a prediction", "bold"),
        terminal.text(f" ({chance})" if chance else ""),
    )
    instead = predicted(explanation)
    return line.append_text(terminal.text(f"; the model predicts {instead}", "yellow")) if instead else line


def _scale_line(explanation: Explanation, scale: ColourScale, *, special: bool) -> str:
    """The two ends of the colours, and what the scores mean for the decision."""
    full = number(scale.full, scale.full, signed=False)
    if explanation.signed:
        against, for_it = scale_ends(explanation)
        line = f"scale: -{full} {against} to +{full} {for_it}"
    else:
        line = f"scale: {number(scale.start, scale.full, signed=False) if scale.start else '0'} to {full}, without sign"
    unit, rule = unit_in_words(explanation), unit_rule(explanation)
    line += f", {unit}" if unit else ""
    line += f"; {rule}" if rule else ""
    effect = effect_of(explanation, special=special)
    if effect is None or effect.measured:
        return line
    whole = output(explanation.output, explanation)
    return f"{line}; together they could move {whole} by {moved_by(effect, explanation)}"


def _print_check(explanation: Explanation, terminal: Terminal) -> None:
    """The verdicts, and what the model did when it was put to the test."""
    for finding in findings(explanation):
        terminal.console.print()
        line = Text.assemble(
            terminal.text(f" {finding.verdict} ", VERDICT_STYLES[finding.verdict]), " ", terminal.text(finding.sentence)
        )
        terminal.console.print(line)
        if finding.which:
            terminal.console.print(terminal.text(f"Hidden: {finding.which}.", "dim"))


def _run(run: TextRun, scale: ColourScale, terminal: Terminal) -> Text:
    if run.piece is None:
        return terminal.text(run.text, "dim strike" if run.unread else "")
    style = terminal.behind(coloured(run.piece.score, scale, signed=terminal.signed), scale.loudness)
    if run.text:
        return terminal.text(run.text, style)
    return Text.assemble(" ", terminal.text(run.piece.label, style + Style(italic=True)), " ")  # a special token


def _table(shown: list[Piece], apart: list[tuple[str, float]], terminal: Terminal) -> Table:
    """The strongest first; without colour in the order of the text, because the table then replaces it. Last what the
    method could not assign, on the same scale.
    """
    scale = largest([*(piece.score for piece in shown), *(value for _, value in apart)])
    order = sorted(range(len(shown)), key=lambda place: -abs(shown[place].score))
    places = order[:TOP] if terminal.coloured else sorted(order[:TOP_PLAIN])
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(
        no_wrap=True,
        overflow="crop" if terminal.characters is ASCII else "ellipsis",
        max_width=max(8, terminal.console.width - 2 * CELLS - 16),
    )
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    drawn = any(piece.error for piece in shown)
    if drawn:
        table.add_column(no_wrap=True, justify="right")
    for place in places:
        piece = shown[place]
        score = terminal.text(number(piece.score, scale, signed=terminal.signed))
        table.add_row(
            terminal.name(piece.label),
            _bar(shade(piece.score, scale, signed=terminal.signed), terminal),
            score,
            *([terminal.text(plus_minus(piece.error, scale), "dim")] if drawn else ()),
        )
    left = len(shown) - len(places)
    if left:
        table.add_row(terminal.text(f"and {left} weaker", "dim"))
    for name, value in apart:
        side = shade(value, scale, signed=True)
        bar = _bar(side if terminal.signed else side._replace(side="only"), terminal, hollow=True)
        table.add_row(terminal.text(name, "italic"), bar, terminal.text(number(value, scale, signed=True)))
    return table


def _candidate_table(candidates: CandidateTable, terminal: Terminal) -> Table:
    """The candidates with their grades, the best first."""
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column(terminal.text("chosen among"))
    for metric in candidates.metrics:
        table.add_column(terminal.text(metric), justify="right")
    for row in candidates.rows[:TOP]:
        style = "bold" if row.mark == "chosen" else ""
        table.add_row(
            terminal.text(f"{row.name} ({row.mark})" if row.mark else row.name, style),
            *(terminal.text(grade, style) for grade in row.grades),
        )
    if len(candidates.rows) > TOP:
        table.add_row(terminal.text(f"and {len(candidates.rows) - TOP} more", "dim"))
    return table


def _bar(shade: Shade, terminal: Terminal, *, hollow: bool = False) -> Text:
    """One side's bar grows left of the axis, the other's right of it; a method without sign has one side only.

    hollow: for what belongs to no unit.
    """
    characters = terminal.characters
    halves = 2 * round(shade.strength * CELLS) if hollow else round(shade.strength * CELLS * 2)
    full = (characters.hollow if hollow else characters.full) * (halves // 2)
    if shade.side == "against":
        left, right = (characters.half_against * (halves % 2) + full).rjust(CELLS), " " * CELLS
    else:
        left, right = " " * CELLS, (full + characters.half_for * (halves % 2)).ljust(CELLS)
    style = Style() if hollow else terminal.bar(shade)
    if shade.side == "only":
        return terminal.text(right, style)
    return Text.assemble(terminal.text(left, style), terminal.text(characters.axis, "dim"), terminal.text(right, style))
