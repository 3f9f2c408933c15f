from __future__ import annotations

import io
import re
import unicodedata
from typing import Literal

import pytest
from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

from report.sentences import explain, film, pair
from wherefrom.core.check import Check, HiddenUnits
from wherefrom.core.explanation import Explanation, Theme
from wherefrom.report.terminal import MIDDLE, print_explanation

Colours = Literal["standard", "256", "truecolor"]


@pytest.fixture(autouse=True)
def _known_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORFGBG", "COLUMNS", "TERM", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)


class Terminal:
    """A terminal that keeps what was printed."""

    def __init__(self, colours: Colours | None = "truecolor", *, no_color: bool = False) -> None:
        self.output = io.StringIO()
        self.console = Console(
            file=self.output, force_terminal=colours is not None, color_system=colours, width=200, no_color=no_color
        )

    def show(self, explanation: Explanation, *, special: bool = False) -> list[str]:
        print_explanation(explanation, special=special, console=self.console)
        return Text.from_ansi(self.output.getvalue()).plain.split("\n")

    def styles(self) -> dict[str, Style]:
        """Every styled stretch, as the terminal would read it."""
        seen = Text.from_ansi(self.output.getvalue())
        return {seen.plain[span.start : span.end]: span.style for span in seen.spans if isinstance(span.style, Style)}

    def grounds(self) -> dict[str, tuple[int, ...]]:
        return {text: tuple(style.bgcolor.get_truecolor()) for text, style in self.styles().items() if style.bgcolor}


def test_spacing_and_headline() -> None:
    shown = Terminal().show(film(ends=9.0))
    assert shown[0] == "attcat explains positive (75.0%)"
    assert shown[2] == "A  fine film."


def test_exact_colours_scaled_by_what_is_shown() -> None:
    terminal = Terminal()
    terminal.show(film(ends=9.0))  # were [CLS] to set the scale, "fine" would be faint
    assert terminal.grounds() == {"fine": (32, 102, 206), "film": (74, 41, 14)}
    assert terminal.styles()["."].color == Color.from_rgb(*MIDDLE["for"])  # a box might glare: the ground is not known
    assert [text for text, style in terminal.styles().items() if style.underline] == [
        "film"
    ]  # a sign beside the colour


def test_light_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", "0;15")
    terminal = Terminal()
    terminal.show(film())
    assert terminal.grounds() == {"fine": (78, 144, 244), "film": (255, 216, 164), ".": (211, 227, 252)}


def test_special_tokens_shown_set_the_scale_too() -> None:
    terminal = Terminal()
    shown = terminal.show(film(ends=4.0), special=True)
    assert shown[2] == " [CLS] A  fine film. [SEP] "
    assert terminal.grounds()["[CLS]"] == (32, 102, 206)
    assert terminal.grounds()["fine"] == (27, 63, 118)  # half


def test_unsigned_methods_have_one_hue_and_no_axis() -> None:
    terminal = Terminal()
    shown = terminal.show(explain("a b", (0, 1, 1.0), (2, 3, 2.0), signed=False))
    assert terminal.grounds() == {"b": (104, 74, 176), "a": (63, 49, 102)}
    assert "│" not in "".join(shown)
    assert shown[4].split() == ["b", "█" * 14, "2.000"]


def test_pair_on_its_own_line() -> None:
    shown = Terminal().show(pair())
    assert shown[2:5] == ["Two men.", "─" * 24, "No one!"]


def test_top_table_has_the_strongest_first_on_their_sides() -> None:
    shown = Terminal().show(film())
    assert shown[4].split() == ["fine", "│" + "█" * 14, "+2.000"]
    assert shown[5].split() == ["film", "█" * 7 + "│", "-1.000"]
    assert shown[6].split() == [".", "│███▌", "+0.500"]


