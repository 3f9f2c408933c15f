"""A comparison made by hand, and what its views must show of it."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from report.sentences import explain, film
from report.test_html import NASTY, Reader
from wherefrom.core.comparison import Comparison, Grade, printed
from wherefrom.core.explanation import Explanation
from wherefrom.report.comparison import breakable, fragment, page
from wherefrom.report.comparison_sheet import ordinal, sheet
from wherefrom.report.comparison_terminal import print_comparison

METRICS = ("aopc", "log_odds", "kendall_confidence")
VIEWS = [page, fragment]


def grades(aopc: float, odds: float, kendall: float | None, why: str = "") -> tuple[Grade, ...]:
    return (
        Grade("aopc", aopc, "higher", "mask"),
        Grade("log_odds", odds, "lower", "unk", details={"instead_of": "pad"}),
        Grade("kendall_confidence", kendall, "lower", why=why),
    )


def three(**more: Any) -> Comparison:
    """attcat is best by aopc, alti by log_odds; lime is second by both, so that its mean rank is between theirs."""
    given: dict[str, Any] = {
        "explanations": (
            film(method="alti", signed=False, seconds=0.25, forwards=1, params={"norm": "l2"}),
            film(seconds=0.002, forwards=0, backwards=1),
            film(method="lime", seconds=3.5, forwards=255),
        ),
        "grades": (
            grades(0.1, -3.0, None, "alti gives every class the same scores"),
            grades(0.5, -1.0, -0.25),
            grades(0.25, -2.0, -0.00004),
        ),
        "names": ("alti:norm=l2", "attcat", "lime"),
        "failed": {"attention_flow": "it needs attention"},
        "asked": 1234,
        "distinct": 56,
        "rows": 55,
        "seconds": 0.5,
    }
    return Comparison(**(given | more))


def cut(comparison: Comparison, methods: int, metrics: int = len(METRICS)) -> Comparison:
    """Its first methods and metrics."""
    kept = tuple(row[:metrics] for row in comparison.grades[:methods])
    return replace(
        comparison, explanations=comparison.explanations[:methods], grades=kept, names=comparison.names[:methods]
    )


def shown(
    comparison: Comparison, *, width: int = 100, encoding: str = "utf-8", colour: bool = False, full: bool = True
) -> str:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding, errors="strict", newline="\n")
    print_comparison(
        comparison,
        full=full,
        console=Console(file=out, width=width, force_terminal=colour, color_system="truecolor" if colour else None),
    )
    out.flush()
    return raw.getvalue().decode(encoding)


# What all views share


def test_the_sheet_is_ordered_by_mean_rank() -> None:
    table = sheet(three())
    # attcat: 1, 3, 1; lime: 2, 2, 2; alti: 3, 1 and no third
    assert [(line.name, line.mean_rank) for line in table.lines] == [
        ("attcat", 5 / 3),
        ("alti:norm=l2", 2.0),
        ("lime", 2.0),
    ]
    assert [[cell.rank for cell in line.cells] for line in table.lines] == [[1, 3, 1], [3, 1, None], [2, 2, 2]]
    assert [[cell.best for cell in line.cells] for line in table.lines] == [
        [True, False, True],
        [False, True, False],
        [False, False, False],
    ]


def test_footnotes_say_why_and_whom_it_concerns() -> None:
    table = sheet(three())
    assert table.footnotes == ("kendall_confidence of alti:norm=l2: gives every class the same scores",)
    assert table.lines[1].cells[2].note == 1
    assert table.lines[1].cells[2].tip == "alti gives every class the same scores"


def test_many_methods_share_a_footnote() -> None:
    names = tuple("abcdefg")
    rows = tuple(grades(0.5, 0.5, None, f"{name} gives every class the same scores") for name in names)
    base = three(explanations=tuple(film(method=name) for name in names), names=names, grades=rows)
    assert sheet(base).footnotes == ("kendall_confidence of every method: gives every class the same scores",)
    defined = (*rows[:-1], grades(0.5, 0.5, 1.0))
    some = replace(base, grades=defined)
    assert sheet(some).footnotes == ("kendall_confidence of a, b, c, d and 2 more: gives every class the same scores",)


def test_remarks_and_counts() -> None:
    table = sheet(three())
    assert table.remarks == (
        "attention_flow could not explain this text: it needs attention",
        "log_odds: hides by unk, as this tokenizer has no pad token",
    )
    assert table.counts == "The metrics asked 1,234 questions: 56 of them new, 55 rows through the model, 0.50 s."
    assert sheet(three(asked=0)).counts == "The metrics asked the model no questions."


def test_equals_share_a_place_and_nobody_is_best_where_all_are_equal() -> None:
    same = three(grades=(grades(0.5, 1.0, 0.0), grades(0.5, 2.0, 0.0), grades(0.5, 1.0, 0.0)))
    cells = {line.name: line.cells for line in sheet(same).lines}
    assert [(cells[name][0].rank, cells[name][0].best) for name in same.names] == [(1, False)] * 3
    assert [(cells[name][1].rank, cells[name][1].best) for name in same.names] == [(1, True), (3, False), (1, True)]


def test_one_explanation_has_no_places() -> None:
    table = sheet(cut(three(), 1))
    assert not table.ranked
    assert [cell.rank for cell in table.lines[0].cells] == [None, None, None]
    assert "★" not in shown(cut(three(), 1))
    assert "mean rank" not in page(cut(three(), 1))


def test_what_was_computed_before_is_shared_and_not_free() -> None:
    first, second = film(seconds=0.5, forwards=1), film(method="cam", seconds=0.0001)
    lines = sheet(cut(three(explanations=(first, second, film(method="by hand"))), 3)).lines
    assert {line.explanation.method: (line.time, line.passes) for line in lines} == {
        "attcat": ("0.50 s", "1 + 0"),
        "cam": ("shared", "shared"),
        "by hand": ("–", "–"),
    }


@pytest.mark.parametrize("view", [*VIEWS, shown])
def test_the_conclusion_comes_before_the_table(view: Any) -> None:
    html = " ".join(view(concluding()).split())
    said = (
        "attcat is supported on this text; alti is weakly supported; lime is no better than random. The methods"
        " disagree most on “fine”: by attcat it speaks for positive, by lime against."
    )
    assert said in html
    assert html.index(said) < html.index("0.500")


def test_random_is_not_called_supported() -> None:
    """It is what the others are compared with, so that nothing was found out about itself."""
    found = concluding()
    best = found.grades[0]
    alike = replace(found, grades=(best, best, best, found.grades[3]))
    assert sheet(alike).conclusion.startswith("Every method but random is supported on this text.")


def concluding() -> Comparison:
    """Better than random by both questions, by one, by none; lime has the sign of the strongest word wrong."""

    def row(drop: float, share: float) -> tuple[Grade, ...]:
        return (
            Grade("aopc", drop, "higher", group="erasure"),
            Grade("faithfulness_violation", share, "lower", group="one at a time"),
        )

    def scored(method: str, fine: float, plot: float, *, signed: bool = True) -> Explanation:
        """Seven words, which are enough for a verdict."""
        words = ((0, 1, 0.0), (2, 6, fine), (7, 11, plot), (12, 15, 0.1), (16, 18, 0.0), (19, 23, 0.2), (23, 24, 0.1))
        return explain("A fine plot for so long.", *words, method=method, signed=signed)

    return Comparison(
        (scored("attcat", 2, -1), scored("alti", 2, 1, signed=False), scored("lime", -2, 1), scored("random", 2, -1)),
        (row(0.5, 0.1), row(0.5, 0.5), row(0.1004, 0.5), row(0.1, 0.4)),
        ("attcat", "alti", "lime", "random"),
    )


@pytest.mark.parametrize(
    ("place", "text"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (21, "21st")]
)
def test_ordinals(place: int, text: str) -> None:
    assert ordinal(place) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.12345, "0.123"), (-0.0001, "0.000"), (0.0, "0.000"), (-12.5, "-12.500"), (123456.0, "1.23e+05")],
)
def test_figures(value: float, text: str) -> None:
    assert printed(value) == text


# The terminal


def test_the_table_in_a_wide_terminal() -> None:
    assert [line.rstrip() for line in shown(three()).splitlines()] == [
        "The methods agree that “fine” matters most.",
        "3 explanations of positive (75.0%), by token",
        "",
        "              mean                            kendall_",
        "method        rank    aopc ↑  log_odds ↓  confidence ↓    time      passes",
        "attcat         1.7  0.500 ★    -1.000 3      -0.250 ★   2.0 ms  shared + 1",
        "alti:norm=l2   2.0  0.100 3    -3.000 ★          [1]    0.25 s       1 + 0",
        "lime           2.0  0.250 2    -2.000 2       0.000 2   3.50 s     255 + 0",
        "",
        "[1] not defined: kendall_confidence of alti:norm=l2: gives every class the same scores",
        "",
        "attention_flow could not explain this text: it needs attention",
        "log_odds: hides by unk, as this tokenizer has no pad token",
        "",
        "↑ higher is better · ↓ lower is better · ★ the best · small numbers are ranks · passes: rows of",
        "forward + backward passes; shared: computed for a method before it",
        "The metrics asked 1,234 questions: 56 of them new, 55 rows through the model, 0.50 s.",
    ]


def test_in_short_a_table_of_eighty_columns_has_verdicts_three_metrics_and_the_time() -> None:
    """The conclusion comes first; names as long as ours, and no line is wider."""
    names = ("integrated_gradients", "attention_rollout", "random")
    metrics = ("comprehensiveness", "sufficiency", "rft", "faithfulness_violation", "entropy")
    groups = ("erasure", "erasure", "one at a time", "one at a time", "shape")

    def row(value: float) -> tuple[Grade, ...]:
        return tuple(Grade(name, value, "higher", group=group) for name, group in zip(metrics, groups, strict=True))

    long = explain("a b c d e f g", *((2 * place, 2 * place + 1, float(place)) for place in range(7)), seconds=0.0111)
    compared = Comparison(
        tuple(replace(long, method=name, forwards=1) for name in names), (row(0.5), row(0.2), row(0.3)), names
    )
    assert [line.rstrip() for line in shown(compared, width=80, full=False).splitlines()] == [
        "integrated_gradients is supported on this text; attention_rollout is no better",
        "than random. The methods agree that “g” matters most.",
        "3 explanations of positive (75.0%), by token",
        "",
        "                                     comprehen-  sufficiency",
        "method                      verdict  siveness ↑            ↑    rft ↑     time",
        "integrated_gradients      supported     0.500 ★      0.500 ★  0.500 ★  11.1 ms",
        "random                            –     0.300        0.300    0.300    11.1 ms",
        "attention_rollout     not supported     0.200        0.200    0.200    11.1 ms",
        "",
        "↑ higher is better · ★ the best · best mean rank first; 2 more metrics, ranks",
        "and passes with --all or show(full=True)",
    ]


def test_few_methods_stand_beside_each_other() -> None:
    """Where metrics for rows take fewer blocks than methods for rows."""
    lines = shown(cut(three(), 2), width=48).splitlines()
    assert [line.split() for line in lines[3:10]] == [
        ["metric", "attcat", "alti:norm=l2"],
        ["aopc", "↑", "0.500", "★", "0.100", "2"],
        ["log_odds", "↓", "-1.000", "2", "-3.000", "★"],
        ["kendall_confidence", "↓", "-0.250", "1", "[1]"],
        ["mean", "rank", "1.3", "1.5"],
        ["time", "2.0", "ms", "0.25", "s"],
        ["passes", "shared", "+", "1", "1", "+", "0"],
    ]


@pytest.mark.parametrize("width", [30, 40, 60, 79, 200])
def test_many_metrics_come_in_blocks_that_fit(width: int) -> None:
    """Sixteen methods by twelve metrics: methods for rows, their names again in every block, every value once."""
    names = [f"method_{number}" for number in range(16)]
    many = tuple(tuple(Grade(f"a_metric_number_{j}", i + j / 100, "higher") for j in range(12)) for i in range(16))
    lines = shown(
        three(grades=many, names=tuple(names), explanations=(film(),) * 16, failed={}), width=width
    ).splitlines()
    rows = [line for line in lines if line.startswith("method_")]
    assert max(len(line) for line in lines) <= width
    for i, name in enumerate(names):
        own = " ".join(line for line in rows if line.split()[0] == name)
        assert [float(value) for value in re.findall(r"\d+\.\d{3}", own)] == [i + j / 100 for j in range(12)]
    assert (len(rows) == 16) == (width == 200)


def test_places_of_one_and_two_digits_keep_decimals_in_line() -> None:
    many = tuple((Grade("aopc", i / 10, "higher"),) for i in range(12))
    lines = shown(
        three(grades=many, names=tuple(map(str, range(12))), explanations=(film(),) * 12, failed={})
    ).splitlines()
    rows = [line for line in lines if re.search(r"\d\.\d{3}", line)]
    assert len({re.search(r"\d\.\d{3}", line).start() for line in rows if re.search(r"\d\.\d{3}", line)}) == 1  # type: ignore[union-attr]
    assert [line.split()[3] for line in rows[:2]] == ["★", "2"]


def test_the_best_is_bold() -> None:
    seen = Text.from_ansi(shown(three(), colour=True))
    bold = [seen.plain[span.start : span.end].strip() for span in seen.spans if getattr(span.style, "bold", False)]
    assert bold == [
        "The methods agree that “fine” matters most.",
        "positive",
        "0.500 ★",
        "-0.250 ★",
        "-3.000 ★",
    ]


def test_an_ascii_terminal_gets_ascii() -> None:
    out = shown(three(explanations=(film(target="é"), film(target="é"), film(target="é"))), encoding="ascii")
    assert "0.500 *" in out
    assert "aopc (+)" in out
    assert "\\xe9" in out


def test_another_prediction_is_told() -> None:
    other = film(prediction="negative", probabilities={"negative": 0.8})
    assert "the model predicts negative (80.0%)" in shown(three(explanations=(other,) * 3))
    for view in VIEWS:
        assert "the model predicts" in view(three(explanations=(other,) * 3))


def empty() -> Comparison:
    return Comparison((), (), (), {"alti": "no"})


def test_nothing_to_compare() -> None:
    assert shown(empty()).splitlines() == [
        "There is nothing to compare: no method could explain this text.",
        "",
        "alti could not explain this text: no",
        "",
        "The metrics asked the model no questions.",
    ]
    for view in VIEWS:
        assert "No method could explain this text." in Reader(view(empty())).texts


def test_no_metrics_is_no_error() -> None:
    bare = cut(three(), 3, 0)
    assert "attcat" in shown(bare)
    for view in VIEWS:
        assert Reader(view(bare)).lines == ["A  fine film."] * 3


def test_a_terminal_is_sent_no_commands() -> None:
    bad = "a\x1b[31m\x07"
    out = shown(three(names=(bad, "b", "c"), failed={bad: bad}, explanations=(film(target=bad),) * 3))
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "a\\x1b[31m\\x07" in out


# HTML


def cells(html: str) -> list[dict[str, str]]:
    return [given for tag, given in Reader(html).elements if tag == "td"]


@pytest.mark.parametrize("view", VIEWS)
def test_each_method_has_its_colours_beside_its_numbers(view: Any) -> None:
    reader = Reader(view(three()))
    assert reader.lines == ["A  fine film."] * 3
    sides = [given["class"] for text, given in reader.words if text == "fine"]
    assert sides == ["t for", "t only", "t for"]  # in the table's order: attcat, alti, lime
    values = [cell["data-value"] for cell in cells(view(three()))]
    # mean rank, the metrics, seconds, rows
    assert values[:6] == ["1.7", "0.5", "-1.0", "-0.25", "0.002", "1"]
    assert values[6:12] == ["2.0", "0.1", "-3.0", "", "0.25", "1"]


@pytest.mark.parametrize("view", VIEWS)
def test_best_places_and_reasons(view: Any) -> None:
    found = cells(view(three()))
    assert [cell.get("class", "") for cell in found[:4]] == ["", "ranked best", "ranked", "ranked best"]
    assert [cell["style"] for cell in found[1:4]] == ["--r:1.00", "--r:0.00", "--r:1.00"]
    assert found[1]["title"] == "0.5, place 1 of 3"
    assert found[9]["class"] == "none"
    assert found[9]["title"] == "alti gives every class the same scores"
    texts = Reader(view(three())).texts
    assert "kendall_confidence of alti:norm=l2: gives every class the same scores" in texts
    assert "attention_flow could not explain this text: it needs attention" in texts
    assert any("The metrics asked 1,234 questions" in text for text in texts)


def test_all_equal_has_no_ground() -> None:
    same = three(grades=(grades(0.5, 1.0, 0.0), grades(0.5, 2.0, 0.0), grades(0.5, 1.0, 0.0)))
    styles = [cell["style"] for cell in cells(page(same)) if "style" in cell]
    assert styles == ["--r:0", "--r:1.00", "--r:0"] * 2 + ["--r:0", "--r:0.00", "--r:0"]


def test_a_name_tells_what_to_know_about_its_numbers() -> None:
    doubtful = three(explanations=(film(method="alti", gap=0.5, params={"norm": "l2"}, notes=("few samples",)),) * 3)
    tips = [given.get("title", "") for tag, given in Reader(page(doubtful)).elements if given.get("class") == "name"]
    assert len(tips) == 3
    for line in ("options: norm=l2", "completeness gap: +0.5", "note: few samples"):
        assert line in tips[0].splitlines()


def test_headings_can_be_reached_and_sort_the_best_first() -> None:
    elements = Reader(page(three())).elements
    buttons = [given for tag, given in elements if tag == "button"]
    assert [button["data-first"] for button in buttons] == [
        "up",
        "up",
        "down",
        "up",
        "up",
        "up",
        "up",
    ]  # aopc: higher is better
    assert all(button["type"] == "button" for button in buttons)
    assert any(given.get("class") == "scroll" and given.get("tabindex") == "0" for _, given in elements)


def test_a_notebook_gets_no_script() -> None:
    assert not {"script", "button", "html"} & Reader(fragment(three())).tags()
    assert three()._repr_html_() == fragment(three())
    assert three().to_html() == page(three())


def test_special_tokens_have_their_switch() -> None:
    ends = three(explanations=tuple(replace(film(ends=9.0), method=name) for name in ("alti", "attcat", "lime")))
    assert any(given.get("id") == "special" for _, given in Reader(page(ends)).elements)
    assert "[CLS]" not in fragment(ends)
    assert not any(given.get("id") == "special" for _, given in Reader(page(three())).elements)


@pytest.mark.parametrize("view", VIEWS)
def test_everything_of_the_user_is_escaped(view: Any) -> None:
    nasty = explain(NASTY, (0, 5, 1.0), (5, len(NASTY), -1.0), target=NASTY, prediction=NASTY + "2", method=NASTY)
    given = three(
        explanations=(nasty,) * 3,
        names=(NASTY, NASTY + "2", NASTY + "3"),
        failed={NASTY: NASTY},
        grades=tuple((Grade(NASTY, None, "higher", NASTY, NASTY, {"instead_of": NASTY}),) for _ in range(3)),
    )
    reader = Reader(view(given))
    assert reader.lines == [NASTY] * 3
    assert "img" not in reader.tags()
    assert view(given).count("<script") == view(three()).count("<script")
    assert view(given).count("</style") == view(three()).count("</style")
    assert not [
        name
        for _, attributes in reader.elements
        for name in attributes
        if name.startswith("on") or name in ("src", "href")
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_comes_from_elsewhere(view: Any) -> None:
    assert not re.search(r"https?:|//\w|url\(|@import|<link", view(three()))


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("aopc", ["aopc"]),
        ("faithfulness_violation", ["faithfulness_", "violation"]),
        ("a:b=c,d_", ["a:", "b=", "c,", "d_"]),
    ],
)
def test_names_may_be_broken(name: str, parts: list[str]) -> None:
    assert breakable(name) == parts


def test_many_metrics_are_written_upwards() -> None:
    assert 'class="grades"' in page(three())
    wide = three(grades=tuple(row * 2 for row in three().grades))
    assert 'class="grades upwards"' in page(wide)


def test_no_view_loads_torch() -> None:
    code = (
        "import sys, wherefrom.report.comparison, wherefrom.report.comparison_terminal;"
        " assert not {'torch', 'transformers', 'numpy', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