def test_prediction_that_differs_and_footer() -> None:
    explanation = film(
        prediction="negative",
        probabilities={"negative": 0.6},
        gap=0.25,
        unassigned=0.5,
        cut=2,
        forwards=3,
        seconds=1.5,
        notes=("Mind it.",),
    )
    shown = Terminal().show(explanation)
    assert shown[0] == "attcat explains positive (75.0%); the model predicts negative (60.0%)"
    assert shown[-3:-1] == ["cut 2 tokens not read · passes 3 forward · time 1.50 s", "note: Mind it."]
    assert [line.split() for line in shown if line.split()[:1] in (["unassigned"], ["gap"])] == [
        ["unassigned", "│" + "░" * 4, "+0.500"],
        ["gap", "│" + "░" * 2, "+0.250"],
    ]


@pytest.mark.parametrize(("colours", "no_color"), [(None, False), ("truecolor", True)])
def test_without_colour_a_table_in_the_texts_order(colours: Colours | None, no_color: bool) -> None:
    terminal = Terminal(colours, no_color=no_color)
    shown = terminal.show(film())
    assert "\x1b" not in terminal.output.getvalue()
    assert [line.split()[0] for line in shown[4:8]] == ["A", "fine", "film", "."]
    assert [line.split()[-1] for line in shown[4:8]] == ["0.000", "+2.000", "-1.000", "+0.500"]


def test_no_color_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    print_explanation(film(), console=Console(file=out, force_terminal=True, width=80))
    assert "\x1b" not in out.getvalue()


def test_sixteen_colours() -> None:
    terminal = Terminal("standard")
    terminal.show(film())
    fine, stop = terminal.styles()["fine"], terminal.styles()["."]
    assert (fine.color, fine.bgcolor) == (Color.parse("color(15)"), Color.parse("color(4)"))
    assert (stop.color, stop.bgcolor) == (Color.parse("color(4)"), None)  # too weak for a ground of full blue
    film_style = terminal.styles()["film"]
    assert (film_style.bgcolor, film_style.underline) == (Color.parse("color(3)"), True)


def test_markup_is_only_text() -> None:
    text = "[bold red]x[/] :smile: [/nope]"
    shown = Terminal().show(
        explain(
            text,
            (0, 10, 1.0),
            (10, 11, -1.0),
            target="[red]t[/]",
            method="[b]m",
            notes=("[i]n",),
            params={"[u]": "[/u]"},
        )
    )
    assert shown[0] == "[b]m ([u]=[/u]) explains [red]t[/] (75.0%); the model predicts positive"
    assert shown[2] == text
    assert shown[-2] == "note: [i]n"


def test_control_characters_do_not_reach_the_terminal() -> None:
    terminal = Terminal(None)
    bad = "a\x1b[2J\x07\x00\r\x9b31m\u202eb\ud83d"
    terminal.show(
        explain(
            bad,
            (0, 5, 1.0),
            (5, len(bad), 2.0),
            target=bad,
            prediction=bad,
            method=bad,
            notes=(bad,),
            params={bad: bad},
        )
    )
    assert not [
        character
        for character in terminal.output.getvalue()
        if unicodedata.category(character) in {"Cc", "Cs"} and character != "\n"
    ]
    assert "a\\x1b[2J\\x07\\x00\\r\\x9b31m\\u202eb\\ud83d" in terminal.output.getvalue()


def test_right_to_left_rows_are_fenced_and_aligned() -> None:
    terminal = Terminal(None)
    shown = terminal.show(explain("נפלא good", (0, 4, 1.0), (5, 9, -1.0)))
    assert shown[2] == "נפלא good"
    assert shown[4].startswith("\u200eנפלא\u200e")
    assert shown[5].startswith("good")
    assert cell_len(shown[4][: shown[4].index("│")]) == cell_len(shown[5][: shown[5].index("│")])


def test_an_ascii_terminal_gets_ascii() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    long = "é" * 120
    print_explanation(
        explain(f"🎬 {long}", (0, 1, 1.0), (2, 122, -2.0), seconds=1.0, forwards=1), console=Console(file=out, width=80)
    )
    out.flush()
    assert b"\\U0001f3ac" in raw.getvalue()
    assert b"##############|" in raw.getvalue()


def test_one_token() -> None:
    terminal = Terminal()
    shown = terminal.show(explain("good", (0, 4, -2.0)))
    assert shown[2] == "good"
    assert terminal.grounds() == {"good": (126, 58, 0)}


def test_all_zero() -> None:
    terminal = Terminal()
    shown = terminal.show(explain("a b", (0, 1, 0.0), (2, 3, 0.0), ends=1.0))
    assert shown[4] == "Every score is zero."
    assert terminal.grounds() == {}


def test_a_long_text_lists_the_strongest_only() -> None:
    text = "a" * 100
    explanation = explain(text, *((place, place + 1, float(place + 1)) for place in range(100)))
    coloured, plain = Terminal().show(explanation), Terminal(None).show(explanation)
    assert coloured[4].endswith("+100.000")
    assert coloured[10].strip() == "and 94 weaker"
    assert plain[4].endswith("+77.000")
    assert plain[28].strip() == "and 76 weaker"


def test_what_was_cut_is_struck_out() -> None:
    terminal = Terminal()
    terminal.show(explain("one two", (0, 3, 1.0), cut=1))
    assert [text for text, style in terminal.styles().items() if style.strike] == [" two"]


def test_the_default_console_is_the_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    film().show()
    assert capsys.readouterr().out.startswith("attcat explains positive (75.0%)\n")


def test_the_check_and_the_scale_are_told_in_words() -> None:
    strongest = HiddenUnits((1, 3), ("fine", "."), 0.41, 0.963, 20, 0.971, 0.95, 0.98, 1.0, "weak")
    shown = Terminal().show(film(level="word", check=Check("weak", 0.977, "delete", 2, strongest=strongest)))
    assert (
        " weak  Hiding the 2 strongest words: 97.7% -> 41.0%. Hiding 2 words at random: 97.1% (95 to 98)."
        " Keeping only them: 96.3%."
    ) in shown
    assert 'Hidden: "fine", "."; 20 random choices.' in shown
    assert "scale: -2.000 against to +2.000 for; the method scored each word as a whole" in shown
    assert "scale: -2.000 against to +2.000 for; together they could move 75.0% by 66.7 points" in Terminal().show(
        film()
    )
    unsigned = explain("a b", (0, 1, 0.9), (2, 3, 1.0), signed=False)
    assert "scale: 0.900 to 1.000, without sign" in Terminal().show(unsigned)


def test_tiny_scores_are_told_and_stay_pale() -> None:
    terminal = Terminal()
    shown = terminal.show(explain("gorgeous film", (0, 8, -0.003), (9, 13, 0.001), probability=0.998))
    assert shown[1].startswith("The scores are tiny: the model is saturated.")
    assert terminal.grounds() == {}
    assert terminal.styles()["gorgeous"].dim


@pytest.mark.parametrize(("theme", "expected"), [("light", (78, 144, 244)), ("dark", (32, 102, 206)), ("none", None)])
def test_the_theme_is_what_is_asked_for(
    theme: Theme, expected: tuple[int, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORFGBG", "0;15" if theme == "dark" else "15;0")
    terminal = Terminal()
    print_explanation(film(), console=terminal.console, theme=theme)
    assert terminal.grounds().get("fine") == expected
    assert ("\x1b" in terminal.output.getvalue()) is (theme != "none")


def test_a_dark_terminal_that_says_so_gets_boxes_for_weak_words_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", "15;0")
    terminal = Terminal()
    terminal.show(film())
    assert terminal.grounds()["."] == (24, 44, 73)


def test_standard_errors_stand_behind_their_scores() -> None:
    told = "\n".join(Terminal().show(film(standard_errors=(0.1, 0.25, 0.0625, 0.0))))
    assert re.search(r"fine .* \+2\.000 +±0\.250", told)
    assert re.search(r"film .* -1\.000 +±0\.062", told)
    assert "standard error ±0.250 at most, beside a largest score of 2.000" in told
    assert "±" not in "\n".join(Terminal().show(film()))
    exact = "\n".join(Terminal().show(film(standard_errors=(0.0,) * 4)))
    assert "the scores are exact, nothing was drawn at random" in exact
